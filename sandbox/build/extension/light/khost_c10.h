// The plain types of torch's C++ that khost_torch.h uses: element types, sizes, devices and the options that tensors
// are created with.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cfloat>
#include <climits>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <iostream>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <ostream>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "khost_object.h"

namespace c10 {

using khost_light::Object;

enum class ScalarType : std::int8_t {
  Byte = 0,
  Char = 1,
  Short = 2,
  Int = 3,
  Long = 4,
  Half = 5,
  Float = 6,
  Double = 7,
  Bool = 11,
  BFloat16 = 15
};
enum class DeviceType : std::int8_t { CPU = 0, CUDA = 1 };
enum class Layout : std::int8_t { Strided = 0 };

// Bits alone: arithmetic with them needs torch's own headers.
struct Half {
  std::uint16_t x;
};
struct BFloat16 {
  std::uint16_t x;
};

inline const char* name_of(ScalarType type) {
  switch (type) {
    case ScalarType::Byte:
      return "uint8";
    case ScalarType::Char:
      return "int8";
    case ScalarType::Short:
      return "int16";
    case ScalarType::Int:
      return "int32";
    case ScalarType::Long:
      return "int64";
    case ScalarType::Half:
      return "float16";
    case ScalarType::Float:
      return "float32";
    case ScalarType::Double:
      return "float64";
    case ScalarType::Bool:
      return "bool";
    case ScalarType::BFloat16:
      return "bfloat16";
  }
  return "?";
}
inline std::ostream& operator<<(std::ostream& out, ScalarType type) {
  return out << name_of(type);
}

inline Object dtype_object(ScalarType type) {
  return khost_light::torch().attribute(name_of(type));
}

inline ScalarType scalar_type_of(const Object& dtype) {
  for (const ScalarType type :
       {ScalarType::Float, ScalarType::Half, ScalarType::BFloat16, ScalarType::Double, ScalarType::Long,
        ScalarType::Int, ScalarType::Bool, ScalarType::Byte, ScalarType::Char, ScalarType::Short}) {
    if (dtype_object(type).get() == dtype.get()) {
      return type;
    }
  }
  throw std::runtime_error("a dtype that extensions without torch's headers do not know");
}

template <class T>
struct CppType;
template <>
struct CppType<std::uint8_t> {
  static constexpr ScalarType type = ScalarType::Byte;
};
template <>
struct CppType<std::int8_t> {
  static constexpr ScalarType type = ScalarType::Char;
};
template <>
struct CppType<std::int16_t> {
  static constexpr ScalarType type = ScalarType::Short;
};
template <>
struct CppType<std::int32_t> {
  static constexpr ScalarType type = ScalarType::Int;
};
template <>
struct CppType<std::int64_t> {
  static constexpr ScalarType type = ScalarType::Long;
};
template <>
struct CppType<Half> {
  static constexpr ScalarType type = ScalarType::Half;
};
template <>
struct CppType<BFloat16> {
  static constexpr ScalarType type = ScalarType::BFloat16;
};
template <>
struct CppType<float> {
  static constexpr ScalarType type = ScalarType::Float;
};
template <>
struct CppType<double> {
  static constexpr ScalarType type = ScalarType::Double;
};
template <>
struct CppType<bool> {
  static constexpr ScalarType type = ScalarType::Bool;
};

// Sizes or strides; owned, so that none outlives what it came from.
class IntArrayRef {
 public:
  IntArrayRef() = default;
  IntArrayRef(std::int64_t one) : values_{one} {}
  IntArrayRef(std::initializer_list<std::int64_t> values) : values_(values) {}
  IntArrayRef(std::vector<std::int64_t> values) : values_(std::move(values)) {}
  std::size_t size() const { return values_.size(); }
  bool empty() const { return values_.empty(); }
  const std::int64_t& operator[](std::size_t i) const { return values_[i]; }
  std::int64_t at(std::size_t i) const { return values_.at(i); }
  std::int64_t front() const { return values_.front(); }
  std::int64_t back() const { return values_.back(); }
  auto begin() const { return values_.begin(); }
  auto end() const { return values_.end(); }
  const std::int64_t* data() const { return values_.data(); }
  std::vector<std::int64_t> vec() const { return values_; }
  bool operator==(const IntArrayRef& other) const { return values_ == other.values_; }
  bool operator!=(const IntArrayRef& other) const { return values_ != other.values_; }
  bool equals(const IntArrayRef& other) const { return *this == other; }

 private:
  std::vector<std::int64_t> values_;
};

inline std::ostream& operator<<(std::ostream& out, const IntArrayRef& sizes) {
  out << "[";
  for (std::size_t i = 0; i < sizes.size(); i++) {
    out << (i > 0 ? ", " : "") << sizes[i];
  }
  return out << "]";
}

inline Object tuple_of(const IntArrayRef& values) {
  const khost_light::Lock lock;
  Object tuple = Object::steal(PyTuple_New(static_cast<Py_ssize_t>(values.size())));
  for (std::size_t i = 0; i < values.size(); i++) {
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), PyLong_FromLongLong(values[i]));
  }
  return tuple;
}

inline IntArrayRef integers_of(const Object& sequence) {
  const khost_light::Lock lock;
  const Object fast = Object::steal(PySequence_Tuple(sequence.get()));
  std::vector<std::int64_t> values;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(fast.get()); i++) {
    values.push_back(Object::borrow(PyTuple_GET_ITEM(fast.get(), i)).integer());
  }
  return values;
}

class Device {
 public:
  Device(DeviceType type, int index = -1) : type_(type), index_(index) {}
  DeviceType type() const { return type_; }
  int index() const { return index_; }
  bool is_cuda() const { return type_ == DeviceType::CUDA; }
  bool is_cpu() const { return type_ == DeviceType::CPU; }
  bool operator==(const Device& other) const { return type_ == other.type_ && index_ == other.index_; }
  bool operator!=(const Device& other) const { return !(*this == other); }
  std::string str() const {
    return std::string(is_cuda() ? "cuda" : "cpu") + (index_ >= 0 ? ":" + std::to_string(index_) : "");
  }

 private:
  DeviceType type_;
  int index_;
};
inline std::ostream& operator<<(std::ostream& out, const Device& device) {
  return out << device.str();
}

class TensorOptions {
 public:
  TensorOptions() = default;
  TensorOptions(ScalarType type) : type_(type) {}
  TensorOptions(Device device) : device_(device) {}
  TensorOptions(DeviceType device) : device_(Device(device)) {}
  TensorOptions dtype(ScalarType type) const {
    return with([&](TensorOptions& o) { o.type_ = type; });
  }
  TensorOptions device(Device device) const {
    return with([&](TensorOptions& o) { o.device_ = device; });
  }
  TensorOptions device(DeviceType type, int index = -1) const { return device(Device(type, index)); }
  TensorOptions layout(Layout) const { return *this; }
  TensorOptions requires_grad(bool wanted) const {
    if (wanted) {
      throw std::runtime_error("tensors of an extension have no gradient");
    }
    return *this;
  }
  Object keywords() const {
    const khost_light::Lock lock;
    Object result = Object::steal(PyDict_New());
    if (type_) {
      PyDict_SetItemString(result.get(), "dtype", dtype_object(*type_).get());
    }
    if (device_) {
      PyDict_SetItemString(result.get(), "device", Object::steal(PyUnicode_FromString(device_->str().c_str())).get());
    }
    return result;
  }

 private:
  template <class F>
  TensorOptions with(F change) const {
    TensorOptions result = *this;
    change(result);
    return result;
  }
  std::optional<ScalarType> type_;
  std::optional<Device> device_;
};

template <class T>
using optional = std::optional<T>;
inline constexpr std::nullopt_t nullopt = std::nullopt;
template <class T>
using ArrayRef = std::vector<T>;

}  // namespace c10
