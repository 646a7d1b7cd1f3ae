// Device code of the judge: opening and closing a call, poison, comparison. All of it runs in the judge's own context
// on the judge's stream; every function only enqueues. Pointers are device memory unless said otherwise.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "sandbox/judge/values/tolerance.h"

namespace khost::judge::gpu {

inline constexpr int kMostDimensions = 8;
inline constexpr unsigned kSamples = 16384;  // of a call's output, at secret places, inside the window

enum class Element : int { f32, f64, f16, bf16, exact1, exact2, exact4, exact8, exact16 };

// One output tensor: the candidate's elements (any strides) against the reference's (contiguous).
struct View {
  const std::byte* got;       // first element
  const std::byte* expected;  // first element
  Element element;
  bool is_signed;  // of integers
  int dimensions;  // 0: `got` is contiguous as well
  std::int64_t size[kMostDimensions];
  std::int64_t stride[kMostDimensions];
  std::int64_t count;
  std::int64_t beyond;  // so many elements may be wrong
};

// What a turn leaves behind. `busy`: not all blocks became resident, something else is on the device. Samples that are
// wrong are counted apart: `loose` those that a share may excuse, `bad` all others.
struct TurnState {
  unsigned arrived, left, busy, bad, loose;
};

struct Span {
  const std::byte* from;
  std::byte* to;
  std::size_t bytes;  // a multiple of 16
};
inline constexpr int kMostSpans = 2;

// Copies the spans, reads `scrub` (bytes, larger than the L2 cache) and then writes `seq` to *go, host memory that the
// subject's device waits for, and to *seen, host memory that only the judge has. `go` may be null.
void open_call(cudaStream_t stream, int multiprocessors, TurnState* state, const Span* spans, int count,
               const std::byte* scrub, std::size_t scrub_bytes, unsigned* go, unsigned* seen, unsigned seq);

// Output tensors and the tolerance of each, both device memory. Without tolerances elements must be equal.
struct Compared {
  const View* views = nullptr;
  const Tolerance* tolerances = nullptr;
  int count = 0;
};

// Compares kSamples elements at places that follow from `seed`, spread over the outputs; counts wrong ones in `state`.
// With
// no output it only takes its turn.
void close_call(cudaStream_t stream, int multiprocessors, TurnState* state, const Compared& outputs,
                std::uint64_t seed);

struct Met {
  unsigned long long count = 0;
  unsigned long long first = ~0ull;  // the smallest flat index of one
};
// Elements of one output by where they stand (tolerance.h): `out` ones are wrong, and wrong ones untypical.
struct Difference {
  Met wrong, out, untypical;
};

// Every element of every output; `differences` (device, one for each output) must be as they are made.
void compare_all(cudaStream_t stream, int multiprocessors, const Compared& outputs, Difference* differences);

// Noise over [memory, memory + bytes), bytes a multiple of 8; with `nans` quiet NaNs in both halves of a word.
void poison(cudaStream_t stream, int multiprocessors, std::byte* memory, std::size_t bytes, std::uint64_t seed,
            bool nans);
// Makes bytes neither 0 nor 1, for booleans.
void spoil_booleans(cudaStream_t stream, int multiprocessors, std::byte* memory, std::size_t bytes);

// Counts 16-byte words that differ, in *differing (device).
void count_changes(cudaStream_t stream, int multiprocessors, const std::byte* a, const std::byte* b, std::size_t bytes,
                   unsigned* differing);

// Keeps the whole device for `nanoseconds`; for calibration and tests.
void busy_work(cudaStream_t stream, int multiprocessors, unsigned long long nanoseconds);

}  // namespace khost::judge::gpu
