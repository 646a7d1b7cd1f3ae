// The table of a profile for a reader.
#include <algorithm>
#include <cstdio>
#include <sstream>

#include "sandbox/profiler/profile.h"

namespace khost::profiler {
namespace {

constexpr std::size_t kRowsOfCandidate = 9, kRowsOfBaseline = 5;
constexpr std::size_t kLongestShown = 56;  // of a name

template <class... A>
std::string line(const char* format, A... values) {
  char text[400];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

std::string shape(const std::array<std::uint32_t, 3>& size) {
  std::string text = std::to_string(size[0]);
  if (size[1] > 1 || size[2] > 1) {
    text += "x" + std::to_string(size[1]);
  }
  return size[2] > 1 ? text + "x" + std::to_string(size[2]) : text;
}

// "void at::native::vectorized_elementwise_kernel<4, …>(int, …)" without what every kernel has.
std::string short_name(std::string name) {
  if (name.rfind("void ", 0) == 0) {
    name.erase(0, 5);
  }
  int depth = 0;
  for (std::size_t i = 0; i < name.size(); i++) {  // up to the parameters
    depth += name[i] == '<' ? 1 : name[i] == '>' ? -1 : 0;
    if (name[i] == '(' && depth == 0 && i > 0 && name.compare(i, 11, "(anonymous ") != 0) {
      name.resize(i);
      break;
    }
  }
  return name.size() > kLongestShown ? name.substr(0, kLongestShown - 3) + "..." : name;
}

std::string size_text(std::uint64_t bytes) {
  return bytes >= 10240 ? std::to_string((bytes + 512) / 1024) + "K" : std::to_string(bytes);
}

void add_side(std::ostringstream& out, const std::string& name, const Side& side, std::size_t rows,
              const Limits& limits) {
  if (!side.unavailable.empty()) {
    out << name << ": no kernel table, " << side.unavailable << "\n";
    return;
  }
  if (side.calls == 0) {
    out << name << ": nothing was launched on the device\n";
    return;
  }
  out << line("%s: %.1f us in %.4g launches, %.1f us from first to last\n", name.c_str(), side.busy_s * 1e6,
              side.launches, side.span_s * 1e6);
  std::size_t shown = 0;
  for (const Kernel& kernel : side.kernels) {
    if (shown == rows) {
      double rest = 0;
      for (std::size_t i = shown; i < side.kernels.size(); i++) {
        rest += side.kernels[i].seconds;
      }
      out << line("%9.1f %4.0f%%  %zu more\n", rest * 1e6, side.busy_s > 0 ? 100 * rest / side.busy_s : 0,
                  side.kernels.size() - shown);
      break;
    }
    shown++;
    const double share = side.busy_s > 0 ? 100 * kernel.seconds / side.busy_s : 0;
    if (kernel.activity != Activity::kernel) {
      out << line("%9.1f %4.0f%% %4.4g  %s of %s bytes\n", kernel.seconds * 1e6, share, kernel.launches,
                  kernel.activity == Activity::copy ? "copies" : "fills", size_text(kernel.bytes).c_str());
      continue;
    }
    const std::string size = shape(kernel.grid) + " of " + shape(kernel.block);
    out << line("%9.1f %4.0f%% %4.4g  %-18s %4u %6s %4.0f%%  %s\n", kernel.seconds * 1e6, share, kernel.launches,
                size.c_str(), kernel.registers, size_text(kernel.static_shared + kernel.dynamic_shared).c_str(),
                100 * occupancy(kernel, limits), short_name(kernel.name).c_str());
  }
  if (side.dropped + side.malformed > 0) {
    out << line("  incomplete: %llu records had no room, %llu were no records\n",
                static_cast<unsigned long long>(side.dropped), static_cast<unsigned long long>(side.malformed));
  }
}

void add_rates(std::ostringstream& out, const Profile& profile) {
  const Ceilings& c = profile.ceilings;
  const double seconds = profile.candidate_s;
  if (seconds <= 0) {
    return;
  }
  if (c.bandwidth > 0) {
    out << line("memory: %.0f GB/s, %.0f%% of a copy's %.0f GB/s here\n", profile.bytes / seconds * 1e-9,
                100 * profile.bytes / seconds / c.bandwidth, c.bandwidth * 1e-9);
  }
  if (!profile.flops) {
    out << "arithmetic: this task's FLOPs could not be counted\n";
    return;
  }
  if (*profile.flops == 0) {
    out << "arithmetic: no matrix product or convolution in the task\n";
    return;
  }
  const double rate = *profile.flops / seconds;
  out << line("arithmetic: %.3g GFLOP of products and convolutions, %.1f TFLOP/s", *profile.flops * 1e-9, rate * 1e-12);
  if (c.fma > 0) {
    out << line(": %.0f%% of fp32 FMA's %.0f", 100 * rate / c.fma, c.fma * 1e-12);
  }
  for (const auto& [name, ceiling] : c.gemm) {
    out << line(", %s GEMM %.0f%% of %.0f", name.c_str(), 100 * rate / ceiling, ceiling * 1e-12);
  }
  out << "\n";
  if (c.gemm.empty() && !c.unavailable.empty()) {
    out << "GEMM ceilings were not measured: " << c.unavailable << "\n";
  }
}

}  // namespace

std::string to_text(const Profile& profile) {
  std::ostringstream out;
  add_rates(out, profile);
  out << "kernels of one call, by CUPTI in the process itself, caches cold:\n"
      << "       us share    x  grid of block       regs shared  occup.  name\n";
  for (const char* name : {"candidate", "eager", "compile"}) {
    const auto found = profile.sides.find(name);
    if (found != profile.sides.end()) {
      const bool mine = found->first == "candidate";
      add_side(out, name, found->second, mine ? kRowsOfCandidate : kRowsOfBaseline, profile.limits);
    }
  }
  out << (profile.counters.allowed ? "counters: " : "no counters: ") << profile.counters.why << "\n";
  return out.str();
}

}  // namespace khost::profiler
