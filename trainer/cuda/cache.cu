// Rows of running sequences, their embeddings, and what they add to the cache.
#include "trainer/cuda/device.cuh"
#include "trainer/cuda/generate_kernels.h"

namespace khost::trainer::cuda {
namespace {

__global__ void gather_rows_kernel(const SlotState* states, const int32_t* slots, int64_t rows, int64_t positions,
                                   Tile* tiles, int32_t* row_slots, int32_t* row_positions, int32_t* ids) {
  const int64_t row = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (row >= rows) {
    return;
  }
  int32_t slot = slots[row];
  int32_t token = 0;
  int32_t position = 0;
  if (slot >= 0) {
    token = states[slot].token;
    position = states[slot].position;
    if (position >= positions) {
      slot = -1;
      position = 0;
    }
  }
  tiles[row] = {static_cast<int32_t>(row), slot >= 0 ? 1 : 0, slot, position};
  row_slots[row] = slot;
  row_positions[row] = position;
  ids[row] = token;
}

template <class T, int N>
__global__ void embed_kernel(const T* __restrict__ embedding, const int32_t* __restrict__ ids, T* __restrict__ x,
                             int64_t width) {
  const T* from = embedding + int64_t{ids[blockIdx.x]} * width;
  for (int64_t c = threadIdx.x * N; c < width; c += blockDim.x * N) {
    *reinterpret_cast<Vector<T, N>*>(x + int64_t{blockIdx.x} * width + c) =
        *reinterpret_cast<const Vector<T, N>*>(from + c);
  }
}

// One warp a head of a row.
template <class T>
__global__ void append_kernel(Append a) {
  const int64_t heads = a.heads + 2 * a.cache.kv_heads;
  const int64_t all = int64_t{blockIdx.x} * (blockDim.x / 32) + threadIdx.x / 32;
  if (all >= a.rows * heads) {
    return;
  }
  const int64_t row = all / heads;
  const int64_t head = all % heads;
  const int slot = a.slots[row];
  if (slot < 0) {
    return;
  }
  const int lane = threadIdx.x % 32;
  const int64_t width = a.cache.head_width;
  const int64_t half = width / 2;
  const int64_t position = a.positions[row];
  T* from = static_cast<T*>(a.qkv) + (row * heads + head) * width;
  T* to = from;
  const bool is_query = head < a.heads;
  const bool is_value = head >= a.heads + a.cache.kv_heads;
  if (!is_query) {
    const int64_t kv = is_value ? head - a.heads - a.cache.kv_heads : head - a.heads;
    const int64_t place = (a.cache.layer * 2 + (is_value ? 1 : 0)) * a.cache.kv_heads + kv;
    to = static_cast<T*>(a.cache.data) + slot * a.cache.slot_stride + (place * a.cache.positions + position) * width;
  }
  if (is_value) {
    for (int64_t c = lane; c < width; c += 32) {
      to[c] = from[c];
    }
    return;
  }
  const T* weight = static_cast<const T*>(is_query ? a.q_norm : a.k_norm);
  float scale = 1;
  if (weight != nullptr) {
    float squares = 0;
    for (int64_t c = lane; c < width; c += 32) {
      const float v = to_float(from[c]);
      squares += v * v;
    }
    scale = rsqrtf(warp_sum(squares) / static_cast<float>(width) + a.epsilon);
  }
  for (int64_t c = lane; c < half; c += 32) {
    float low = to_float(from[c]);
    float high = to_float(from[c + half]);
    if (weight != nullptr) {
      low = to_float(from_float<T>(low * scale * to_float(weight[c])));
      high = to_float(from_float<T>(high * scale * to_float(weight[c + half])));
    }
    const float cosine = a.cosine[position * half + c];
    const float sine = a.sine[position * half + c];
    to[c] = from_float<T>(low * cosine - high * sine);
    to[c + half] = from_float<T>(high * cosine + low * sine);
  }
}

}  // namespace

void gather_rows(const SlotState* states, const int32_t* slots, int64_t rows, int64_t positions, Tile* tiles,
                 int32_t* row_slots, int32_t* row_positions, int32_t* ids, cudaStream_t stream) {
  gather_rows_kernel<<<(rows + 127) / 128, 128, 0, stream>>>(states, slots, rows, positions, tiles, row_slots,
                                                             row_positions, ids);
  check_launch("gather_rows");
}

void embed(bool half, const void* embedding, const int32_t* ids, void* x, int64_t rows, int64_t width,
           cudaStream_t stream) {
  with_vector(half, width, [&](auto element, auto n) {
    using T = decltype(element);
    embed_kernel<T, n.value>
        <<<rows, 128, 0, stream>>>(static_cast<const T*>(embedding), ids, static_cast<T*>(x), width);
  });
  check_launch("embed");
}

void append(const Append& a, cudaStream_t stream) {
  constexpr int kWarps = 8;
  const int64_t warps = a.rows * (a.heads + 2 * a.cache.kv_heads);
  const auto blocks = static_cast<unsigned>((warps + kWarps - 1) / kWarps);
  if (a.half) {
    append_kernel<__nv_bfloat16><<<blocks, kWarps * 32, 0, stream>>>(a);
  } else {
    append_kernel<float><<<blocks, kWarps * 32, 0, stream>>>(a);
  }
  check_launch("append");
}

}  // namespace khost::trainer::cuda
