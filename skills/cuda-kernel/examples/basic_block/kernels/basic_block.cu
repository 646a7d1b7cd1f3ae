// The whole block in one kernel that reads x once and writes the output once. What has to be done: 37 GFLOP
// of the second convolution (64 x 64 channels, 9 taps) and 134 MB of memory, 35 to 45 us each on a Hopper
// card. So the products must run on the tensor cores by wgmma, and one row's output must leave while the next
// one is computed.
//
// - The reference's convolutions may round their operands to TF32 (cudnn.allow_tf32 is PyTorch's default): 11
//   bits of significand. Half has the same 11 bits and twice the rate; both add up in fp32. What half has
//   less of is range, but values behind a norm lie far within 6e-5 .. 65504, and of smaller ones at most 3e-8
//   is lost. In the way beside, of 3 channels, the reference turned out to be better than TF32; so x and its
//   weights are two halves each there, 22 bits. Largest error against fp64: 2.6e-3, the reference's own
//   2.0e-3 (1.2e-2 with one half, at outliers of x).
// - A multiprocessor has one block for good. It goes down a strip of the batch's rows; of the first
//   convolution's output ("mid") it keeps the last four rows in shared memory. Mid never goes to memory and
//   is hardly computed twice.
// - One warpgroup produces mid: x and the first convolution by mma.sync, straight into the layout of the
//   second. Two warpgroups take turns with the second one: while one multiplies, the other writes its row. A
//   row is 9 taps x 4 times m64n224k16, all output channels by all pixels, and a tap is nothing but another
//   pixel of mid to begin at.
// - The norms' factors are multiplied into the weights when these are laid out, in every call. The way
//   beside, a 1 x 1 convolution of x, is one more product into the same sums.
#include <cuda_fp16.h>

#include "hopper.cuh"
#include "khost.h"

constexpr int kSize = 224;  // rows and columns of an image
constexpr int kIn = 3, kChannels = 64;
constexpr int kRow = kSize + 2;    // pixels of a row in shared memory: a zero on either side
constexpr int kMidRow = kRow + 6;  // of mid: whole pieces of 1 KB, see place()
constexpr int kMidSlots = 4, kInputSlots = 8;
constexpr int kGroup = 128;  // threads of a warpgroup
constexpr int kThreads = 3 * kGroup;
constexpr int kSums = kSize / 2;  // of a thread: 64 x 224 over 128 threads
constexpr float kEps = 1e-5f;

struct Norm {
  const float *weight, *bias, *mean, *variance;

  __device__ float scale(int channel) const { return weight[channel] * rsqrtf(variance[channel] + kEps); }
  __device__ float shift(int channel) const { return bias[channel] - mean[channel] * scale(channel); }
};

struct Weights {
  const float *first, *second, *beside;
  Norm norm1, norm2, norm3;
};

struct __align__(1024) Shared {
  __half second[9][kChannels][kChannels];     // weights: tap, output channel, input channel (wide)
  __half mid[kMidSlots][kMidRow][kChannels];  // pixel, channel (wide)
  __half beside[2][kChannels][8];             // weights in the order of x (narrow)
  __half nothing[8][8];                       // weights of zero
  __half x[kInputSlots][kRow][8];             // c0, c1, c2, the next pixel's c2, c2, rests of c0, c1, c2
  float shift[kChannels];
  std::uint64_t full[kMidSlots], empty[kMidSlots];  // rows of mid
};

// Numbers of barriers; each consumer's turn is one.
enum { kTurn = 1, kConsumers = 3, kProducers = 4 };

// A strip of the batch's rows, all images under each other. Row i of mid is the strip's row i - 1, row i of x
// is i - 2.
struct Strip {
  int begin, count;
};

__device__ Strip strip_of(int rows) {
  const int least = rows / gridDim.x, more = rows % gridDim.x, block = blockIdx.x;
  return {block * least + min(block, more), least + (block < more)};
}

// ---- the first convolution ----

// Its 27 products for a pixel and channel, ordered in pairs that lie side by side in shared memory: 9 taps
// with (c0, c1), 3 rows with c2 of the left and the middle tap, 3 rows with c2 of the right tap alone; the
// last is empty.
struct Pair {
  int row, col, word;  // of x, from the tap at the upper left; word of the pixel
  int first, second;   // places in the weights of a channel; -1: none

  __device__ explicit Pair(int number) {
    if (number < 9) {
      *this = Pair(number / 3, number % 3, 0, number, 9 + number);
    } else if (number < 12) {
      *this = Pair(number - 9, 0, 1, 18 + 3 * (number - 9), 19 + 3 * (number - 9));
    } else if (number < 15) {
      *this = Pair(number - 12, 2, 2, 20 + 3 * (number - 12), -1);
    } else {
      *this = Pair(1, 0, 3, -1, -1);
    }
  }
  __device__ Pair(int r, int c, int w, int one, int two) : row(r), col(c), word(w), first(one), second(two) {}
};

// What rounding to half takes away.
__device__ float rest(float value) {
  return value - __half2float(__float2half_rn(value));
}

// Two pixels of a row of x, on their way from memory to shared memory; 112 threads have some.
struct Pixels {
  float2 c0, c1, c2;
  float behind;  // c2 of the pixel after them

  __device__ void load(const float* x, int row, int rows) {
    const int col = threadIdx.x % kGroup * 2;
    c0 = c1 = c2 = make_float2(0, 0);
    behind = 0;
    if (col < kSize && row >= 0 && row < rows) {
      const float* at = x + (row / kSize * kIn * kSize + row % kSize) * int64_t{kSize} + col;
      c0 = __ldg(reinterpret_cast<const float2*>(at));
      c1 = __ldg(reinterpret_cast<const float2*>(at + kSize * kSize));
      c2 = __ldg(reinterpret_cast<const float2*>(at + 2 * kSize * kSize));
      behind = col + 2 < kSize ? __ldg(at + 2 * kSize * kSize + 2) : 0;
    }
  }

  __device__ void store(__half (&to)[kRow][8]) const {
    const int col = threadIdx.x % kGroup * 2;
    if (col < kSize) {
      const __half2 one[4] = {__floats2half2_rn(c0.x, c1.x), __floats2half2_rn(c2.x, c2.y),
                              __floats2half2_rn(c2.x, rest(c0.x)), __floats2half2_rn(rest(c1.x), rest(c2.x))};
      const __half2 two[4] = {__floats2half2_rn(c0.y, c1.y), __floats2half2_rn(c2.y, behind),
                              __floats2half2_rn(c2.y, rest(c0.y)), __floats2half2_rn(rest(c1.y), rest(c2.y))};
      if (col == 0) {  // the pixel before has this one's c2 too
        *reinterpret_cast<__half2*>(to[0] + 2) = __floats2half2_rn(0, c2.x);
      }
      *reinterpret_cast<uint4*>(to[col + 1]) = *reinterpret_cast<const uint4*>(one);
      *reinterpret_cast<uint4*>(to[col + 2]) = *reinterpret_cast<const uint4*>(two);
    }
  }
};

// Sums of a pixel's two channels through ReLU to half.
__device__ unsigned relu(float one, float two) {
  const __half2 both = __hmax2(__floats2half2_rn(one, two), __floats2half2_rn(0, 0));
  return *reinterpret_cast<const unsigned*>(&both);
}

__device__ void produce(Shared& s, const float* x, const Weights& w, const Strip& strip, int rows) {
  const int warp = threadIdx.x % kGroup / 32, lane = threadIdx.x % 32;
  Pixels coming;
  for (int i = 0; i < 2; i++) {
    coming.load(x, strip.begin - 2 + i, rows);
    coming.store(s.x[i]);
  }
  coming.load(x, strip.begin, rows);

  const int pick = place(1 + lane % 16, lane / 16);  // 16 pixels further it is the same
  // A lane's share of the weights, as mma.sync wants them: pairs lane % 4 + 4 j of channel 8 n + lane / 4.
  const Pair pairs[4] = {Pair(lane % 4), Pair(lane % 4 + 4), Pair(lane % 4 + 8), Pair(lane % 4 + 12)};
  unsigned weights[8][4];
  float shifts[8][2];
  for (int n = 0; n < 8; n++) {
    const int channel = 8 * n + lane / 4;
    const float scale = w.norm1.scale(channel);
    for (int j = 0; j < 4; j++) {
      const float* from = w.first + channel * kIn * 9;
      const __half2 both = __floats2half2_rn(pairs[j].first < 0 ? 0 : __ldg(from + pairs[j].first) * scale,
                                             pairs[j].second < 0 ? 0 : __ldg(from + pairs[j].second) * scale);
      weights[n][j] = *reinterpret_cast<const unsigned*>(&both);
    }
    shifts[n][0] = w.norm1.shift(8 * n + lane % 4 * 2);
    shifts[n][1] = w.norm1.shift(8 * n + lane % 4 * 2 + 1);
  }

  for (int i = 0; i < strip.count + 2; i++) {
    const int slot = i % kMidSlots;
    if (i >= kMidSlots) {
      await(s.empty[slot], i / kMidSlots - 1);
    }
    coming.store(s.x[(i + 2) % kInputSlots]);
    show_to_wgmma();
    meet(kProducers, kGroup);
    coming.load(x, strip.begin + i + 1, rows);  // for the next round
    // Rows of other images count as zeros.
    const int row = (strip.begin - 1 + i + kSize) % kSize;
    const unsigned* from[4];
    unsigned mask[4];
    for (int j = 0; j < 4; j++) {
      const int there = row + pairs[j].row - 1;
      mask[j] = there >= 0 && there < kSize ? ~0u : 0;
      from[j] = reinterpret_cast<const unsigned*>(s.x[(i + pairs[j].row) % kInputSlots][pairs[j].col + lane / 4]) +
                pairs[j].word;
    }
    for (int first = warp * 16; first < kSize; first += 64) {
      unsigned a[2][4];  // 16 pixels x 32 products
#pragma unroll
      for (int j = 0; j < 4; j++) {
        a[j / 2][j % 2 * 2] = from[j][first * 4] & mask[j];
        a[j / 2][j % 2 * 2 + 1] = from[j][(first + 8) * 4] & mask[j];
      }
      __half* to = s.mid[slot][1 + first + lane % 16];
#pragma unroll
      for (int n = 0; n < 8; n += 2) {
        float sum[2][4];
#pragma unroll
        for (int m = 0; m < 2; m++) {
          sum[m][0] = sum[m][2] = shifts[n + m][0];
          sum[m][1] = sum[m][3] = shifts[n + m][1];
          multiply_small(sum[m], a[0], {weights[n + m][0], weights[n + m][1]});
          multiply_small(sum[m], a[1], {weights[n + m][2], weights[n + m][3]});
        }
        store_four(to + (pick ^ n * 8), relu(sum[0][0], sum[0][1]), relu(sum[0][2], sum[0][3]),
                   relu(sum[1][0], sum[1][1]), relu(sum[1][2], sum[1][3]));
      }
    }
    show_to_wgmma();
    arrive(s.full[slot]);
  }
}

// ---- the second convolution ----

// 8 input channels of an output channel are 72 floats in a row; they become 16 bytes of each tap. The way
// beside is (x + rest of x) * weight + x * rest of the weight; wgmma reads the same x for both halves of its
// sum.
__device__ void lay_out(Shared& s, const Weights& w, int thread) {
  for (int i = thread; i < kChannels * 8; i += 2 * kGroup) {
    const int channel = i / 8, eighth = i % 8;
    const float scale = w.norm2.scale(channel);
    const float4* from = reinterpret_cast<const float4*>(w.second + i * 72);
    float values[72];
#pragma unroll
    for (int j = 0; j < 18; j++) {
      *reinterpret_cast<float4*>(values + 4 * j) = __ldg(from + j);
    }
#pragma unroll
    for (int tap = 0; tap < 9; tap++) {
      __half2 eight[4];
#pragma unroll
      for (int j = 0; j < 4; j++) {
        eight[j] = __floats2half2_rn(values[18 * j + tap] * scale, values[18 * j + 9 + tap] * scale);
      }
      *reinterpret_cast<uint4*>(s.second[tap][channel] + place(channel, eighth)) =
          *reinterpret_cast<const uint4*>(eight);
    }
  }
  if (thread < kChannels) {
    const float scale = w.norm3.scale(thread);
    for (int c = 0; c < kIn; c++) {
      const float value = __ldg(w.beside + thread * kIn + c) * scale;
      s.beside[0][thread][c] = s.beside[0][thread][5 + c] = __float2half_rn(value);
      s.beside[1][thread][c] = __float2half_rn(rest(value));
    }
    s.shift[thread] = w.norm2.shift(thread) + w.norm3.shift(thread);
  }
}

// A lane has two channels, of each 28 times two pixels. With its neighbour's they become 16 bytes: half as
// many stores, which share the way to shared memory with the other group's products.
__device__ void write(const float (&sum)[kSums], float shift0, float shift1, float* to) {
  const bool odd = threadIdx.x % 2;
  to += odd ? 6 : 0;  // an odd lane takes the right ones of 16 pixels
#pragma unroll
  for (int j = 0; j < kSize / 16; j++) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
      const float shift = half ? shift1 : shift0;
      const float* left = sum + 8 * j + 2 * half;
      const float* right = left + 4;
      const float x = fmaxf(left[0] + shift, 0), y = fmaxf(left[1] + shift, 0);
      const float z = fmaxf(right[0] + shift, 0), w = fmaxf(right[1] + shift, 0);
      const float one = __shfl_xor_sync(~0u, odd ? x : z, 1), two = __shfl_xor_sync(~0u, odd ? y : w, 1);
      const float4 four = odd ? make_float4(one, two, z, w) : make_float4(x, y, one, two);
      __stcs(reinterpret_cast<float4*>(to + half * 8 * kSize * kSize + 16 * j), four);
    }
  }
}

__device__ void consume(Shared& s, const Weights& w, float* out, const Strip& strip, int group) {
  lay_out(s, w, threadIdx.x);
  show_to_wgmma();
  meet(kConsumers, 2 * kGroup);
  const int lane = threadIdx.x % 32, channel = threadIdx.x % kGroup / 32 * 16 + lane / 4;
  const float shift0 = s.shift[channel], shift1 = s.shift[channel + 8];
  if (group == 1) {
    announce(kTurn, 2 * kGroup);  // the other one begins
    arrive(s.empty[0]);           // mid's first row is not for this group
  }
  for (int i = group; i < strip.count; i += 2) {
    const int row = (strip.begin + i) % kSize, image = (strip.begin + i) / kSize;
    float sum[kSums];
    meet(kTurn + group, 2 * kGroup);
    await(s.full[i % kMidSlots], i / kMidSlots);
    const std::uint64_t zeros = same(s.nothing);
    begin_products();
    multiply(sum, narrow(s.beside, sizeof s.beside / 2), narrow(s.x[(i + 2) % kInputSlots][1], 0), 0);
#pragma unroll
    for (int dy = 0; dy < 3; dy++) {
      if (dy > 0) {
        await(s.full[(i + dy) % kMidSlots], (i + dy) / kMidSlots);
        begin_products();
      }
      // Above and below an image is nothing: no branch, since products must follow each other.
      const bool outside = (dy == 0 && row == 0) || (dy == 2 && row == kSize - 1);
#pragma unroll
      for (int dx = 0; dx < 3; dx++) {
#pragma unroll
        for (int k = 0; k < 8; k += 2) {
          multiply(sum, outside ? zeros : wide(&s.second[dy * 3 + dx][0][k * 8]),
                   wide(&s.mid[(i + dy) % kMidSlots][dx][k * 8]), 1);
        }
      }
    }
    end_products();
    announce(kTurn + (group ^ 1), 2 * kGroup);
    finish_products();
    // Neither of these two rows is read again by this group. What is in x needs no barrier of its own: it has
    // 8 rows, and the one that a new row takes the place of belongs to an output row before those that made
    // room in mid.
    arrive(s.empty[i % kMidSlots]);
    arrive(s.empty[(i + 1) % kMidSlots]);
    write(sum, shift0, shift1, out + ((image * kChannels + channel) * int64_t{kSize} + row) * kSize + lane % 4 * 2);
  }
}

__global__ void __launch_bounds__(kThreads, 1)
    basic_block_kernel(const float* __restrict__ x, Weights weights, float* __restrict__ out, int rows) {
  extern __shared__ __align__(1024) unsigned char memory[];
  Shared& s = *reinterpret_cast<Shared*>(memory);
  const Strip strip = strip_of(rows);
  // What is zero for good: the pixels on either side of a row, weights of nothing and the unused ones beside.
  const uint4 zero = make_uint4(0, 0, 0, 0);
  for (int i = threadIdx.x; i < 2 * kChannels; i += kThreads) {
    *reinterpret_cast<uint4*>(s.beside[i / kChannels][i % kChannels]) = zero;
  }
  if (threadIdx.x < 8) {
    *reinterpret_cast<uint4*>(s.nothing[threadIdx.x]) = zero;
  }
  for (int i = threadIdx.x; i < 2 * 8 * kMidSlots; i += kThreads) {
    *reinterpret_cast<uint4*>(s.mid[i / 16][i % 2 * (kSize + 1)] + i / 2 % 8 * 8) = zero;
  }
  if (threadIdx.x < 2 * kInputSlots) {
    *reinterpret_cast<uint4*>(s.x[threadIdx.x / 2][threadIdx.x % 2 * (kSize + 1)]) = zero;
  }
  if (threadIdx.x == 0) {
    for (int i = 0; i < kMidSlots; i++) {
      make_barrier(s.full[i], 4);       // warps of the producer
      make_barrier(s.empty[i], 2 * 4);  // of the consumers
    }
  }
  show_to_wgmma();
  __syncthreads();
  const int group = __shfl_sync(~0u, threadIdx.x / kGroup, 0);  // the compiler knows now: one in a warp
  if (group < 2) {
    consume(s, weights, out, strip, group);
  } else {
    produce(s, x, weights, strip, rows);
  }
}

extern "C" int basic_block(const float* x, const float* conv1_weight, const float* bn1_weight, const float* bn1_bias,
                           const float* bn1_running_mean, const float* bn1_running_var, const float* conv2_weight,
                           const float* bn2_weight, const float* bn2_bias, const float* bn2_running_mean,
                           const float* bn2_running_var, const float* downsample_0_weight,
                           const float* downsample_1_weight, const float* downsample_1_bias,
                           const float* downsample_1_running_mean, const float* downsample_1_running_var, float* out,
                           int64_t rows, int64_t cols, khost::stream* stream) {
  if (cols != kSize || rows % (kIn * kSize) != 0) {
    return 1;
  }
  int device = 0, processors = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
  cudaFuncSetAttribute(basic_block_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Shared));
  const Weights weights{
      conv1_weight,
      conv2_weight,
      downsample_0_weight,
      Norm{bn1_weight, bn1_bias, bn1_running_mean, bn1_running_var},
      Norm{bn2_weight, bn2_bias, bn2_running_mean, bn2_running_var},
      Norm{downsample_1_weight, downsample_1_bias, downsample_1_running_mean, downsample_1_running_var}};
  basic_block_kernel<<<processors, kThreads, sizeof(Shared), khost::cuda(stream)>>>(x, weights, out,
                                                                                    static_cast<int>(rows / kIn));
  return cudaGetLastError();
}
KHOST_EXPORT(basic_block)
