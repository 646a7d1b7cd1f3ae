// What a kernel file includes to be called by khost. A launcher is
//
//   extern "C" int scale(const float* x, float* out, int64_t n, float factor, khost::threads threads) { … }
//   KHOST_EXPORT(scale)
//
// and returns 0, or an error code that fails the call. Pointers to const are read, other pointers are
// written. They are 64-byte aligned on a CPU, 256-byte aligned on a GPU, and may change from call to call.
// Tensors of 8-bit floats are given as std::uint8_t, their bits.
// KHOST_EXPORT makes the compiler write the signature into the library, two letters an argument: its role (r
// read, w written, s scalar, W workspace, T threads, S stream, H handles) and its element type. Any other
// argument type does not compile.
#pragma once

#include <cstddef>
#include <cstdint>
#ifdef __CUDACC__
#include <cuda_runtime.h>
// Named only: their headers, cuda_fp16.h and cuda_bf16.h, are for files that calculate with them, since they double
// what a file takes to compile.
struct __half;
struct __nv_bfloat16;
#endif

namespace khost {

// Scratch memory that the caller owns. Its content before a call is arbitrary.
struct workspace {
  void* data;
  std::size_t bytes;
};

// How many threads the kernel may use. `#pragma omp parallel` uses as many without asking.
struct threads {
  int count;
};

// The CUDA stream of this call: launch on it and do not synchronise.
struct stream;

// cuBLAS and cuDNN handles, already bound to the stream: cublasHandle_t, cublasLtHandle_t, cudnnHandle_t.
struct handles {
  void* cublas;
  void* cublas_lt;
  void* cudnn;
};

#ifdef __CUDACC__
inline cudaStream_t cuda(stream* s) {
  return reinterpret_cast<cudaStream_t>(s);
}
using half = __half;
using bfloat16 = __nv_bfloat16;
#else
// 16-bit floats as memory holds them.
struct half {
  std::uint16_t bits;
};
struct bfloat16 {
  std::uint16_t bits;
};

inline float to_float(bfloat16 value) {
  const std::uint32_t wide = static_cast<std::uint32_t>(value.bits) << 16;
  float result;
  __builtin_memcpy(&result, &wide, sizeof result);
  return result;
}

// Rounds to nearest, ties to even; NaN stays NaN.
inline bfloat16 to_bfloat16(float value) {
  std::uint32_t wide;
  __builtin_memcpy(&wide, &value, sizeof wide);
  if ((wide & 0x7fffffffu) > 0x7f800000u) {
    return {static_cast<std::uint16_t>((wide >> 16) | 0x40u)};
  }
  return {static_cast<std::uint16_t>((wide + 0x7fffu + ((wide >> 16) & 1u)) >> 16)};
}
#endif

template <class T>
struct code;  // "incomplete type khost::code<T>": T cannot be an argument of a launcher
#define KHOST_TYPE(T, letter)             \
  template <>                             \
  struct code<T> {                        \
    static constexpr char value = letter; \
  };
KHOST_TYPE(float, 'f')
KHOST_TYPE(double, 'd')
KHOST_TYPE(half, 'e')
KHOST_TYPE(bfloat16, 'g')
KHOST_TYPE(bool, '?')
KHOST_TYPE(std::int8_t, 'b')
KHOST_TYPE(std::uint8_t, 'B')
KHOST_TYPE(std::int16_t, 'h')
KHOST_TYPE(std::int32_t, 'i')
KHOST_TYPE(std::uint32_t, 'I')
KHOST_TYPE(long, 'l')
KHOST_TYPE(long long, 'l')
KHOST_TYPE(unsigned long, 'L')
KHOST_TYPE(unsigned long long, 'L')
#undef KHOST_TYPE

template <class T>
struct argument {
  static constexpr char role = 's', type = code<T>::value;
};
template <class T>
struct argument<const T*> {
  static constexpr char role = 'r', type = code<T>::value;
};
template <class T>
struct argument<T*> {
  static constexpr char role = 'w', type = code<T>::value;
};
template <>
struct argument<workspace> {
  static constexpr char role = 'W', type = '-';
};
template <>
struct argument<threads> {
  static constexpr char role = 'T', type = '-';
};
template <>
struct argument<stream*> {
  static constexpr char role = 'S', type = '-';
};
template <>
struct argument<handles*> {
  static constexpr char role = 'H', type = '-';
};
template <>
struct argument<const handles*> {
  static constexpr char role = 'H', type = '-';
};

template <std::size_t N>
struct text {
  char letters[N];
};

template <class... A>
constexpr text<2 * sizeof...(A) + 1> signature(int (*)(A...)) {
  text<2 * sizeof...(A) + 1> result{};
  std::size_t i = 0;
  ((result.letters[i++] = argument<A>::role, result.letters[i++] = argument<A>::type), ...);
  return result;
}

}  // namespace khost

#define KHOST_EXPORT(name)                                                                        \
  extern "C" __attribute__((used, visibility("default"))) constexpr auto khost_signature_##name = \
      khost::signature(&name);
