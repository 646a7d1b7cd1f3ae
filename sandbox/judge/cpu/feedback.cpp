// What an agent is told about its kernels on the CPU.
#include "sandbox/judge/cpu/evaluation.h"
#include "sandbox/judge/evaluation/report.h"

namespace khost::judge {

Json Evaluation::answer() {
  if (purpose_ == Purpose::verdict) {
    return answer_of(verdict_, purpose_, "");
  }
  const bool profiled = purpose_ == Purpose::profile && verdict_.ok();
  const Layouts* const layouts = session_ ? &session_->layouts() : nullptr;
  return answer_of(verdict_, purpose_,
                   profiled ? profile_text(verdict_, profile_facts())
                            : verify_text(verdict_, batch_ ? batch_->verified : 0, mismatches_, layouts));
}

ProfileFacts Evaluation::profile_facts() const {
  const Layouts& layouts = session_->layouts();
  const std::size_t read = layouts.inputs.region_bytes + layouts.state.region_bytes;
  const auto samples = verdict_.evidence.at("samples").get<std::vector<double>>();
  ProfileFacts facts;
  facts.layouts = &layouts;
  facts.bytes_s = service_.read_rate(read);
  facts.bytes_what = "one thread here reads";
  facts.floor_bytes = static_cast<double>(read);
  facts.floor_what = "reading once";
  facts.calls = format_line("%zu launches a call, %d threads, spread of %zu calls %.1f %%\n", plan_.launches.size(),
                            threads_, samples.size(), 100 * spread(samples) / median(samples));
  return facts;
}

}  // namespace khost::judge
