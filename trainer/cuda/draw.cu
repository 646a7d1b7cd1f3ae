// Draws tokens: one block a row of logits, which is read once. Adding Gumbel noise to logits and taking the largest
// draws from their softmax; the noise of a token is a hash of the request's seed, of how many tokens it drew and of the
// token, so that what a request draws depends on nobody else.
#include "trainer/cuda/device.cuh"
#include "trainer/cuda/generate_kernels.h"

namespace khost::trainer::cuda {
namespace {

constexpr int kThreads = 512;

__device__ inline uint64_t mix(uint64_t z) {  // splitmix64
  z += 0x9e3779b97f4a7c15ULL;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

__device__ inline uint32_t hash(uint32_t token, uint32_t low, uint32_t high) {
  uint32_t x = token * 0x9e3779b9u ^ low;
  x ^= x >> 16;
  x *= 0x7feb352du;
  x ^= (x >> 15) ^ high;
  x *= 0x846ca68bu;
  return x ^ (x >> 16);
}

// -log of an exponential draw. Small exponentials decide, and keep all bits: their series, not 1 - v.
__device__ inline float gumbel(uint32_t bits) {
  const float v = (static_cast<float>(bits) + 0.5f) * 0x1.0p-32f;
  const float exponential = v < 0.0078125f ? v * (1.0f + v * (0.5f + v * 0.33333333f)) : -__logf(1.0f - v);
  return -__logf(exponential);
}

struct Best {
  float key;
  int token;
  __device__ void take(float other, int its) {
    if (other > key || (other == key && its < token)) {
      key = other;
      token = its;
    }
  }
};

struct Softmax {
  float most = -INFINITY;
  float sum = 0;
  __device__ void add(float z) {
    if (z > most) {
      sum *= __expf(most - z);
      most = z;
    }
    sum += __expf(z - most);
  }
  __device__ void merge(float its_most, float its_sum) {
    const float top = fmaxf(most, its_most);
    sum = sum * (most == top ? 1.0f : __expf(most - top)) + its_sum * (its_most == top ? 1.0f : __expf(its_most - top));
    most = top;
  }
};

__device__ inline uint32_t ordered(float z) {  // as integers, in the order of floats
  const uint32_t bits = __float_as_uint(z);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

__device__ inline bool allowed(const uint32_t* mask, int64_t token) {
  return mask == nullptr || (mask[token >> 5] >> (token & 31) & 1u) != 0;
}

// The sum of `x` over the block, for all threads.
__device__ float block_sum(float x, float* shared) {
  x = warp_sum(x);
  __syncthreads();
  if (threadIdx.x % 32 == 0) {
    shared[threadIdx.x / 32] = x;
  }
  __syncthreads();
  float total = 0;
  for (int warp = 0; warp < kThreads / 32; ++warp) {
    total += shared[warp];
  }
  return total;
}

// The lowest logit, in the order of `ordered`, that stays: the largest bound above which there are top_k tokens that
// may be drawn, or tokens that hold top_p of the probability. Found bit by bit.
__device__ uint32_t bound(const float* row, const DrawRows& a, const SlotState& state, float scale, float log_sum,
                          float* shared) {
  uint32_t found = 0;
  for (int bit = 31; bit >= 0; --bit) {
    const uint32_t tried = found | 1u << bit;
    float count = 0;
    float held = 0;
    for (int64_t c = threadIdx.x; c < a.vocabulary; c += kThreads) {
      if (ordered(row[c]) >= tried && allowed(a.mask, c)) {
        count += 1;
        held += __expf(row[c] * scale - log_sum);
      }
    }
    count = block_sum(count, shared);
    held = block_sum(held, shared);
    if ((state.top_k > 0 && count >= static_cast<float>(state.top_k)) || (state.top_p < 1 && held >= state.top_p)) {
      found = tried;
    }
  }
  return found;
}

template <int N>
__global__ void __launch_bounds__(kThreads) draw_kernel(DrawRows a) {
  __shared__ float shared[kThreads / 32];
  __shared__ float warp_most[kThreads / 32];
  __shared__ float warp_sums[kThreads / 32];
  __shared__ Best warp_best[kThreads / 32];
  const int slot = a.slots[blockIdx.x];
  if (slot < 0) {
    return;
  }
  const SlotState state = a.states[slot];
  const float* row = a.logits + int64_t{blockIdx.x} * a.vocabulary;
  const bool greedy = state.temperature <= 0;
  const float factor =
      a.folded.x == nullptr
          ? 1.0f
          : inverse_rms(static_cast<const __nv_bfloat16*>(a.folded.x) + int64_t{blockIdx.x} * a.folded.width,
                        a.folded.width, a.folded.epsilon);
  const float scale = greedy ? factor : factor / state.temperature;
  const uint64_t key = mix(mix(state.seed) + static_cast<uint64_t>(state.drawn));
  const uint32_t low = static_cast<uint32_t>(key);
  const uint32_t high = static_cast<uint32_t>(key >> 32);
  const bool restricted = !greedy && (state.top_k > 0 || state.top_p < 1);
  Softmax softmax;
  Best best = {-INFINITY, 0x7fffffff};
  for (int64_t c = threadIdx.x * N; c < a.vocabulary; c += kThreads * N) {
    float z[N];
    load<float, N>(row + c, z);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float scaled = z[i] * scale;
      softmax.add(scaled);
      const int token = static_cast<int>(c) + i;
      if (!allowed(a.mask, token)) {
        continue;
      }
      best.take(greedy || restricted ? scaled : scaled + gumbel(hash(token, low, high)), token);
    }
  }
#pragma unroll
  for (int step = 16; step > 0; step /= 2) {
    softmax.merge(__shfl_xor_sync(0xffffffffu, softmax.most, step), __shfl_xor_sync(0xffffffffu, softmax.sum, step));
  }
  if (threadIdx.x % 32 == 0) {
    warp_most[threadIdx.x / 32] = softmax.most;
    warp_sums[threadIdx.x / 32] = softmax.sum;
  }
  __syncthreads();
  Softmax all;
  for (int warp = 0; warp < kThreads / 32; ++warp) {
    all.merge(warp_most[warp], warp_sums[warp]);
  }
  const float log_sum = all.most + logf(all.sum);
  if (restricted) {
    const uint32_t least = bound(row, a, state, scale, log_sum, shared);
    best = {-INFINITY, 0x7fffffff};
    for (int64_t c = threadIdx.x; c < a.vocabulary; c += kThreads) {
      if (ordered(row[c]) >= least && allowed(a.mask, c)) {
        best.take(row[c] * scale + gumbel(hash(static_cast<uint32_t>(c), low, high)), static_cast<int>(c));
      }
    }
  }
#pragma unroll
  for (int step = 16; step > 0; step /= 2) {
    const float other = __shfl_xor_sync(0xffffffffu, best.key, step);
    best.take(other, __shfl_xor_sync(0xffffffffu, best.token, step));
  }
  if (threadIdx.x % 32 == 0) {
    warp_best[threadIdx.x / 32] = best;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int warp = 1; warp < kThreads / 32; ++warp) {
      best.take(warp_best[warp].key, warp_best[warp].token);
    }
    // Logits that are no numbers leave no winner: the answer shows it in its log-probability.
    const int token = best.token < a.vocabulary ? best.token : 0;
    a.drawn[slot] = {token, row[token] * scale - log_sum};
    a.states[slot].token = token;
    a.states[slot].position = state.position + 1;
    a.states[slot].drawn = state.drawn + 1;
  }
}

}  // namespace

void draw(const DrawRows& a, cudaStream_t stream) {
  if (a.rows == 0) {
    return;
  }
  const auto rows = static_cast<unsigned>(a.rows);
  if (a.vocabulary % 4 == 0) {
    draw_kernel<4><<<rows, kThreads, 0, stream>>>(a);
  } else {
    draw_kernel<1><<<rows, kThreads, 0, stream>>>(a);
  }
  check_launch("draw");
}

}  // namespace khost::trainer::cuda
