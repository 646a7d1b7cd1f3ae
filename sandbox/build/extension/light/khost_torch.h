// As much of torch's C++ as extensions with kernels of their own use: tensors that are created, viewed and pointed
// into. What is missing here does not compile, and then the extension is compiled with torch's own headers, which takes
// ten times as long.
#pragma once

#include "khost_c10.h"

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
