// The whole block in one kernel. The first convolution has 3 input channels, so computing it again for the rim of a tile
// is cheaper than sending its 64 channels through memory. A tile of 8 x 16 pixels: its first convolution goes to shared
// memory, rounded to TF32 (what cuDNN computes in here); the second one runs on the tensor cores with all its weights in
// shared memory, in the order of mma.m16n8k8's registers. One block a multiprocessor takes tile after tile.
#include "khost.h"

constexpr int kThreads = 256;
constexpr int kChannels = 64, kIn = 3;
constexpr int kRows = 8, kCols = 16;                    // of a tile
constexpr int kMidRows = kRows + 2, kMidCols = kCols + 2;
constexpr int kMid = kMidRows * kMidCols;
constexpr int kStride = 72;                             // floats a pixel in shared memory: no bank twice
constexpr int kXRows = kRows + 4, kXCols = kCols + 4;
constexpr int kX = kIn * kXRows * kXCols;
constexpr int kFirst = kIn * 9;                         // products of the first convolution
constexpr float kEps = 1e-5f;

struct Norm {
  const float *weight, *bias, *mean, *variance;
};

struct Shared {
  float second[9 * kChannels * kChannels];
  float mid[kMid * kStride];
  float first[kFirst * kChannels];
  float x[2][kX];
  float beside[kChannels][kIn];
  float scale[3][kChannels], shift[3][kChannels];
};

__device__ float tf32(float value) {
  unsigned bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
  return __uint_as_float(bits);
}

__device__ void multiply(float (&sum)[4], const float4& a, const float2& b) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(__float_as_uint(a.x)), "r"(__float_as_uint(a.y)), "r"(__float_as_uint(a.z)), "r"(__float_as_uint(a.w)),
        "r"(__float_as_uint(b.x)), "r"(__float_as_uint(b.y)));
}

struct Tile {
  int image, row, col;
};

__device__ Tile tile_at(int number, int size) {
  const int across = size / kCols, down = size / kRows;
  return {number / (across * down), number / across % down * kRows, number % across * kCols};
}

// The element of x that place `i` of the tile's input holds; zero outside of the image.
__device__ float input_at(const float* x, const Tile& tile, int size, int i) {
  const int channel = i / (kXRows * kXCols), row = tile.row + i / kXCols % kXRows - 2, col = tile.col + i % kXCols - 2;
  const bool inside = row >= 0 && row < size && col >= 0 && col < size;
  return inside ? __ldg(x + ((tile.image * kIn + channel) * int64_t{size} + row) * size + col) : 0;
}

// First convolution, norm and ReLU for the tile and its rim: a lane has a pixel, a warp 16 channels at a time.
__device__ void first_convolution(Shared& s, const float* x, const Tile& tile, int size) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  constexpr int kChunks = (kMid + 31) / 32, kGroups = kChannels / 16;
  for (int work = warp; work < kChunks * kGroups; work += kThreads / 32) {
    const int pixel = work / kGroups * 32 + lane, begin = work % kGroups * 16;
    const int row = pixel / kMidCols, col = pixel % kMidCols;
    if (pixel >= kMid) {
      continue;
    }
    float sum[16] = {};
#pragma unroll
    for (int k = 0; k < kFirst; k++) {
      const float value = x[(k / 9 * kXRows + row + k % 9 / 3) * kXCols + col + k % 3];
      const float4* weights = reinterpret_cast<const float4*>(s.first + k * kChannels + begin);
#pragma unroll
      for (int c = 0; c < 4; c++) {
        const float4 w = weights[c];
        sum[4 * c] += value * w.x;
        sum[4 * c + 1] += value * w.y;
        sum[4 * c + 2] += value * w.z;
        sum[4 * c + 3] += value * w.w;
      }
    }
    const int there_row = tile.row + row - 1, there_col = tile.col + col - 1;
    const bool inside = there_row >= 0 && there_row < size && there_col >= 0 && there_col < size;
#pragma unroll
    for (int c = 0; c < 16; c++) {
      const float normed = fmaxf(sum[c] * s.scale[0][begin + c] + s.shift[0][begin + c], 0);
      sum[c] = inside ? tf32(normed) : 0;
    }
    // Of 8 channels, k and k + 4 lie side by side: they are the two registers of one lane.
    float4* to = reinterpret_cast<float4*>(s.mid + pixel * kStride + begin);
    to[0] = make_float4(sum[0], sum[4], sum[1], sum[5]);
    to[1] = make_float4(sum[2], sum[6], sum[3], sum[7]);
    to[2] = make_float4(sum[8], sum[12], sum[9], sum[13]);
    to[3] = make_float4(sum[10], sum[14], sum[11], sum[15]);
  }
}

// A warp has 32 channels of two rows of 16 pixels: two by four products of 16 x 8.
__device__ void second_convolution(const Shared& s, float (&sum)[2][4][4]) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const float4* weights = reinterpret_cast<const float4*>(s.second) + warp % 2 * 2 * 32 + lane;
  const float* pixels = s.mid + (warp / 2 * 2 * kMidCols + lane / 4) * kStride + lane % 4 * 2;
#pragma unroll
  for (int tap = 0; tap < 9; tap++) {
    const float* from = pixels + (tap / 3 * kMidCols + tap % 3) * kStride;
#pragma unroll
    for (int k = 0; k < kChannels / 8; k++) {
      float4 a[2];
      float2 b[4];
#pragma unroll
      for (int m = 0; m < 2; m++) {
        a[m] = weights[((tap * 8 + k) * 4 + m) * 32];
      }
#pragma unroll
      for (int n = 0; n < 4; n++) {
        b[n] = *reinterpret_cast<const float2*>(from + (n / 2 * kMidCols + n % 2 * 8) * kStride + k * 8);
      }
#pragma unroll
      for (int m = 0; m < 2; m++) {
#pragma unroll
        for (int n = 0; n < 4; n++) {
          multiply(sum[m][n], a[m], b[n]);
        }
      }
    }
  }
}

// Norm, the way beside (a 1 x 1 convolution of x and its norm), ReLU.
__device__ void finish(const Shared& s, const float* x, const Tile& tile, int size, const float (&sum)[2][4][4], float* out) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
  for (int n = 0; n < 4; n++) {
    const int row = warp / 2 * 2 + n / 2, col = n % 2 * 8 + lane % 4 * 2;
    float2 in[kIn];
#pragma unroll
    for (int i = 0; i < kIn; i++) {
      const float* at = x + (i * kXRows + row + 2) * kXCols + col + 2;
      in[i] = make_float2(at[0], at[1]);
    }
#pragma unroll
    for (int m = 0; m < 2; m++) {
#pragma unroll
      for (int half = 0; half < 2; half++) {
        const int channel = warp % 2 * 32 + m * 16 + half * 8 + lane / 4;
        float2 beside = make_float2(0, 0);
#pragma unroll
        for (int i = 0; i < kIn; i++) {
          beside.x += s.beside[channel][i] * in[i].x;
          beside.y += s.beside[channel][i] * in[i].y;
        }
        const float scale = s.scale[1][channel], shift = s.shift[1][channel] + s.shift[2][channel];
        const float2 result = make_float2(
            fmaxf(sum[m][n][2 * half] * scale + beside.x * s.scale[2][channel] + shift, 0),
            fmaxf(sum[m][n][2 * half + 1] * scale + beside.y * s.scale[2][channel] + shift, 0));
        float* to = out + ((tile.image * int64_t{kChannels} + channel) * size + tile.row + row) * size + tile.col + col;
        __stcs(reinterpret_cast<float2*>(to), result);
      }
    }
  }
}

__device__ void lay_out(Shared& s, const float* first, const float* second, const float* beside, const Norm (&norms)[3]) {
  for (int i = threadIdx.x; i < 9 * kChannels * kChannels; i += kThreads) {
    const int to = i / (9 * kChannels), from = i / 9 % kChannels, tap = i % 9;
    const int lane = to % 8 * 4 + from % 4, place = to % 16 / 8 + from % 8 / 4 * 2;
    s.second[(((tap * 8 + from / 8) * 4 + to / 16) * 32 + lane) * 4 + place] = tf32(__ldg(second + i));
  }
  for (int i = threadIdx.x; i < kChannels * kFirst; i += kThreads) {
    s.first[i % kFirst * kChannels + i / kFirst] = __ldg(first + i);
  }
  for (int i = threadIdx.x; i < kChannels * kIn; i += kThreads) {
    s.beside[i / kIn][i % kIn] = __ldg(beside + i);
  }
  for (int i = threadIdx.x; i < 3 * kChannels; i += kThreads) {
    const int which = i / kChannels, c = i % kChannels;
    const Norm& norm = norms[which];
    const float scale = norm.weight[c] * rsqrtf(norm.variance[c] + kEps);
    s.scale[which][c] = scale;
    s.shift[which][c] = norm.bias[c] - norm.mean[c] * scale;
  }
}

__global__ void __launch_bounds__(kThreads, 1)
    basic_block_kernel(const float* x, const float* first, const float* second, const float* beside, Norm norm1,
                       Norm norm2, Norm norm3, float* out, int tiles, int size) {
  extern __shared__ __align__(16) unsigned char memory[];
  Shared& s = *reinterpret_cast<Shared*>(memory);
  const Norm norms[3] = {norm1, norm2, norm3};
  lay_out(s, first, second, beside, norms);
  int now = 0;
  if (static_cast<int>(blockIdx.x) < tiles) {
    const Tile tile = tile_at(blockIdx.x, size);
    for (int i = threadIdx.x; i < kX; i += kThreads) {
      s.x[0][i] = input_at(x, tile, size, i);
    }
  }
  __syncthreads();
  for (int number = blockIdx.x; number < tiles; number += gridDim.x, now ^= 1) {
    const Tile tile = tile_at(number, size);
    // The next tile's input is on its way while this one is computed.
    float coming[(kX + kThreads - 1) / kThreads] = {};
    const int next = number + gridDim.x;
    if (next < tiles) {
      const Tile behind = tile_at(next, size);
#pragma unroll
      for (int j = 0; j < (kX + kThreads - 1) / kThreads; j++) {
        const int i = j * kThreads + threadIdx.x;
        coming[j] = i < kX ? input_at(x, behind, size, i) : 0;
      }
    }
    first_convolution(s, s.x[now], tile, size);
    __syncthreads();
    float sum[2][4][4] = {};
    second_convolution(s, sum);
#pragma unroll
    for (int j = 0; j < (kX + kThreads - 1) / kThreads; j++) {
      const int i = j * kThreads + threadIdx.x;
      if (i < kX) {
        s.x[now ^ 1][i] = coming[j];
      }
    }
    finish(s, s.x[now], tile, size, sum, out);
    __syncthreads();
  }
}

extern "C" int basic_block(const float* x, const float* conv1_weight, const float* bn1_weight, const float* bn1_bias,
                           const float* bn1_running_mean, const float* bn1_running_var, const float* conv2_weight,
                           const float* bn2_weight, const float* bn2_bias, const float* bn2_running_mean,
                           const float* bn2_running_var, const float* downsample_0_weight,
                           const float* downsample_1_weight, const float* downsample_1_bias,
                           const float* downsample_1_running_mean, const float* downsample_1_running_var, float* out,
                           int64_t rows, int64_t cols, khost::stream* stream) {
  const int size = static_cast<int>(cols);  // of an image, which is square
  if (size % kRows != 0 || size % kCols != 0 || rows % (kIn * cols) != 0) {
    return 1;
  }
  const int images = static_cast<int>(rows / (kIn * cols));
  int device = 0, processors = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
  cudaFuncSetAttribute(basic_block_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Shared));
  basic_block_kernel<<<processors, kThreads, sizeof(Shared), khost::cuda(stream)>>>(
      x, conv1_weight, conv2_weight, downsample_0_weight,
      Norm{bn1_weight, bn1_bias, bn1_running_mean, bn1_running_var},
      Norm{bn2_weight, bn2_bias, bn2_running_mean, bn2_running_var},
      Norm{downsample_1_weight, downsample_1_bias, downsample_1_running_mean, downsample_1_running_var}, out,
      images * (size / kRows) * (size / kCols), size);
  return cudaGetLastError();
}
KHOST_EXPORT(basic_block)
