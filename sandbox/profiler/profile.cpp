#include "sandbox/profiler/profile.h"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace khost::profiler {
namespace {

constexpr std::size_t kMostKernels = 200;  // of a side, in JSON
constexpr int kRegisterStep = 256;         // registers are given out to a warp in such pieces
constexpr int kSharedStep = 1024;          // so is shared memory to a block, within what matters here
constexpr int kWarp = 32;

double median_of(std::vector<double> values) {
  if (values.empty()) {
    return 0;
  }
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

template <class T>
T stepped(T value, T step) {
  return (value + step - 1) / step * step;
}

Json json_of(const Kernel& kernel, const Side& side, const Limits& limits) {
  Json result = {{"name", kernel.name},
                 {"launches", kernel.launches},
                 {"seconds", kernel.seconds},
                 {"share", side.busy_s > 0 ? kernel.seconds / side.busy_s : 0}};
  if (kernel.activity != Activity::kernel) {
    result["kind"] = kernel.activity == Activity::copy ? "copy" : "fill";
    result["bytes"] = kernel.bytes;
    return result;
  }
  result["kind"] = "kernel";
  result["grid"] = kernel.grid;
  result["block"] = kernel.block;
  result["registers"] = kernel.registers;
  result["static_shared_bytes"] = kernel.static_shared;
  result["dynamic_shared_bytes"] = kernel.dynamic_shared;
  result["resident_blocks"] = resident_blocks(kernel, limits);
  result["occupancy"] = occupancy(kernel, limits);
  return result;
}

Json json_of(const Side& side, const Limits& limits) {
  if (!side.unavailable.empty()) {
    return {{"unavailable", side.unavailable}};
  }
  Json kernels = Json::array();
  for (std::size_t i = 0; i < std::min(side.kernels.size(), kMostKernels); i++) {
    kernels.push_back(json_of(side.kernels[i], side, limits));
  }
  return {{"calls", side.calls},     {"launches", side.launches},
          {"busy_s", side.busy_s},   {"span_s", side.span_s},
          {"kernels", kernels},      {"more_kernels", side.kernels.size() - kernels.size()},
          {"dropped", side.dropped}, {"malformed", side.malformed}};
}

Json rates_of(const Profile& profile, double seconds) {
  Json result = {{"seconds", seconds}, {"bandwidth", profile.bytes / seconds}};
  if (profile.ceilings.bandwidth > 0) {
    result["bandwidth_share"] = profile.bytes / seconds / profile.ceilings.bandwidth;
  }
  if (!profile.flops) {
    return result;
  }
  const double rate = *profile.flops / seconds;
  result["flop_rate"] = rate;
  if (profile.ceilings.fma > 0) {
    result["flop_share"]["fma"] = rate / profile.ceilings.fma;
  }
  for (const auto& [name, ceiling] : profile.ceilings.gemm) {
    result["flop_share"][name] = rate / ceiling;
  }
  return result;
}

}  // namespace

Side summarize(const Trace& trace, std::uint32_t first_call) {
  struct Call {
    std::uint64_t first = ~0ull, last = 0;
    double busy = 0;
  };
  using Shape = std::tuple<std::string, Activity, std::array<std::uint32_t, 3>, std::array<std::uint32_t, 3>,
                           std::uint32_t, std::uint64_t, std::uint64_t>;
  struct Group {
    Kernel kernel;
    std::map<std::uint32_t, double> seconds;  // by call
    double launches = 0;
    double bytes = 0;
  };
  std::map<std::uint32_t, Call> calls;
  std::map<Shape, Group> groups;
  Side side;
  side.dropped = trace.dropped;
  side.malformed = trace.malformed;
  for (const TraceRecord& r : trace.records) {
    if (r.call < first_call) {
      continue;
    }
    const double seconds = static_cast<double>(r.end_ns - r.start_ns) * 1e-9;
    Call& call = calls[r.call];
    call.first = std::min(call.first, r.start_ns);
    call.last = std::max(call.last, r.end_ns);
    call.busy += seconds;
    Group& group = groups[{r.name, r.activity, r.grid, r.block, r.registers, r.static_shared, r.dynamic_shared}];
    group.kernel = {r.name, r.activity, r.grid, r.block, r.registers, r.static_shared, r.dynamic_shared, 0, 0, 0};
    group.seconds[r.call] += seconds;
    group.launches += 1;
    group.bytes += static_cast<double>(r.bytes);
  }
  side.calls = calls.size();
  if (calls.empty()) {
    return side;
  }
  const auto count = static_cast<double>(calls.size());
  std::vector<double> busy, spans;
  for (const auto& [number, call] : calls) {
    busy.push_back(call.busy);
    spans.push_back(static_cast<double>(call.last - call.first) * 1e-9);
  }
  side.busy_s = median_of(busy);
  side.span_s = median_of(spans);
  for (auto& [shape, group] : groups) {
    std::vector<double> seconds;
    for (const auto& [call, sum] : group.seconds) {
      seconds.push_back(sum);
    }
    seconds.resize(calls.size());  // calls without it took no time for it
    group.kernel.launches = group.launches / count;
    group.kernel.seconds = median_of(seconds);
    group.kernel.bytes = static_cast<std::uint64_t>(std::min(group.bytes / count, 1e18));
    side.launches += group.kernel.launches;
    side.kernels.push_back(std::move(group.kernel));
  }
  std::stable_sort(side.kernels.begin(), side.kernels.end(),
                   [](const Kernel& a, const Kernel& b) { return a.seconds > b.seconds; });
  return side;
}

int resident_blocks(const Kernel& kernel, const Limits& limits) {
  const std::int64_t threads = std::int64_t{kernel.block[0]} * kernel.block[1] * kernel.block[2];
  if (limits.threads <= 0 || threads <= 0) {
    return 0;
  }
  const std::int64_t warps = stepped<std::int64_t>(threads, kWarp) / kWarp;
  std::int64_t blocks = std::min<std::int64_t>(limits.blocks, limits.threads / (warps * kWarp));
  if (kernel.registers > 0) {
    const std::int64_t of_warp = stepped<std::int64_t>(std::int64_t{kernel.registers} * kWarp, kRegisterStep);
    blocks = std::min(blocks, limits.registers / of_warp / warps);
  }
  const std::size_t shared =
      stepped<std::size_t>(kernel.static_shared + kernel.dynamic_shared + limits.shared_reserved, kSharedStep);
  if (shared > 0) {
    blocks = std::min(blocks, static_cast<std::int64_t>(limits.shared / shared));
  }
  return static_cast<int>(std::max<std::int64_t>(blocks, 0));
}

double occupancy(const Kernel& kernel, const Limits& limits) {
  const double threads =
      std::ceil(static_cast<double>(std::uint64_t{kernel.block[0]} * kernel.block[1] * kernel.block[2]) / kWarp) *
      kWarp;
  return limits.threads > 0 ? resident_blocks(kernel, limits) * threads / limits.threads : 0;
}

Counters counters_of(const std::string& params, bool administrator) {
  const std::string key = "RmProfilingAdminOnly:";
  const std::size_t at = params.find(key);
  if (at == std::string::npos) {
    return {false, "the driver does not say who may read hardware counters"};
  }
  const bool only = params.find_first_not_of(' ', at + key.size()) != std::string::npos &&
                    params[params.find_first_not_of(' ', at + key.size())] != '0';
  if (only && !administrator) {
    return {false, "the driver gives hardware counters to administrators only (RmProfilingAdminOnly: 1)"};
  }
  return {true, only ? "an administrator may read hardware counters; this profiler reads none, ncu does"
                     : "hardware counters are open to every process (RmProfilingAdminOnly: 0); this profiler reads "
                       "none, ncu does"};
}

Json to_json(const Profile& profile) {
  Json sides = Json::object();
  Json rates = Json::object();
  for (const auto& [name, side] : profile.sides) {
    sides[name] = json_of(side, profile.limits);
  }
  if (profile.candidate_s > 0) {
    rates["candidate"] = rates_of(profile, profile.candidate_s);
  }
  for (const auto& [name, seconds] : profile.times) {
    if (seconds > 0) {
      rates[name] = rates_of(profile, seconds);
    }
  }
  Json ceilings = {
      {"bandwidth", profile.ceilings.bandwidth}, {"fma", profile.ceilings.fma}, {"gemm", profile.ceilings.gemm}};
  if (!profile.ceilings.unavailable.empty()) {
    ceilings["gemm_unavailable"] = profile.ceilings.unavailable;
  }
  return {{"source", "CUPTI in each process; the candidate's table is its own word and feeds no reward"},
          {"sides", sides},
          {"rates", rates},
          {"work", {{"bytes", profile.bytes}, {"flops", profile.flops ? Json(*profile.flops) : Json()}}},
          {"ceilings", ceilings},
          {"counters", {{"allowed", profile.counters.allowed}, {"why", profile.counters.why}}}};
}

}  // namespace khost::profiler
