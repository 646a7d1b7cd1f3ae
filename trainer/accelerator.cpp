#include "trainer/accelerator.h"

#include <dlfcn.h>
#include <unistd.h>

#include <filesystem>
#include <stdexcept>

namespace khost::trainer {
namespace {

constexpr const char* kLibrary = "libkhost_trainer_cuda.so";

Accelerator* opened = nullptr;

Result<Accelerator*> load() {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::string path = (program.parent_path() / kLibrary).string();
  if (error || !std::filesystem::exists(path)) {
    return Failure{"device cuda: " + path + " is not there: khost was built without a CUDA toolkit", "host"};
  }
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return Failure{std::string("device cuda: ") + dlerror(), "host"};
  }
  using Make = Accelerator* (*)(std::string * why);
  const auto make = reinterpret_cast<Make>(dlsym(library, "khost_trainer_accelerator"));
  if (make == nullptr) {
    return Failure{"device cuda: " + path + " is another version's", "host"};
  }
  std::string why;
  opened = make(&why);
  if (opened == nullptr) {
    return Failure{"device cuda: " + why, "host"};
  }
  return opened;
}

}  // namespace

Result<Accelerator*> open_accelerator() {
  static const Result<Accelerator*> loaded = load();
  return loaded;
}

Accelerator& accelerator() {
  if (opened == nullptr) {
    throw std::logic_error("no accelerator was opened");
  }
  return *opened;
}

void prepare_devices() {
  if (access("/dev/nvidiactl", F_OK) == 0) {
    (void)open_accelerator();
  }
}

}  // namespace khost::trainer
