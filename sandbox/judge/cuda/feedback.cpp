// What an agent is told about its kernels on the GPU: texts about visible sets. Nothing here feeds a reward.
#include <cstdio>
#include <sstream>

#include "sandbox/judge/cuda/evaluation.h"
#include "sandbox/judge/statistics.h"

namespace khost::judge::gpu {
namespace {

std::string line(const char* format, auto... values) {
  char text[240];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

}  // namespace

Json Evaluation::answer() const {
  const bool profiled = purpose_ == Purpose::profile && verdict_.ok();
  Json result = answer_of(verdict_, purpose_,
                          purpose_ == Purpose::verdict ? ""
                          : profiled                   ? profile_text()
                                                       : verify_text());
  if (profiled && !kernels_.is_null()) {
    result["profile"] = kernels_;
  }
  return result;
}

std::string Evaluation::verify_text() const {
  std::ostringstream out;
  if (verdict_.ok()) {
    out << "Correct: all outputs of " << verified_ << " sets of inputs and weights are within the tolerance ("
        << verdict_.evidence.value("tolerance", "") << ").\n";
    return out.str();
  }
  out << word_of(verdict_.status()) << " (" << word_of(verdict_.stage()) << ": " << word_of(verdict_.reason()) << ")\n"
      << verdict_.detail() << "\n";
  if (verdict_.status() == Outcome::wrong && !tolerance_.empty()) {
    out << line("allowed: %.3g + %.3g * |expected|\n", tolerance_.front().atol, tolerance_.front().rtol);
  }
  return out.str();
}

std::string Evaluation::profile_text() const {
  const double mine = verdict_.times.at("candidate_s");
  const double slack = gpu_.cost_.slack_s;
  std::ostringstream out;
  out << line("%-9s %12s %8s\n", "", "device time", "factor") << line("%-9s %9.1f us\n", "kernels", mine * 1e6);
  for (const char* kind : {"eager", "compile"}) {
    const auto found = verdict_.times.find(std::string(kind) + "_s");
    if (found == verdict_.times.end()) {
      out << line("%-9s not available\n", kind);
    } else {
      out << line("%-9s %9.1f us %7.2fx\n", kind, found->second * 1e6, found->second / mine);
    }
  }
  const Layouts& layouts = task_->session->layouts();
  const double in = static_cast<double>(layouts.inputs.region_bytes + layouts.state.region_bytes);
  const double written = static_cast<double>(layouts.outputs.region_bytes);
  out << line("inputs and weights %.2f MB, outputs %.2f MB: %.0f GB/s", in * 1e-6, written * 1e-6,
              (in + written) / mine * 1e-9)
      << line("; a copy on this GPU moves %.0f GB/s, so %.1f us is the floor for everything once\n",
              gpu_.cost_.bandwidth * 1e-9, (in + written) / gpu_.cost_.bandwidth * 1e6);
  const auto samples = verdict_.evidence.at("samples").get<std::vector<double>>();
  out << line("%zu launchers a call, caches cold, spread of %zu calls %.1f %%; a time is certain to %.1f us\n",
              plan_.launches.size(), samples.size(), 100 * spread(samples) / mine, slack * 1e6)
      << kernels_text_;
  return out.str();
}

}  // namespace khost::judge::gpu
