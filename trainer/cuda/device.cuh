// What kernels share: vectors of elements, sums over a warp and over a block, the check after a launch.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>
#include <stdexcept>
#include <string>

namespace khost::trainer::cuda {

inline void check_launch(const char* name) {
  if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess) {
    throw std::runtime_error(std::string(name) + ": " + cudaGetErrorString(error));
  }
}

__device__ inline float to_float(float x) {
  return x;
}
__device__ inline float to_float(__nv_bfloat16 x) {
  return __bfloat162float(x);
}
template <class T>
__device__ inline T from_float(float x);
template <>
__device__ inline float from_float<float>(float x) {
  return x;
}
template <>
__device__ inline __nv_bfloat16 from_float<__nv_bfloat16>(float x) {
  return __float2bfloat16_rn(x);
}

// N elements that are loaded and stored at once; N * sizeof(T) is a power of two up to 16.
template <class T, int N>
struct alignas(N * sizeof(T)) Vector {
  T at[N];
};

template <class T, int N>
__device__ inline void load(const T* from, float (&to)[N]) {
  const Vector<T, N> v = *reinterpret_cast<const Vector<T, N>*>(from);
#pragma unroll
  for (int i = 0; i < N; ++i) {
    to[i] = to_float(v.at[i]);
  }
}

template <class T, int N>
__device__ inline void store(T* to, const float (&from)[N]) {
  Vector<T, N> v;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    v.at[i] = from_float<T>(from[i]);
  }
  *reinterpret_cast<Vector<T, N>*>(to) = v;
}

__device__ inline float warp_sum(float x) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) {
    x += __shfl_xor_sync(0xffffffffu, x, step);
  }
  return x;
}

// Launches a kernel that may begin before the one ahead of it has ended: its first statement must be
// `wait_for_previous`. The pause between two short kernels is mostly that start.
template <class... Parameters, class... Arguments>
void launch_early(void (*kernel)(Parameters...), dim3 grid, dim3 block, cudaStream_t stream, Arguments... arguments) {
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = block;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...);
}

__device__ inline void wait_for_previous() {
  cudaGridDependencySynchronize();
}

// 1 / root mean square of a row of bf16; every lane of the warp gets it.
__device__ inline float inverse_rms(const __nv_bfloat16* row, int64_t width, float epsilon) {
  float squares = 0;
  for (int64_t c = threadIdx.x % 32 * 2; c < width; c += 64) {
    const float2 two = __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(row + c));
    squares += two.x * two.x + two.y * two.y;
  }
  return rsqrtf(warp_sum(squares) / static_cast<float>(width) + epsilon);
}

// Calls `run` with the element type and the widest vector that divides `width`.
template <class F>
void with_vector(bool half, int64_t width, F run) {
  if (half) {
    if (width % 8 == 0) {
      run(__nv_bfloat16(), std::integral_constant<int, 8>());
    } else if (width % 2 == 0) {
      run(__nv_bfloat16(), std::integral_constant<int, 2>());
    } else {
      run(__nv_bfloat16(), std::integral_constant<int, 1>());
    }
  } else if (width % 4 == 0) {
    run(float(), std::integral_constant<int, 4>());
  } else {
    run(float(), std::integral_constant<int, 1>());
  }
}

}  // namespace khost::trainer::cuda
