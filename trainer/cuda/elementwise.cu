// SwiGLU, rotary positions and the optimizer's step: one thread a vector of elements.
#include "trainer/cuda/device.cuh"
#include "trainer/cuda/generate_kernels.h"
#include "trainer/cuda/kernels.h"

namespace khost::trainer::cuda {
namespace {

constexpr int kThreads = 256;

unsigned blocks_for(int64_t items) {
  return static_cast<unsigned>((items + kThreads - 1) / kThreads);
}

__device__ int64_t item() {
  return int64_t{blockIdx.x} * kThreads + threadIdx.x;
}

__device__ float sigmoid(float x) {
  return 1.0f / (1.0f + __expf(-x));
}

template <class T, int N>
__global__ void swiglu_kernel(const T* __restrict__ gate_up, T* __restrict__ out, int64_t items, int64_t width) {
  wait_for_previous();
  const int64_t at = item() * N;
  if (at >= items) {
    return;
  }
  const int64_t row = at / width;
  const T* gate = gate_up + row * 2 * width + at % width;
  float g[N];
  float u[N];
  load<T, N>(gate, g);
  load<T, N>(gate + width, u);
#pragma unroll
  for (int i = 0; i < N; ++i) {
    g[i] *= sigmoid(g[i]) * u[i];
  }
  store<T, N>(out + at, g);
}

// One block a row; every warp works out the row's factor for itself.
__global__ void swiglu_folded_kernel(const __nv_bfloat16* __restrict__ gate_up, __nv_bfloat16* __restrict__ out,
                                     int64_t width, Folded folded) {
  wait_for_previous();
  const int64_t row = blockIdx.x;
  const float factor =
      inverse_rms(static_cast<const __nv_bfloat16*>(folded.x) + row * folded.width, folded.width, folded.epsilon);
  for (int64_t c = threadIdx.x * 8; c < width; c += blockDim.x * 8) {
    float g[8];
    float u[8];
    load<__nv_bfloat16, 8>(gate_up + row * 2 * width + c, g);
    load<__nv_bfloat16, 8>(gate_up + row * 2 * width + width + c, u);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float gate = g[i] * factor;
      g[i] = gate * sigmoid(gate) * u[i] * factor;
    }
    store<__nv_bfloat16, 8>(out + row * width + c, g);
  }
}

template <class T, int N>
__global__ void swiglu_backward_kernel(const T* __restrict__ gate_up, const T* __restrict__ dout,
                                       T* __restrict__ dgate_up, int64_t items, int64_t width) {
  const int64_t at = item() * N;
  if (at >= items) {
    return;
  }
  const int64_t place = at / width * 2 * width + at % width;
  float g[N];
  float u[N];
  float d[N];
  load<T, N>(gate_up + place, g);
  load<T, N>(gate_up + place + width, u);
  load<T, N>(dout + at, d);
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const float s = sigmoid(g[i]);
    const float silu = g[i] * s;
    const float dup = d[i] * silu;
    g[i] = d[i] * u[i] * (s + silu * (1.0f - s));
    u[i] = dup;
  }
  store<T, N>(dgate_up + place, g);
  store<T, N>(dgate_up + place + width, u);
}

template <class T, int N>
__global__ void rotate_kernel(Rotate a) {
  const int64_t half = a.head_width / 2;
  const int64_t parts = half / N;
  const int64_t heads = a.heads + 2 * a.kv_heads;
  const int64_t all = item();
  if (all >= a.rows * heads * parts) {
    return;
  }
  const int64_t c = all % parts * N;
  const int64_t head = all / parts % heads;
  const int64_t row = all / parts / heads;
  const T* from =
      head < a.heads
          ? static_cast<const T*>(a.q) + row * a.q_stride + head * a.head_width
          : (head < a.heads + a.kv_heads
                 ? static_cast<const T*>(a.k) + row * a.k_stride + (head - a.heads) * a.head_width
                 : static_cast<const T*>(a.v) + row * a.v_stride + (head - a.heads - a.kv_heads) * a.head_width);
  T* to = static_cast<T*>(a.out) + (row * heads + head) * a.head_width;
  float low[N];
  float high[N];
  load<T, N>(from + c, low);
  load<T, N>(from + half + c, high);
  if (head < a.heads + a.kv_heads) {
    const int64_t angle = a.positions[row] * half + c;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float cosine = a.cosine[angle + i];
      const float sine = a.sine[angle + i] * a.direction;
      const float turned = low[i] * cosine - high[i] * sine;
      high[i] = high[i] * cosine + low[i] * sine;
      low[i] = turned;
    }
  }
  store<T, N>(to + c, low);
  store<T, N>(to + half + c, high);
}

template <int N>
__global__ void adamw_kernel(AdamW a) {
  const int64_t at = item() * N;
  if (at >= a.count) {
    return;
  }
  float weight[N];
  float grad[N];
  float first[N];
  float second[N];
  float decay[N] = {};
  load<float, N>(a.weight + at, weight);
  load<float, N>(a.grad + at, grad);
  load<float, N>(a.first + at, first);
  load<float, N>(a.second + at, second);
  if (a.decay != nullptr) {
    load<float, N>(a.decay + at, decay);
  }
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const float g = grad[i] * a.grad_scale;
    weight[i] -= weight[i] * decay[i] * a.rate_decay;
    first[i] = first[i] * a.beta1 + g * (1.0f - a.beta1);
    second[i] = second[i] * a.beta2 + g * g * (1.0f - a.beta2);
    weight[i] -= a.rate / a.bias1 * first[i] / (sqrtf(second[i]) / a.bias2 + a.epsilon);
  }
  store<float, N>(a.weight + at, weight);
  store<float, N>(a.first + at, first);
  store<float, N>(a.second + at, second);
  if (a.rounded != nullptr) {
    store<__nv_bfloat16, N>(static_cast<__nv_bfloat16*>(a.rounded) + at, weight);
  }
}

}  // namespace

void swiglu(bool half, const void* gate_up, void* out, int64_t rows, int64_t width, cudaStream_t stream) {
  if (rows == 0) {
    return;
  }
  with_vector(half, width, [&](auto element, auto n) {
    using T = decltype(element);
    launch_early(swiglu_kernel<T, n.value>, dim3(blocks_for(rows * width / n.value)), dim3(kThreads), stream,
                 static_cast<const T*>(gate_up), static_cast<T*>(out), rows * width, width);
  });
  check_launch("swiglu");
}

void swiglu_folded(const void* gate_up, void* out, int64_t rows, int64_t width, const Folded& folded,
                   cudaStream_t stream) {
  const int64_t warps = (width / 8 + 31) / 32;
  launch_early(swiglu_folded_kernel, dim3(static_cast<unsigned>(rows)),
               dim3(static_cast<unsigned>(32 * (warps < 8 ? warps : 8))), stream,
               static_cast<const __nv_bfloat16*>(gate_up), static_cast<__nv_bfloat16*>(out), width, folded);
  check_launch("swiglu_folded");
}

void swiglu_backward(bool half, const void* gate_up, const void* dout, void* dgate_up, int64_t rows, int64_t width,
                     cudaStream_t stream) {
  if (rows == 0) {
    return;
  }
  with_vector(half, width, [&](auto element, auto n) {
    using T = decltype(element);
    swiglu_backward_kernel<T, n.value><<<blocks_for(rows * width / n.value), kThreads, 0, stream>>>(
        static_cast<const T*>(gate_up), static_cast<const T*>(dout), static_cast<T*>(dgate_up), rows * width, width);
  });
  check_launch("swiglu_backward");
}

void rotate(const Rotate& a, cudaStream_t stream) {
  if (a.rows == 0) {
    return;
  }
  with_vector(a.half, a.head_width / 2, [&](auto element, auto n) {
    const int64_t items = a.rows * (a.heads + 2 * a.kv_heads) * (a.head_width / 2 / n.value);
    rotate_kernel<decltype(element), n.value><<<blocks_for(items), kThreads, 0, stream>>>(a);
  });
  check_launch("rotate");
}

void adamw(const AdamW& a, cudaStream_t stream) {
  if (a.count % 4 == 0) {
    adamw_kernel<4><<<blocks_for(a.count / 4), kThreads, 0, stream>>>(a);
  } else {
    adamw_kernel<1><<<blocks_for(a.count), kThreads, 0, stream>>>(a);
  }
  check_launch("adamw");
}

}  // namespace khost::trainer::cuda
