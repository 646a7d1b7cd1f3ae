// Root mean square norm with the residual sum before it. One warp a row.
#include "trainer/cuda/device.cuh"
#include "trainer/cuda/kernels.h"

namespace khost::trainer::cuda {
namespace {

constexpr int kWarps = 4;         // of a block
constexpr int kMostBlocks = 528;  // of the backward pass, each of which leaves one row of partial sums

// K: vectors of the row that a lane holds in registers.
template <class T, int N, int K>
__global__ void __launch_bounds__(kWarps * 32)
    add_norm_kernel(int64_t rows, int64_t width, const T* __restrict__ x, const T* __restrict__ delta,
                    const T* __restrict__ weight, T* __restrict__ sum, T* __restrict__ y, float* inverse,
                    float epsilon) {
  wait_for_previous();
  const int64_t row = int64_t{blockIdx.x} * kWarps + threadIdx.x / 32;
  if (row >= rows) {
    return;
  }
  const int64_t base = row * width;
  const int lane = threadIdx.x % 32;
  float held[K][N] = {};
#pragma unroll
  for (int k = 0; k < K; ++k) {
    const int64_t c = (int64_t{k} * 32 + lane) * N;
    if (c < width) {
      load<T, N>(x + base + c, held[k]);
    }
  }
  float squares = 0;
#pragma unroll
  for (int k = 0; k < K; ++k) {
    const int64_t c = (int64_t{k} * 32 + lane) * N;
    if (delta != nullptr && c < width) {
      float b[N];
      load<T, N>(delta + base + c, b);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        held[k][i] = to_float(from_float<T>(held[k][i] + b[i]));
      }
      store<T, N>(sum + base + c, held[k]);
    }
#pragma unroll
    for (int i = 0; i < N; ++i) {
      squares += held[k][i] * held[k][i];
    }
  }
  const float scale = rsqrtf(warp_sum(squares) / static_cast<float>(width) + epsilon);
  if (inverse != nullptr && lane == 0) {
    inverse[row] = scale;
  }
#pragma unroll
  for (int k = 0; k < K; ++k) {
    const int64_t c = (int64_t{k} * 32 + lane) * N;
    if (c < width) {
      float w[N];
      load<T, N>(weight + c, w);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        held[k][i] *= scale * w[i];
      }
      store<T, N>(y + base + c, held[k]);
    }
  }
}

// As above; a lane's columns keep their weight gradients in registers over all rows of the block.
template <class T, int N, int K>
__global__ void __launch_bounds__(kWarps * 32)
    add_norm_backward_kernel(int64_t rows, int64_t width, const T* __restrict__ sum, const T* __restrict__ weight,
                             const float* __restrict__ inverse, const T* __restrict__ dsum, const T* __restrict__ dy,
                             T* __restrict__ dx, float* __restrict__ partial) {
  extern __shared__ float shared[];
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  float dweight[K][N] = {};
  // Calls `use` with what the lane has of a row, a vector of it after the other.
  const auto each_vector = [&](int64_t base, auto use) {
#pragma unroll
    for (int k = 0; k < K; ++k) {
      const int64_t c = (int64_t{k} * 32 + lane) * N;
      if (c < width) {
        float s[N];
        float w[N];
        float d[N];
        load<T, N>(sum + base + c, s);
        load<T, N>(weight + c, w);
        load<T, N>(dy + base + c, d);
        use(base + c, s, w, d, dweight[k]);
      }
    }
  };
  for (int64_t row = int64_t{blockIdx.x} * kWarps + warp; row < rows; row += int64_t{gridDim.x} * kWarps) {
    const float scale = inverse[row];
    float dot = 0;
    each_vector(row * width, [&](int64_t, const float* s, const float* w, const float* d, float* dw) {
#pragma unroll
      for (int i = 0; i < N; ++i) {
        dot += d[i] * w[i] * s[i];
        dw[i] += d[i] * s[i] * scale;
      }
    });
    const float mean = warp_sum(dot) * scale * scale / static_cast<float>(width);
    each_vector(row * width, [&](int64_t at, const float* s, const float* w, const float* d, float*) {
      float before[N] = {};
      if (dsum != nullptr) {
        load<T, N>(dsum + at, before);
      }
#pragma unroll
      for (int i = 0; i < N; ++i) {
        before[i] += scale * (w[i] * d[i] - s[i] * mean);
      }
      store<T, N>(dx + at, before);
    });
  }
  // Warps add in turn: the order of sums is always the same.
  for (int turn = 0; turn < kWarps; ++turn) {
    if (turn == warp) {
#pragma unroll
      for (int k = 0; k < K; ++k) {
        const int64_t c = (int64_t{k} * 32 + lane) * N;
        if (c < width) {
#pragma unroll
          for (int i = 0; i < N; ++i) {
            shared[c + i] = (turn == 0 ? 0.0f : shared[c + i]) + dweight[k][i];
          }
        }
      }
    }
    __syncthreads();
  }
  for (int64_t c = threadIdx.x; c < width; c += blockDim.x) {
    partial[int64_t{blockIdx.x} * width + c] = shared[c];
  }
}

constexpr int kSumThreads = 32;  // each way

template <class T>
__global__ void sum_rows_kernel(const float* __restrict__ rows, int64_t count, int64_t width, T* __restrict__ out) {
  __shared__ float shared[kSumThreads][kSumThreads + 1];
  const int64_t column = int64_t{blockIdx.x} * kSumThreads + threadIdx.x;
  float sum = 0;
  if (column < width) {
    for (int64_t row = threadIdx.y; row < count; row += kSumThreads) {
      sum += rows[row * width + column];
    }
  }
  shared[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  const float total = warp_sum(shared[threadIdx.x][threadIdx.y]);
  const int64_t summed = int64_t{blockIdx.x} * kSumThreads + threadIdx.y;
  if (threadIdx.x == 0 && summed < width) {
    out[summed] = from_float<T>(total);
  }
}

// Calls `run` with the number of vectors a lane holds of a row.
template <class F>
void with_held(int64_t width, int64_t vector, F run) {
  const int64_t held = (width + 32 * vector - 1) / (32 * vector);
  if (held <= 1) {
    run(std::integral_constant<int, 1>());
  } else if (held <= 3) {
    run(std::integral_constant<int, 3>());
  } else if (held <= 8) {
    run(std::integral_constant<int, 8>());
  } else if (held <= 32) {
    run(std::integral_constant<int, 32>());
  } else {
    throw std::runtime_error("norm: rows of " + std::to_string(width) + " are too wide");
  }
}

}  // namespace

void add_norm(const AddNorm& a, cudaStream_t stream) {
  if (a.rows == 0) {
    return;
  }
  with_vector(a.half, a.width, [&](auto element, auto n) {
    using T = decltype(element);
    with_held(a.width, n.value, [&](auto k) {
      launch_early(add_norm_kernel<T, n.value, k.value>, dim3(static_cast<unsigned>((a.rows + kWarps - 1) / kWarps)),
                   dim3(kWarps * 32), stream, a.rows, a.width, static_cast<const T*>(a.x),
                   static_cast<const T*>(a.delta), static_cast<const T*>(a.weight), static_cast<T*>(a.sum),
                   static_cast<T*>(a.y), a.inverse, a.epsilon);
    });
  });
  check_launch("add_norm");
}

int64_t norm_blocks(int64_t rows) {
  const int64_t needed = (rows + kWarps - 1) / kWarps;
  return needed < kMostBlocks ? needed : kMostBlocks;
}

void add_norm_backward(const AddNormBackward& a, cudaStream_t stream) {
  if (a.rows == 0) {
    return;
  }
  with_vector(a.half, a.width, [&](auto element, auto n) {
    using T = decltype(element);
    with_held(a.width, n.value, [&](auto k) {
      add_norm_backward_kernel<T, n.value, k.value>
          <<<norm_blocks(a.rows), kWarps * 32, a.width * sizeof(float), stream>>>(
              a.rows, a.width, static_cast<const T*>(a.sum), static_cast<const T*>(a.weight), a.inverse,
              static_cast<const T*>(a.dsum), static_cast<const T*>(a.dy), static_cast<T*>(a.dx), a.partial);
    });
    const dim3 square(kSumThreads, kSumThreads);
    sum_rows_kernel<T><<<(a.width + kSumThreads - 1) / kSumThreads, square, 0, stream>>>(
        a.partial, norm_blocks(a.rows), a.width, static_cast<T*>(a.dweight));
  });
  check_launch("add_norm_backward");
}

}  // namespace khost::trainer::cuda
