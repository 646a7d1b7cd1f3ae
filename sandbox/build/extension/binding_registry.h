// How a file in kernels/ of a CUDA-Agent workspace adds its functions to the module cuda_extension: the names that the
// released workspace has. REGISTER_BINDING(name, function) with `void function(pybind11::module&)`.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

class __attribute__((visibility("hidden"))) BindingRegistry {
 public:
  using BindingFunction = std::function<void(pybind11::module&)>;

  static BindingRegistry& getInstance() {
    static BindingRegistry registry;
    return registry;
  }
  void registerBinding(const std::string& name, BindingFunction function) {
    functions_.emplace_back(name, std::move(function));
  }
  void applyBindings(pybind11::module& module) {
    for (auto& [name, function] : functions_) {
      function(module);
    }
  }

 private:
  std::vector<std::pair<std::string, BindingFunction>> functions_;
};

struct __attribute__((visibility("hidden"))) BindingRegistrar {
  BindingRegistrar(const std::string& name, BindingRegistry::BindingFunction function) {
    BindingRegistry::getInstance().registerBinding(name, std::move(function));
  }
};

#define REGISTER_BINDING(name, function) \
  static BindingRegistrar khost_registrar_##name(#name, [](pybind11::module& module) { function(module); })
