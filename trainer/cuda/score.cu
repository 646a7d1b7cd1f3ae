// Log-probability and entropy of rows of logits: one block a row, one pass.
#include "trainer/cuda/device.cuh"
#include "trainer/cuda/kernels.h"

namespace khost::trainer::cuda {
namespace {

constexpr int kThreads = 512;

// A softmax in progress: the largest z, the sums of exp(z - most) and of z exp(z - most).
struct Running {
  float most = -INFINITY;
  float sum = 0;
  float weighted = 0;

  __device__ void add(float z) {
    if (z > most) {
      const float shrink = __expf(most - z);  // 0 for the first
      sum *= shrink;
      weighted *= shrink;
      most = z;
    }
    const float e = __expf(z - most);
    sum += e;
    weighted += e * z;
  }

  __device__ void merge(const Running& other) {
    const float top = fmaxf(most, other.most);
    const float own = most == top ? 1.0f : __expf(most - top);
    const float its = other.most == top ? 1.0f : __expf(other.most - top);
    sum = sum * own + other.sum * its;
    weighted = weighted * own + other.weighted * its;
    most = top;
  }

  __device__ Running across(int step) const {
    return {__shfl_xor_sync(0xffffffffu, most, step), __shfl_xor_sync(0xffffffffu, sum, step),
            __shfl_xor_sync(0xffffffffu, weighted, step)};
  }
};

template <int N>
__global__ void __launch_bounds__(kThreads) score_kernel(Score a) {
  __shared__ Running warps[kThreads / 32];
  const float* row = a.logits + int64_t{blockIdx.x} * a.vocabulary;
  Running running;
  for (int64_t c = threadIdx.x * N; c < a.vocabulary; c += kThreads * N) {
    float z[N];
    load<float, N>(row + c, z);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      running.add(z[i] * a.scale);
    }
  }
#pragma unroll
  for (int step = 16; step > 0; step /= 2) {
    running.merge(running.across(step));
  }
  if (threadIdx.x % 32 == 0) {
    warps[threadIdx.x / 32] = running;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int warp = 1; warp < kThreads / 32; ++warp) {
      running.merge(warps[warp]);
    }
    const float log_sum = running.most + logf(running.sum);
    a.log_sum[blockIdx.x] = log_sum;
    a.logp[blockIdx.x] = row[a.targets[blockIdx.x]] * a.scale - log_sum;
    a.entropy[blockIdx.x] = log_sum - running.weighted / running.sum;
  }
}

template <class T, int N>
__global__ void __launch_bounds__(kThreads) score_backward_kernel(ScoreBackward a) {
  const int64_t base = int64_t{blockIdx.x} * a.vocabulary;
  const float log_sum = a.log_sum[blockIdx.x];
  const float entropy = a.entropy[blockIdx.x];
  const float g = a.g[blockIdx.x];
  const float e = a.e[blockIdx.x];
  const int64_t target = a.targets[blockIdx.x];
  for (int64_t c = threadIdx.x * N; c < a.vocabulary; c += kThreads * N) {
    float z[N];
    load<float, N>(a.logits + base + c, z);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float logp = z[i] * a.scale - log_sum;
      const float p = __expf(logp);
      z[i] = a.scale * ((c + i == target ? g : 0.0f) - p * (g + e * (logp + entropy)));
    }
    store<T, N>(static_cast<T*>(a.dlogits) + base + c, z);
  }
}

}  // namespace

void score(const Score& a, cudaStream_t stream) {
  if (a.rows == 0) {
    return;
  }
  if (a.vocabulary % 4 == 0) {
    score_kernel<4><<<a.rows, kThreads, 0, stream>>>(a);
  } else {
    score_kernel<1><<<a.rows, kThreads, 0, stream>>>(a);
  }
  check_launch("score");
}

void score_backward(const ScoreBackward& a, cudaStream_t stream) {
  if (a.rows == 0) {
    return;
  }
  const bool wide = a.vocabulary % 4 == 0;
  if (a.half) {
    wide ? score_backward_kernel<__nv_bfloat16, 4><<<a.rows, kThreads, 0, stream>>>(a)
         : score_backward_kernel<__nv_bfloat16, 1><<<a.rows, kThreads, 0, stream>>>(a);
  } else {
    wide ? score_backward_kernel<float, 4><<<a.rows, kThreads, 0, stream>>>(a)
         : score_backward_kernel<float, 1><<<a.rows, kThreads, 0, stream>>>(a);
  }
  check_launch("score_backward");
}

}  // namespace khost::trainer::cuda
