// What an agent is told about its kernels on the GPU.
#include "sandbox/judge/cuda/evaluation.h"
#include "sandbox/judge/evaluation/report.h"
#include "sandbox/judge/evaluation/statistics.h"

namespace khost::judge::gpu {

Json Evaluation::answer() const {
  if (purpose_ == Purpose::verdict) {
    return answer_of(verdict_, purpose_, "");
  }
  const bool profiled = purpose_ == Purpose::profile && verdict_.ok();
  const Layouts* const layouts = task_ ? &task_->session->layouts() : nullptr;
  Json result = answer_of(verdict_, purpose_,
                          profiled ? profile_text(verdict_, profile_facts()) + kernels_text_
                                   : verify_text(verdict_, batch_ ? batch_->verified : 0, mismatches_, layouts));
  if (profiled && !kernels_.is_null()) {
    result["profile"] = kernels_;
  }
  return result;
}

ProfileFacts Evaluation::profile_facts() const {
  const Layouts& layouts = task_->session->layouts();
  const auto samples = verdict_.evidence.at("samples").get<std::vector<double>>();
  ProfileFacts facts;
  facts.clock = "device time";
  facts.unit_s = 1e-6;
  facts.unit = "us";
  facts.layouts = &layouts;
  facts.bytes_s = gpu_.cost_.bandwidth;
  facts.bytes_what = "a copy on this GPU moves";
  facts.floor_bytes =
      static_cast<double>(layouts.inputs.region_bytes + layouts.state.region_bytes + layouts.outputs.region_bytes);
  facts.floor_what = "everything once";
  facts.calls = format_line(
      "%zu launchers a call, caches cold, spread of %zu calls %.1f %%; a time is certain to %.1f us\n",
      plan_.launches.size(), samples.size(), 100 * spread(samples) / median(samples), gpu_.cost_.slack_s * 1e6);
  return facts;
}

}  // namespace khost::judge::gpu
