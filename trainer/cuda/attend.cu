// Attention of few query rows to a long cache. One block takes all query heads that share a key head, so that every key
// and value is read once. In bf16 the rows (heads x tokens, at most 16) are the rows of a tensor core's tile:
// warps walk over the positions 16 at a time with loads of 16 bytes straight into registers, each with its own running
// softmax, and merge at the end.
//
// Fragments of mma.m16n8k16 fix which thread holds which element. The order along the summed axis is free as long as
// both operands agree, so a thread (g = lane / 4, c = lane % 4) takes what lies side by side in memory:
//   keys    of position g (and g + 8):  dims c D/4 .. (c + 1) D/4 - 1
//   values  of positions 2c, 2c + 1, 2c + 8, 2c + 9:  dims g D/8 .. (g + 1) D/8 - 1
#include "trainer/cuda/device.cuh"
#include "trainer/cuda/generate_kernels.h"

namespace khost::trainer::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kStep = 16;  // positions

__device__ inline void multiply(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ inline uint32_t pack(float low, float high) {
  const __nv_bfloat162 two = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&two);
}

// Words of 32 bits that hold W bf16 pairs, loaded at once.
template <int W>
__device__ inline void load_words(const __nv_bfloat16* from, uint32_t (&to)[W]) {
  if constexpr (W % 4 == 0) {
#pragma unroll
    for (int i = 0; i < W; i += 4) {
      const uint4 v = *reinterpret_cast<const uint4*>(from + 2 * i);
      to[i] = v.x;
      to[i + 1] = v.y;
      to[i + 2] = v.z;
      to[i + 3] = v.w;
    }
  } else {
#pragma unroll
    for (int i = 0; i < W; ++i) {
      to[i] = *reinterpret_cast<const uint32_t*>(from + 2 * i);
    }
  }
}

// One warp norms (where a weight is given) and turns a head of a row, times `factor`.
template <int D>
__device__ inline void turn(const __nv_bfloat16* from, __nv_bfloat16* to, const __nv_bfloat16* weight, float epsilon,
                            const float* cosine, const float* sine, float factor, int lane) {
  constexpr int kPairs = (D / 2 + 31) / 32;
  float low[kPairs];
  float high[kPairs];
  float squares = 0;
#pragma unroll
  for (int i = 0; i < kPairs; ++i) {
    const int c = lane + 32 * i;
    low[i] = c < D / 2 ? to_float(from[c]) * factor : 0;
    high[i] = c < D / 2 ? to_float(from[c + D / 2]) * factor : 0;
    squares += low[i] * low[i] + high[i] * high[i];
  }
  const float scale = weight == nullptr ? 1.0f : rsqrtf(warp_sum(squares) / D + epsilon);
#pragma unroll
  for (int i = 0; i < kPairs; ++i) {
    const int c = lane + 32 * i;
    if (c < D / 2) {
      if (weight != nullptr) {
        low[i] = to_float(__float2bfloat16_rn(low[i] * scale * to_float(weight[c])));
        high[i] = to_float(__float2bfloat16_rn(high[i] * scale * to_float(weight[c + D / 2])));
      }
      to[c] = __float2bfloat16_rn(low[i] * cosine[c] - high[i] * sine[c]);
      to[c + D / 2] = __float2bfloat16_rn(high[i] * cosine[c] + low[i] * sine[c]);
    }
  }
}

// D head width, R rows: 8 or 16. Appends: the tile's one row first goes into the cache, as `add` says.
template <int D, int R, bool Appends>
__global__ void __launch_bounds__(kWarps * 32, D == 64 && R == 8 ? 6 : 2) attend_kernel(Attend a, Append add) {
  wait_for_previous();
  constexpr int kRowSets = R / 8;
  const Tile tile = a.tile[blockIdx.x];
  if (tile.count == 0) {
    return;
  }
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  const int g = lane / 4;
  const int c = lane % 4;
  const int group = static_cast<int>(a.heads / a.cache.kv_heads);
  const int rows = tile.count * group;
  const int64_t row_width = (a.heads + 2 * a.cache.kv_heads) * D;
  const int kv = blockIdx.y;
  const int64_t head_stride = a.cache.positions * D;
  __nv_bfloat16* keys = static_cast<__nv_bfloat16*>(a.cache.data) + tile.slot * a.cache.slot_stride +
                        (a.cache.layer * 2 * a.cache.kv_heads + kv) * head_stride;
  __nv_bfloat16* values = keys + a.cache.kv_heads * head_stride;

  __shared__ alignas(16) __nv_bfloat16 turned[Appends ? R : 1][D];  // the query heads
  if constexpr (Appends) {
    const __nv_bfloat16* row = static_cast<const __nv_bfloat16*>(a.qkv) + tile.row * row_width;
    const float* cosine = add.cosine + int64_t{tile.position} * (D / 2);
    const float* sine = add.sine + int64_t{tile.position} * (D / 2);
    const float factor =
        add.folded.x == nullptr
            ? 1.0f
            : inverse_rms(static_cast<const __nv_bfloat16*>(add.folded.x) + tile.row * add.folded.width,
                          add.folded.width, add.folded.epsilon);
    for (int head = warp; head < group + 2; head += kWarps) {
      if (head < group) {
        turn<D>(row + (kv * group + head) * D, turned[head], static_cast<const __nv_bfloat16*>(add.q_norm), add.epsilon,
                cosine, sine, factor, lane);
      } else if (head == group) {
        turn<D>(row + (a.heads + kv) * D, keys + int64_t{tile.position} * D,
                static_cast<const __nv_bfloat16*>(add.k_norm), add.epsilon, cosine, sine, factor, lane);
      } else {
        for (int d = 2 * lane; d < D; d += 64) {
          const float2 two = __bfloat1622float2(
              *reinterpret_cast<const __nv_bfloat162*>(row + (a.heads + a.cache.kv_heads + kv) * D + d));
          *reinterpret_cast<uint32_t*>(values + int64_t{tile.position} * D + d) = pack(two.x * factor, two.y * factor);
        }
      }
    }
    __syncthreads();
  }

  // Queries: row r is head r % group of token r / group. Rows beyond the last stay 0.
  uint32_t query[kRowSets][D / 8];
  int last[kRowSets];  // the last position that the row may see
#pragma unroll
  for (int set = 0; set < kRowSets; ++set) {
    const int row = g + 8 * set;
    last[set] = tile.position + row / group;
    if (row < rows) {
      load_words<D / 8>(Appends ? turned[Appends ? row : 0] + c * (D / 4)
                                : static_cast<const __nv_bfloat16*>(a.qkv) + (tile.row + row / group) * row_width +
                                      (kv * group + row % group) * D + c * (D / 4),
                        query[set]);
    } else {
      last[set] = -1;
#pragma unroll
      for (int i = 0; i < D / 8; ++i) {
        query[set][i] = 0;
      }
    }
  }
  const int end = tile.position + tile.count;                       // positions that some row sees
  const float scale = rsqrtf(static_cast<float>(D)) * 1.44269504f;  // exponentials of 2

  float out[D / 8][4] = {};
  float most[kRowSets];
  float sum[kRowSets];
#pragma unroll
  for (int set = 0; set < kRowSets; ++set) {
    most[set] = -INFINITY;
    sum[set] = 0;
  }
  for (int begin = warp * kStep; begin < end; begin += kWarps * kStep) {
    // Places past the end are read from the last one and masked: memory never written may hold anything.
    uint32_t key[2][D / 8];
    uint32_t value[4][D / 16];
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      load_words<D / 8>(keys + int64_t{min(begin + g + 8 * n, end - 1)} * D + c * (D / 4), key[n]);
    }
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      load_words<D / 16>(values + int64_t{min(begin + 2 * c + n % 2 + n / 2 * 8, end - 1)} * D + g * (D / 8), value[n]);
    }
    float scores[2][4] = {};
#pragma unroll
    for (int s = 0; s < D / 16; ++s) {
      const uint32_t fragment[4] = {query[0][2 * s], kRowSets == 2 ? query[kRowSets - 1][2 * s] : 0u,
                                    query[0][2 * s + 1], kRowSets == 2 ? query[kRowSets - 1][2 * s + 1] : 0u};
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        multiply(scores[n], fragment, key[n][2 * s], key[n][2 * s + 1]);
      }
    }
    uint32_t weight[4] = {0, 0, 0, 0};
#pragma unroll
    for (int set = 0; set < kRowSets; ++set) {
      float z[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int position = begin + 2 * c + i % 2 + i / 2 * 8;
        z[i] = position <= last[set] ? scores[i / 2][2 * set + i % 2] * scale : -INFINITY;
      }
      float top = fmaxf(fmaxf(z[0], z[1]), fmaxf(z[2], z[3]));
      top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 1));
      top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 2));
      const float next = fmaxf(most[set], top);
      const float base = next == -INFINITY ? 0.0f : next;
      const float shrink = exp2f(most[set] - base);
      most[set] = next;
      float part = 0;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        z[i] = exp2f(z[i] - base);
        part += z[i];
      }
      sum[set] = sum[set] * shrink + part;
      weight[set] = pack(z[0], z[1]);
      weight[2 + set] = pack(z[2], z[3]);
#pragma unroll
      for (int j = 0; j < D / 8; ++j) {
        out[j][2 * set] *= shrink;
        out[j][2 * set + 1] *= shrink;
      }
    }
#pragma unroll
    for (int j = 0; j < D / 8; ++j) {
      const uint32_t choose = j % 2 == 0 ? 0x5410 : 0x7632;
      multiply(out[j], weight, __byte_perm(value[0][j / 2], value[1][j / 2], choose),
               __byte_perm(value[2][j / 2], value[3][j / 2], choose));
    }
  }

  __shared__ float all_most[kWarps][R];
  __shared__ float all_sum[kWarps][R];
  __shared__ float all_out[kWarps][R][D];
#pragma unroll
  for (int set = 0; set < kRowSets; ++set) {
    sum[set] += __shfl_xor_sync(0xffffffffu, sum[set], 1);
    sum[set] += __shfl_xor_sync(0xffffffffu, sum[set], 2);
    const int row = g + 8 * set;
    if (c == 0) {
      all_most[warp][row] = most[set];
      all_sum[warp][row] = sum[set];
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int j = 0; j < D / 8; ++j) {
        all_out[warp][row][(2 * c + i) * (D / 8) + j] = out[j][2 * set + i];
      }
    }
  }
  __syncthreads();
  for (int item = threadIdx.x; item < rows * D; item += kWarps * 32) {
    const int row = item / D;
    float top = -INFINITY;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
      top = fmaxf(top, all_most[w][row]);
    }
    float total = 0;
    float mixed = 0;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
      const float share = exp2f(all_most[w][row] - top);
      total += all_sum[w][row] * share;
      mixed += all_out[w][row][item % D] * share;
    }
    static_cast<__nv_bfloat16*>(a.out)[((tile.row + row / group) * a.heads + kv * group + row % group) * D + item % D] =
        from_float<__nv_bfloat16>(mixed / total);
  }
}

// Any type and width up to 256: one block a head of a row, warps take positions in turn.
template <class T>
__global__ void __launch_bounds__(kWarps * 32) attend_any_kernel(Attend a) {
  constexpr int kPart = 8;  // elements of a head that a lane holds
  __shared__ float all_most[kWarps];
  __shared__ float all_sum[kWarps];
  __shared__ float all_out[kWarps][kPart * 32];
  const Tile tile = a.tile[blockIdx.x];
  if (tile.count == 0) {
    return;
  }
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  const int64_t width = a.cache.head_width;
  const int64_t head = blockIdx.y;
  const int64_t kv = head / (a.heads / a.cache.kv_heads);
  const T* from = static_cast<const T*>(a.qkv) + (tile.row * (a.heads + 2 * a.cache.kv_heads) + head) * width;
  const T* keys = static_cast<const T*>(a.cache.data) + tile.slot * a.cache.slot_stride +
                  (a.cache.layer * 2 * a.cache.kv_heads + kv) * a.cache.positions * width;
  const T* values = keys + a.cache.kv_heads * a.cache.positions * width;
  const float scale = rsqrtf(static_cast<float>(width));
  float query[kPart];
  float out[kPart] = {};
#pragma unroll
  for (int i = 0; i < kPart; ++i) {
    query[i] = lane + 32 * i < width ? to_float(from[lane + 32 * i]) * scale : 0;
  }
  float most = -INFINITY;
  float sum = 0;
  for (int64_t position = warp; position <= tile.position; position += kWarps) {
    float dot = 0;
#pragma unroll
    for (int i = 0; i < kPart; ++i) {
      dot += lane + 32 * i < width ? query[i] * to_float(keys[position * width + lane + 32 * i]) : 0;
    }
    dot = warp_sum(dot);
    const float next = fmaxf(most, dot);
    const float shrink = expf(most - next);
    const float weight = expf(dot - next);
    most = next;
    sum = sum * shrink + weight;
#pragma unroll
    for (int i = 0; i < kPart; ++i) {
      out[i] =
          out[i] * shrink + (lane + 32 * i < width ? weight * to_float(values[position * width + lane + 32 * i]) : 0);
    }
  }
  all_most[warp] = most;
  all_sum[warp] = sum;
#pragma unroll
  for (int i = 0; i < kPart; ++i) {
    all_out[warp][lane + 32 * i] = out[i];
  }
  __syncthreads();
  float top = all_most[0];
  for (int w = 1; w < kWarps; ++w) {
    top = fmaxf(top, all_most[w]);
  }
  for (int64_t d = threadIdx.x; d < width; d += blockDim.x) {
    float total = 0;
    float mixed = 0;
    for (int w = 0; w < kWarps; ++w) {
      const float share = expf(all_most[w] - top);
      total += all_sum[w] * share;
      mixed += all_out[w][d] * share;
    }
    static_cast<T*>(a.out)[(tile.row * a.heads + head) * width + d] = from_float<T>(mixed / total);
  }
}

bool has_fast_path(bool half, int64_t group, int64_t width) {
  return half && group <= 16 && (width == 32 || width == 64 || width == 128);
}

template <int D>
void launch(const Attend& a, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(a.tiles), static_cast<unsigned>(a.cache.kv_heads));
  if (a.rows_a_tile * a.heads / a.cache.kv_heads <= 8) {
    attend_kernel<D, 8, false><<<grid, kWarps * 32, 0, stream>>>(a, {});
  } else {
    attend_kernel<D, 16, false><<<grid, kWarps * 32, 0, stream>>>(a, {});
  }
}

template <int D>
void launch_appending(const Append& add, const Attend& a, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(a.tiles), static_cast<unsigned>(a.cache.kv_heads));
  launch_early(attend_kernel<D, 8, true>, grid, dim3(kWarps * 32), stream, a, add);
}

}  // namespace

int64_t tokens_a_tile(bool half, int64_t heads, int64_t kv_heads, int64_t head_width) {
  const int64_t group = heads / kv_heads;
  return has_fast_path(half, group, head_width) ? 16 / group : 1;
}

void attend(const Attend& a, cudaStream_t stream) {
  if (a.tiles == 0) {
    return;
  }
  const int64_t width = a.cache.head_width;
  if (has_fast_path(a.half, a.heads / a.cache.kv_heads, width)) {
    width == 32 ? launch<32>(a, stream) : (width == 64 ? launch<64>(a, stream) : launch<128>(a, stream));
  } else if (width > 256) {
    throw std::runtime_error("attend: heads of " + std::to_string(width) + " are wider than 256");
  } else {
    const dim3 grid(static_cast<unsigned>(a.tiles), static_cast<unsigned>(a.heads));
    if (a.half) {
      attend_any_kernel<__nv_bfloat16><<<grid, kWarps * 32, 0, stream>>>(a);
    } else {
      attend_any_kernel<float><<<grid, kWarps * 32, 0, stream>>>(a);
    }
  }
  check_launch("attend");
}

bool appends_in_one(bool half, int64_t heads, int64_t kv_heads, int64_t head_width) {
  return heads / kv_heads <= 8 && has_fast_path(half, heads / kv_heads, head_width);
}

void append_and_attend(const Append& add, const Attend& a, cudaStream_t stream) {
  const int64_t width = a.cache.head_width;
  if (a.rows_a_tile != 1 || !appends_in_one(a.half, a.heads, a.cache.kv_heads, width)) {
    append(add, stream);
    attend(a, stream);
    return;
  }
  width == 32 ? launch_appending<32>(add, a, stream)
              : (width == 64 ? launch_appending<64>(add, a, stream) : launch_appending<128>(add, a, stream));
  check_launch("append_and_attend");
}

}  // namespace khost::trainer::cuda
