// As much of torch's C++ as extensions with kernels of their own use: tensors that are created, viewed and pointed
// into. What is missing here does not compile, and then the extension is compiled with torch's own headers, which takes
// ten times as long.
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

namespace at {

using c10::BFloat16;
using c10::Device;
using c10::DeviceType;
using c10::Half;
using c10::IntArrayRef;
using c10::Layout;
using c10::ScalarType;
using c10::TensorOptions;
using khost_light::Object;

constexpr ScalarType kByte = ScalarType::Byte, kChar = ScalarType::Char, kShort = ScalarType::Short,
                     kInt = ScalarType::Int, kLong = ScalarType::Long, kHalf = ScalarType::Half,
                     kFloat = ScalarType::Float, kDouble = ScalarType::Double, kBool = ScalarType::Bool,
                     kBFloat16 = ScalarType::BFloat16, kUInt8 = kByte, kInt8 = kChar, kInt16 = kShort, kInt32 = kInt,
                     kInt64 = kLong, kFloat16 = kHalf, kFloat32 = kFloat, kFloat64 = kDouble;
constexpr DeviceType kCUDA = DeviceType::CUDA, kCPU = DeviceType::CPU;
constexpr Layout kStrided = Layout::Strided;

class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(Object object) : object_(std::move(object)) {}
  const Object& object() const { return object_; }

  bool defined() const { return static_cast<bool>(object_); }
  std::int64_t dim() const { return object_.call("dim").integer(); }
  std::int64_t ndimension() const { return dim(); }
  std::int64_t numel() const { return object_.call("numel").integer(); }
  std::int64_t size(std::int64_t d) const { return object_.call("size", "L", static_cast<long long>(d)).integer(); }
  std::int64_t stride(std::int64_t d) const { return object_.call("stride", "L", static_cast<long long>(d)).integer(); }
  IntArrayRef sizes() const { return c10::integers_of(object_.attribute("shape")); }
  IntArrayRef strides() const { return c10::integers_of(object_.call("stride")); }
  std::int64_t storage_offset() const { return object_.call("storage_offset").integer(); }
  std::int64_t element_size() const { return object_.call("element_size").integer(); }
  std::int64_t itemsize() const { return element_size(); }
  std::size_t nbytes() const { return static_cast<std::size_t>(numel() * element_size()); }
  bool is_cuda() const { return object_.attribute("is_cuda").truth(); }
  bool is_cpu() const { return object_.attribute("is_cpu").truth(); }
  bool is_contiguous() const { return object_.call("is_contiguous").truth(); }
  bool is_floating_point() const { return object_.call("is_floating_point").truth(); }
  bool requires_grad() const { return object_.attribute("requires_grad").truth(); }
  std::int64_t get_device() const { return object_.call("get_device").integer(); }
  ScalarType scalar_type() const { return c10::scalar_type_of(object_.attribute("dtype")); }
  ScalarType dtype() const { return scalar_type(); }
  Device device() const {
    return is_cuda() ? Device(DeviceType::CUDA, static_cast<int>(get_device())) : Device(DeviceType::CPU);
  }
  TensorOptions options() const { return TensorOptions(scalar_type()).device(device()); }

  void* data_ptr() const {
    const khost_light::Lock lock;
    return PyLong_AsVoidPtr(object_.call("data_ptr").get());
  }
  template <class T>
  T* data_ptr() const {
    if (c10::CppType<std::remove_const_t<T>>::type != scalar_type()) {
      throw std::runtime_error(khost_light::text_of("expected scalar type ", c10::CppType<std::remove_const_t<T>>::type,
                                                    " but found ", scalar_type()));
    }
    return static_cast<T*>(data_ptr());
  }
  template <class T>
  const T* const_data_ptr() const {
    return data_ptr<T>();
  }
  template <class T>
  T* mutable_data_ptr() const {
    return data_ptr<T>();
  }

  Tensor contiguous() const { return Tensor(object_.call("contiguous")); }
  Tensor clone() const { return Tensor(object_.call("clone")); }
  Tensor detach() const { return Tensor(object_.call("detach")); }
  Tensor t() const { return Tensor(object_.call("t")); }
  Tensor view(const IntArrayRef& size) const { return shaped("view", size); }
  Tensor reshape(const IntArrayRef& size) const { return shaped("reshape", size); }
  Tensor expand(const IntArrayRef& size) const { return shaped("expand", size); }
  Tensor permute(const IntArrayRef& order) const { return shaped("permute", order); }
  Tensor view_as(const Tensor& other) const { return view(other.sizes()); }
  Tensor transpose(std::int64_t a, std::int64_t b) const {
    return Tensor(object_.call("transpose", "LL", static_cast<long long>(a), static_cast<long long>(b)));
  }
  Tensor unsqueeze(std::int64_t d) const { return Tensor(object_.call("unsqueeze", "L", static_cast<long long>(d))); }
  Tensor squeeze() const { return Tensor(object_.call("squeeze")); }
  Tensor squeeze(std::int64_t d) const { return Tensor(object_.call("squeeze", "L", static_cast<long long>(d))); }
  Tensor flatten(std::int64_t from = 0, std::int64_t to = -1) const {
    return Tensor(object_.call("flatten", "LL", static_cast<long long>(from), static_cast<long long>(to)));
  }
  Tensor select(std::int64_t d, std::int64_t i) const {
    return Tensor(object_.call("select", "LL", static_cast<long long>(d), static_cast<long long>(i)));
  }
  Tensor narrow(std::int64_t d, std::int64_t from, std::int64_t count) const {
    return Tensor(object_.call("narrow", "LLL", static_cast<long long>(d), static_cast<long long>(from),
                               static_cast<long long>(count)));
  }
  Tensor to(ScalarType type) const { return Tensor(object_.call("to", "O", c10::dtype_object(type).get())); }
  Tensor to(Device device) const { return Tensor(object_.call("to", "s", device.str().c_str())); }
  const Tensor& zero_() const { return in_place(object_.call("zero_")); }
  const Tensor& fill_(double value) const { return in_place(object_.call("fill_", "d", value)); }
  const Tensor& copy_(const Tensor& other) const { return in_place(object_.call("copy_", "O", other.object_.get())); }

 private:
  Tensor shaped(const char* name, const IntArrayRef& size) const {
    return Tensor(object_.call(name, "(O)", c10::tuple_of(size).get()));
  }
  const Tensor& in_place(const Object&) const { return *this; }
  Object object_;
};

using TensorList = std::vector<Tensor>;

namespace light {
inline Tensor make(const char* name, Object arguments, const TensorOptions& options) {
  const khost_light::Lock lock;
  const Object function = khost_light::torch().attribute(name);
  return Tensor(Object::steal(PyObject_Call(function.get(), arguments.get(), options.keywords().get())));
}
inline Object pack(const char* format, PyObject* object) {
  const khost_light::Lock lock;
  return Object::steal(Py_BuildValue(format, object));
}
inline Tensor sized(const char* name, const IntArrayRef& size, const TensorOptions& options) {
  return make(name, pack("(O)", c10::tuple_of(size).get()), options);
}
inline Tensor like(const char* name, const Tensor& other, const TensorOptions& options) {
  return make(name, pack("(O)", other.object().get()), options);
}
}  // namespace light

inline Tensor empty(const IntArrayRef& size, const TensorOptions& options = {}) {
  return light::sized("empty", size, options);
}
inline Tensor zeros(const IntArrayRef& size, const TensorOptions& options = {}) {
  return light::sized("zeros", size, options);
}
inline Tensor ones(const IntArrayRef& size, const TensorOptions& options = {}) {
  return light::sized("ones", size, options);
}
inline Tensor full(const IntArrayRef& size, double value, const TensorOptions& options = {}) {
  const khost_light::Lock lock;
  return light::make("full", Object::steal(Py_BuildValue("(Od)", c10::tuple_of(size).get(), value)), options);
}
inline Tensor empty_like(const Tensor& other, const TensorOptions& options = {}) {
  return light::like("empty_like", other, options);
}
inline Tensor zeros_like(const Tensor& other, const TensorOptions& options = {}) {
  return light::like("zeros_like", other, options);
}
inline Tensor ones_like(const Tensor& other, const TensorOptions& options = {}) {
  return light::like("ones_like", other, options);
}

}  // namespace at

namespace c10::cuda {

class CUDAStream {
 public:
  explicit CUDAStream(cudaStream_t stream) : stream_(stream) {}
  cudaStream_t stream() const { return stream_; }
  operator cudaStream_t() const { return stream_; }

 private:
  cudaStream_t stream_;
};

inline CUDAStream getCurrentCUDAStream(int = -1) {
  const khost_light::Lock lock;
  const Object stream = khost_light::torch().attribute("cuda").call("current_stream").attribute("cuda_stream");
  return CUDAStream(static_cast<cudaStream_t>(PyLong_AsVoidPtr(stream.get())));
}

// There is one device.
struct CUDAGuard {
  explicit CUDAGuard(int) {}
  explicit CUDAGuard(const Device&) {}
};
struct OptionalCUDAGuard {
  OptionalCUDAGuard() = default;
  template <class T>
  explicit OptionalCUDAGuard(const T&) {}
};

}  // namespace c10::cuda

namespace at {
inline c10::optional<Device> device_of(const Tensor& tensor) {
  return tensor.device();
}
namespace cuda {
using c10::cuda::CUDAGuard;
using c10::cuda::CUDAStream;
using c10::cuda::getCurrentCUDAStream;
using c10::cuda::OptionalCUDAGuard;
}  // namespace cuda
}  // namespace at

namespace torch {
using namespace at;
using at::IntArrayRef;
inline TensorOptions dtype(ScalarType type) {
  return TensorOptions(type);
}
inline TensorOptions device(Device device) {
  return TensorOptions(device);
}
template <class F>
F wrap_pybind_function(F function) {
  return function;
}
}  // namespace torch

#define TORCH_CHECK(condition, ...)                                                                  \
  do {                                                                                               \
    if (!(condition)) {                                                                              \
      throw std::runtime_error(khost_light::message(#condition, khost_light::text_of(__VA_ARGS__))); \
    }                                                                                                \
  } while (false)
#define TORCH_INTERNAL_ASSERT TORCH_CHECK
#define AT_ASSERTM TORCH_CHECK
#define AT_ASSERT TORCH_CHECK
#define C10_CUDA_CHECK(expression)                                                                     \
  do {                                                                                                 \
    const cudaError_t khost_error = (expression);                                                      \
    if (khost_error != cudaSuccess) {                                                                  \
      throw std::runtime_error(khost_light::text_of("CUDA error: ", cudaGetErrorString(khost_error))); \
    }                                                                                                  \
  } while (false)
#define AT_CUDA_CHECK C10_CUDA_CHECK
#define C10_CUDA_KERNEL_LAUNCH_CHECK() C10_CUDA_CHECK(cudaGetLastError())

// The two types that need nothing but the language.
#define AT_DISPATCH_FLOATING_TYPES(khost_type, khost_name, ...)                                                  \
  [&] {                                                                                                          \
    switch (khost_type) {                                                                                        \
      case at::ScalarType::Float: {                                                                              \
        using scalar_t = float;                                                                                  \
        return __VA_ARGS__();                                                                                    \
      }                                                                                                          \
      case at::ScalarType::Double: {                                                                             \
        using scalar_t = double;                                                                                 \
        return __VA_ARGS__();                                                                                    \
      }                                                                                                          \
      default:                                                                                                   \
        throw std::runtime_error(khost_light::text_of("\"", khost_name, "\" not implemented for ", khost_type)); \
    }                                                                                                            \
  }()
