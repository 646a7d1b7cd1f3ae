#include "sandbox/judge/cuda/kernels.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace khost::judge::gpu {
namespace {

constexpr unsigned long long kOpenLimit_ns = 50000000;
constexpr unsigned long long kCloseLimit_ns = 200000000;
constexpr int kThreads = 1024;

__device__ unsigned long long device_ns() {
  unsigned long long t;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
  return t;
}

__host__ __device__ std::uint64_t mixed(std::uint64_t z) {
  z += 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

// Two blocks of 1,024 threads fill a multiprocessor, so all blocks resident means that nobody else has a warp there.
// The limit keeps a turn from waiting indefinitely for a device that is shared at that moment.
__device__ bool all_resident(TurnState* state, unsigned long long limit_ns) {
  __shared__ int passed;
  if (threadIdx.x == 0) {
    const unsigned long long start = device_ns();
    passed = 1;
    atomicAdd(&state->arrived, 1u);
    while (*(volatile unsigned*)&state->arrived < gridDim.x) {
      if (device_ns() - start > limit_ns) {
        *(volatile unsigned*)&state->busy = 1;
        break;
      }
    }
    if (*(volatile unsigned*)&state->busy) {
      passed = 0;
    }
  }
  __syncthreads();
  return passed != 0;
}

template <class T>
__device__ T fresh(const std::byte* base, std::int64_t index) {
  return __ldcv(reinterpret_cast<const T*>(base) + index);
}

__device__ double half_at(const std::byte* base, std::int64_t index) {
  const unsigned short bits = fresh<unsigned short>(base, index);
  return __half2float(__ushort_as_half(bits));
}

__device__ double brain_at(const std::byte* base, std::int64_t index) {
  return __uint_as_float(static_cast<unsigned>(fresh<unsigned short>(base, index)) << 16);
}

// Without a tolerance elements must be equal.
__device__ Standing stands(const Tolerance* tolerance, double got, double expected, Format format, std::int64_t flat) {
  if (tolerance == nullptr) {
    return got == expected ? Standing::right : Standing::out;
  }
  return standing(*tolerance, got, expected, format, flat);
}

// Of integers of one width, by their bits; `Signed` is the type whose numbers they are where they have a sign.
template <class Bits, class Signed>
__device__ Standing exactly(const Tolerance* tolerance, bool is_signed, Bits got, Bits expected) {
  if (got == expected) {
    return Standing::right;
  }
  if (tolerance == nullptr) {
    return Standing::out;
  }
  return is_signed ? differing(*tolerance, static_cast<double>(static_cast<Signed>(got)),
                               static_cast<double>(static_cast<Signed>(expected)))
                   : differing(*tolerance, static_cast<double>(got), static_cast<double>(expected));
}

__device__ Standing standing_of(const View& view, const Tolerance* tolerance, std::int64_t flat) {
  std::int64_t at = flat;
  if (view.dimensions > 0) {
    std::int64_t rest = flat;
    at = 0;
    for (int d = view.dimensions - 1; d >= 0; d--) {
      at += rest % view.size[d] * view.stride[d];
      rest /= view.size[d];
    }
  }
  const std::byte* g = view.got;
  const std::byte* e = view.expected;
  switch (view.element) {
    case Element::f32:
      return stands(tolerance, fresh<float>(g, at), fresh<float>(e, flat), Format::f32, flat);
    case Element::f64:
      return stands(tolerance, fresh<double>(g, at), fresh<double>(e, flat), Format::f64, flat);
    case Element::f16:
      return stands(tolerance, half_at(g, at), half_at(e, flat), Format::f16, flat);
    case Element::bf16:
      return stands(tolerance, brain_at(g, at), brain_at(e, flat), Format::bf16, flat);
    case Element::exact1:
      return exactly<unsigned char, signed char>(tolerance, view.is_signed, fresh<unsigned char>(g, at),
                                                 fresh<unsigned char>(e, flat));
    case Element::exact2:
      return exactly<unsigned short, short>(tolerance, view.is_signed, fresh<unsigned short>(g, at),
                                            fresh<unsigned short>(e, flat));
    case Element::exact4:
      return exactly<unsigned, int>(tolerance, view.is_signed, fresh<unsigned>(g, at), fresh<unsigned>(e, flat));
    case Element::exact8:
      return exactly<unsigned long long, long long>(tolerance, view.is_signed, fresh<unsigned long long>(g, at),
                                                    fresh<unsigned long long>(e, flat));
    case Element::exact16:
      return fresh<unsigned long long>(g, 2 * at) == fresh<unsigned long long>(e, 2 * flat) &&
                     fresh<unsigned long long>(g, 2 * at + 1) == fresh<unsigned long long>(e, 2 * flat + 1)
                 ? Standing::right
                 : Standing::beyond;
  }
  return Standing::out;
}

struct OpenArguments {
  TurnState* state;
  Span spans[kMostSpans];
  int count;
  const uint4* scrub;
  std::size_t scrub16;
  unsigned* go;
  unsigned* seen;
  unsigned seq;
};

__global__ void __launch_bounds__(kThreads, 2) open_kernel(OpenArguments a) {
  if (!all_resident(a.state, kOpenLimit_ns)) {
    return;
  }
  const std::size_t first = blockIdx.x * std::size_t{kThreads} + threadIdx.x;
  const std::size_t stride = std::size_t{gridDim.x} * kThreads;
  for (int s = 0; s < a.count; s++) {
    const uint4* from = reinterpret_cast<const uint4*>(a.spans[s].from);
    uint4* to = reinterpret_cast<uint4*>(a.spans[s].to);
    for (std::size_t i = first; i < a.spans[s].bytes / 16; i += stride) {
      __stcs(to + i, __ldcs(from + i));
    }
  }
  uint4 sum{};
  for (std::size_t i = first; i < a.scrub16; i += stride) {
    const uint4 word = __ldcg(a.scrub + i);
    sum.x ^= word.x;
    sum.y ^= word.y;
  }
  if (sum.x == 0x12345678u && sum.y == 0x9abcdef0u) {  // never, but the compiler does not know
    a.state->bad = 1;
  }
  __threadfence_system();
  __syncthreads();
  if (threadIdx.x == 0 && atomicAdd(&a.state->left, 1u) == gridDim.x - 1) {
    if (a.go != nullptr) {
      *(volatile unsigned*)a.go = a.seq;
    }
    *(volatile unsigned*)a.seen = a.seq;
    __threadfence_system();
  }
}

// The scrub has pushed the tables out of the caches. They are fetched again beside the barrier, so that no sample waits
// for its bound.
__device__ void fetch(const Compared& outputs, unsigned thread) {
  constexpr unsigned kLine = 128;
  const auto bytes = static_cast<unsigned>(outputs.count * sizeof(Tolerance));
  if (outputs.tolerances != nullptr && thread * kLine < bytes) {
    asm volatile("prefetch.global.L2 [%0];" ::"l"(reinterpret_cast<const std::byte*>(outputs.tolerances) +
                                                  std::size_t{thread} * kLine));
  }
}

__global__ void __launch_bounds__(kThreads, 2) close_kernel(TurnState* state, Compared outputs, std::uint64_t seed) {
  const unsigned first = blockIdx.x * kThreads + threadIdx.x;
  fetch(outputs, first);
  if (!all_resident(state, kCloseLimit_ns) || outputs.count == 0) {
    return;
  }
  for (unsigned i = first; i < kSamples; i += gridDim.x * kThreads) {
    const int output = static_cast<int>(i % static_cast<unsigned>(outputs.count));
    const View& view = outputs.views[output];
    const Tolerance* tolerance = outputs.tolerances == nullptr ? nullptr : outputs.tolerances + output;
    if (view.count == 0) {
      continue;
    }
    const Standing found = standing_of(view, tolerance, static_cast<std::int64_t>(mixed(seed + i) % view.count));
    if (found == Standing::beyond || found == Standing::out) {
      atomicAdd(view.beyond > 0 && found == Standing::beyond ? &state->loose : &state->bad, 1u);
    }
  }
}

// What one thread has met, added to what all have.
struct Place {
  unsigned long long count = 0, first = ~0ull;
  __device__ void meet(std::int64_t flat) {
    count++;
    first = min(first, static_cast<unsigned long long>(flat));
  }
  __device__ void add_to(Met& all) const {
    if (count > 0) {
      atomicAdd(&all.count, count);
      atomicMin(&all.first, first);
    }
  }
};

__global__ void compare_kernel(Compared outputs, Difference* differences) {
  const View& view = outputs.views[blockIdx.y];
  const Tolerance* tolerance = outputs.tolerances == nullptr ? nullptr : outputs.tolerances + blockIdx.y;
  Difference* result = differences + blockIdx.y;
  Place wrong, out, untypical;
  for (std::int64_t i = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x; i < view.count;
       i += std::int64_t{gridDim.x} * blockDim.x) {
    const Standing found = standing_of(view, tolerance, i);
    if (found == Standing::right) {
      continue;
    }
    untypical.meet(i);
    if (found != Standing::untypical) {
      wrong.meet(i);
    }
    if (found == Standing::out) {
      out.meet(i);
    }
  }
  wrong.add_to(result->wrong);
  out.add_to(result->out);
  untypical.add_to(result->untypical);
}

__global__ void poison_kernel(std::uint64_t* memory, std::size_t words, std::uint64_t seed, std::uint64_t bits) {
  for (std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x; i < words;
       i += std::size_t{gridDim.x} * blockDim.x) {
    memory[i] = mixed(seed + i) | bits;
  }
}

__global__ void spoil_kernel(unsigned char* memory, std::size_t bytes) {
  for (std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x; i < bytes;
       i += std::size_t{gridDim.x} * blockDim.x) {
    memory[i] |= 2;
  }
}

__global__ void changes_kernel(const uint4* a, const uint4* b, std::size_t words, unsigned* differing) {
  unsigned count = 0;
  for (std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x; i < words;
       i += std::size_t{gridDim.x} * blockDim.x) {
    const uint4 x = __ldcs(a + i);
    const uint4 y = __ldcs(b + i);
    count += x.x != y.x || x.y != y.y || x.z != y.z || x.w != y.w;
  }
  if (count > 0) {
    atomicAdd(differing, count);
  }
}

__global__ void busy_kernel(unsigned long long nanoseconds) {
  const unsigned long long start = device_ns();
  while (device_ns() - start < nanoseconds) {
  }
}

}  // namespace

void open_call(cudaStream_t stream, int multiprocessors, TurnState* state, const Span* spans, int count,
               const std::byte* scrub, std::size_t scrub_bytes, unsigned* go, unsigned* seen, unsigned seq) {
  OpenArguments a{state, {}, count, reinterpret_cast<const uint4*>(scrub), scrub_bytes / 16, go, seen, seq};
  for (int i = 0; i < count; i++) {
    a.spans[i] = spans[i];
  }
  open_kernel<<<2 * multiprocessors, kThreads, 0, stream>>>(a);
}

void close_call(cudaStream_t stream, int multiprocessors, TurnState* state, const Compared& outputs,
                std::uint64_t seed) {
  close_kernel<<<2 * multiprocessors, kThreads, 0, stream>>>(state, outputs, seed);
}

void compare_all(cudaStream_t stream, int multiprocessors, const Compared& outputs, Difference* differences) {
  if (outputs.count > 0) {
    compare_kernel<<<dim3(4 * multiprocessors, outputs.count), 512, 0, stream>>>(outputs, differences);
  }
}

void poison(cudaStream_t stream, int multiprocessors, std::byte* memory, std::size_t bytes, std::uint64_t seed,
            bool nans) {
  if (bytes >= 8) {
    poison_kernel<<<4 * multiprocessors, 512, 0, stream>>>(reinterpret_cast<std::uint64_t*>(memory), bytes / 8, seed,
                                                           nans ? 0x7fc000007fc00000ull : 0);
  }
}

void spoil_booleans(cudaStream_t stream, int multiprocessors, std::byte* memory, std::size_t bytes) {
  if (bytes > 0) {
    spoil_kernel<<<4 * multiprocessors, 512, 0, stream>>>(reinterpret_cast<unsigned char*>(memory), bytes);
  }
}

void count_changes(cudaStream_t stream, int multiprocessors, const std::byte* a, const std::byte* b, std::size_t bytes,
                   unsigned* differing) {
  if (bytes >= 16) {
    changes_kernel<<<4 * multiprocessors, 512, 0, stream>>>(reinterpret_cast<const uint4*>(a),
                                                            reinterpret_cast<const uint4*>(b), bytes / 16, differing);
  }
}

void busy_work(cudaStream_t stream, int multiprocessors, unsigned long long nanoseconds) {
  busy_kernel<<<multiprocessors, kThreads, 0, stream>>>(nanoseconds);
}

}  // namespace khost::judge::gpu
