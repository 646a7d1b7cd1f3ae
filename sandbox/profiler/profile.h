// What a profile says: the kernels of one call for each side (the candidate, eager, compile), what the task must move
// and compute, and what this device reaches at most. Plain data and its two forms: JSON for scripts, a table for
// readers. It is told to people and policies; no verdict and no reward is made of it. Times are seconds, sizes bytes.
// Any thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "host/base/json.h"
#include "sandbox/profiler/trace.h"

namespace khost::profiler {

// Launches of one kernel with one shape, in one call.
struct Kernel {
  std::string name;
  Activity activity = Activity::kernel;
  std::array<std::uint32_t, 3> grid{}, block{};
  std::uint32_t registers = 0;
  std::uint64_t static_shared = 0, dynamic_shared = 0;
  std::uint64_t bytes = 0;  // of all copies or fills of a call
  double launches = 0;      // a call, on average
  double seconds = 0;       // of all its launches in a call; median over the calls
};

struct Side {
  std::string unavailable;  // why there is no table; then the rest is empty
  std::size_t calls = 0;
  std::vector<Kernel> kernels;  // the longest first
  double launches = 0;          // kernels, copies and fills of a call, on average
  double busy_s = 0;            // sum of their times; median over the calls
  double span_s = 0;            // from the first's start to the last's end; median over the calls
  std::uint64_t dropped = 0, malformed = 0;
};

// Records of calls before `first_call` are warm-up and do not count.
Side summarize(const Trace& trace, std::uint32_t first_call);

// What a multiprocessor holds (cudaDeviceProp).
struct Limits {
  int multiprocessors = 0, threads = 0, blocks = 0, registers = 0;
  std::size_t shared = 0, shared_reserved = 0;  // of a multiprocessor; of a block, for the system
};

// Blocks of this kernel that a multiprocessor holds at once; 0 when it holds none or the limits are not known.
int resident_blocks(const Kernel& kernel, const Limits& limits);
// Share of a multiprocessor's threads that are then in use.
double occupancy(const Kernel& kernel, const Limits& limits);

// Measured on this device; 0 or absent: not measured.
struct Ceilings {
  double bandwidth = 0;                // bytes a second of a large copy, read and written
  double fma = 0;                      // FLOP a second, fp32 fused multiply-add outside the tensor cores
  std::map<std::string, double> gemm;  // FLOP a second of a large torch.mm: float32, tf32, float16, bfloat16
  std::string unavailable;             // why `gemm` is empty
};

// What hardware counters would need; `allowed` says whether this process may read them.
struct Counters {
  bool allowed = false;
  std::string why;
};

// From the text of /proc/driver/nvidia/params and whether the profiled process is an administrator.
Counters counters_of(const std::string& params, bool administrator);

struct Profile {
  std::map<std::string, Side> sides;    // candidate, eager, compile
  double candidate_s = 0;               // by the judge's clock
  std::map<std::string, double> times;  // eager, compile, by the judge's clock
  double bytes = 0;                     // inputs, weights and outputs, each once
  std::optional<double> flops;          // of matrix products and convolutions; none: could not be counted
  Limits limits;
  Ceilings ceilings;
  Counters counters;
};

Json to_json(const Profile& profile);
// At most 34 lines, which follow the judge's own times.
std::string to_text(const Profile& profile);

}  // namespace khost::profiler
