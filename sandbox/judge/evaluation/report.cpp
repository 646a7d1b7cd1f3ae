#include "sandbox/judge/evaluation/report.h"

#include <cstdarg>
#include <cstdio>
#include <sstream>

namespace khost::judge {

std::string format_line(const char* format, ...) {
  va_list values, again;
  va_start(values, format);
  va_copy(again, values);
  const int size = std::vsnprintf(nullptr, 0, format, values);
  va_end(values);
  std::string text(size > 0 ? static_cast<std::size_t>(size) : 0, '\0');
  std::vsnprintf(text.data(), text.size() + 1, format, again);
  va_end(again);
  return text;
}

std::string verify_text(const Verdict& verdict, std::size_t verified, const std::vector<Mismatch>& mismatches,
                        const Layouts* layouts) {
  std::ostringstream out;
  if (verdict.ok()) {
    out << "Correct: all outputs of " << verified << " sets of inputs and weights are within the tolerance ("
        << verdict.evidence.value("tolerance", "") << ").\n";
    return out.str();
  }
  if (mismatches.empty()) {
    out << word_of(verdict.status()) << " (" << word_of(verdict.stage()) << ": " << word_of(verdict.reason()) << ")\n"
        << verdict.detail() << "\n";
    return out.str();
  }
  const std::size_t wrong = verdict.evidence.value("wrong_set", std::size_t{0});
  out << "Wrong in set " << wrong + 1;
  if (wrong < verified) {
    out << " of " << verified;
  } else {
    out << ", in a timed call";
  }
  if (verdict.reason() == Reason::stale_output || verdict.reason() == Reason::stale_weights) {
    out << ": " << sentence_of(verdict.reason());
  }
  out << "\n";
  for (const Mismatch& mismatch : mismatches) {
    out << mismatch.report();
  }
  const std::string strided = layouts == nullptr ? "" : strided_tensors(layouts->inputs, layouts->state);
  out << strided << (strided.empty() ? "" : "\n");
  return out.str();
}

std::string profile_text(const Verdict& verdict, const ProfileFacts& facts) {
  const double mine = verdict.times.at("candidate_s");
  const double unit = facts.unit_s;
  const char* const name = facts.unit;
  std::ostringstream out;
  out << format_line("%-9s %14s %8s\n", "", facts.clock, "factor")
      << format_line("%-9s %11.3f %s\n", "kernels", mine / unit, name);
  for (const char* kind : {"eager", "compile"}) {
    const auto found = verdict.times.find(std::string(kind) + "_s");
    if (found == verdict.times.end()) {
      out << format_line("%-9s not available\n", kind);
    } else {
      out << format_line("%-9s %11.3f %s %7.2fx\n", kind, found->second / unit, name, verdict.speedup.at(kind));
    }
  }
  const double in = static_cast<double>(facts.layouts->inputs.region_bytes + facts.layouts->state.region_bytes);
  const double written = static_cast<double>(facts.layouts->outputs.region_bytes);
  out << format_line(
             "inputs and weights %.2f MB, outputs %.2f MB: %.1f GB/s; %s %.1f GB/s, so %.3f %s is the floor for %s\n",
             in * 1e-6, written * 1e-6, (in + written) / mine * 1e-9, facts.bytes_what.c_str(), facts.bytes_s * 1e-9,
             facts.floor_bytes / facts.bytes_s / unit, name, facts.floor_what.c_str())
      << facts.calls;
  return out.str();
}

}  // namespace khost::judge
