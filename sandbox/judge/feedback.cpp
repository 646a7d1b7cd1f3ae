// What an agent is told about its kernels: texts about visible sets. Nothing here feeds a reward.
#include <cstdio>
#include <sstream>

#include "sandbox/judge/evaluation.h"

namespace khost::judge {
namespace {

std::string line(const char* format, auto... values) {
  char text[200];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

}  // namespace

Json Evaluation::answer() {
  if (session_ && (verdict_.status() == Outcome::wrong || verdict_.status() == Outcome::crash)) {
    const std::string note = sandbox::strides_note(session_->layouts().inputs);
    if (!note.empty()) {
      verdict_.add_detail("inputs: " + note);
    }
  }
  const bool profiled = purpose_ == Purpose::profile && verdict_.ok();
  return answer_of(verdict_, purpose_, purpose_ == Purpose::verdict ? "" : profiled ? profile_text() : verify_text());
}

std::string Evaluation::verify_text() const {
  std::ostringstream out;
  if (verdict_.ok()) {
    out << "Correct: all outputs of " << verification_sets_ << " sets of inputs and weights are within the tolerance ("
        << verdict_.evidence.value("tolerance", "") << ").\n";
    return out.str();
  }
  if (mismatches_.empty()) {
    out << word_of(verdict_.status()) << " (" << word_of(verdict_.stage()) << ": " << word_of(verdict_.reason())
        << ")\n"
        << verdict_.detail() << "\n";
    return out.str();
  }
  out << "Wrong in set " << verdict_.evidence.value("wrong_set", 0) + 1 << " of " << verification_sets_;
  if (verdict_.reason() == Reason::stale_output) {
    out << ": the output is that of an earlier call";
  } else if (verdict_.reason() == Reason::stale_weights) {
    out << ": the output belongs to the weights of an earlier call; weights change from call to call";
  }
  out << "\n";
  for (const Mismatch& mismatch : mismatches_) {
    out << mismatch.report();
  }
  const Tolerance& tolerance = tolerance_.front();
  out << line("allowed: %.3g + %.3g * |expected|\n", tolerance.atol, tolerance.rtol);
  return out.str();
}

std::string Evaluation::profile_text() const {
  const double mine = verdict_.times.at("candidate_s");
  std::ostringstream out;
  out << line("%-9s %10s %8s\n", "", "time", "factor") << line("%-9s %7.3f ms\n", "kernels", mine * 1e3);
  for (const char* kind : {"eager", "compile"}) {
    const auto found = verdict_.times.find(std::string(kind) + "_s");
    if (found == verdict_.times.end()) {
      out << line("%-9s not available\n", kind);
    } else {
      out << line("%-9s %7.3f ms %7.2fx\n", kind, found->second * 1e3, found->second / mine);
    }
  }
  const Layouts& layouts = session_->layouts();
  const std::size_t in = layouts.inputs.region_bytes + layouts.state.region_bytes;
  const std::size_t bytes = in + layouts.outputs.region_bytes;
  const double rate = service_.read_rate(in);
  out << line("inputs and weights %.2f MB, outputs %.2f MB: %.1f GB/s", static_cast<double>(in) * 1e-6,
              static_cast<double>(layouts.outputs.region_bytes) * 1e-6, static_cast<double>(bytes) / mine * 1e-9)
      << line("; one thread reads %.1f GB/s here, so %.3f ms is the floor for reading once\n", rate * 1e-9,
              static_cast<double>(in) / rate * 1e3)
      << line("%zu launches a call, %d threads, spread of %zu calls %.1f %%\n", plan_.launches.size(), threads_,
              verdict_.evidence.at("samples").size(),
              100 * spread(verdict_.evidence.at("samples").get<std::vector<double>>()) / mine);
  return out.str();
}

}  // namespace khost::judge
