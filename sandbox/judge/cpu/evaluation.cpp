#include "sandbox/judge/cpu/evaluation.h"

#include <chrono>

#include "sandbox/judge/evaluation/blame.h"
#include "sandbox/judge/evaluation/limits.h"

namespace khost::judge {

std::vector<Evaluation::Step> CpuEvaluation::steps() {
  const auto body = [this](bool (CpuEvaluation::*step)()) { return [this, step] { return (this->*step)(); }; };
  return {{"task", Stage::task, body(&CpuEvaluation::open_task), {}},
          {"build", Stage::build, body(&CpuEvaluation::build_kernels), {}},
          {"plan", Stage::plan, body(&CpuEvaluation::make_plan), {}},
          {"verify", Stage::verify, body(&CpuEvaluation::verify), {}},
          {"audit", Stage::verify, body(&CpuEvaluation::audit), {}},
          {"time", Stage::time, body(&CpuEvaluation::time), [this] { return times_wanted(); }}};
}

bool CpuEvaluation::run_step(const Step& step) {
  const auto begin = std::chrono::steady_clock::now();
  const bool passed = step.body();
  verdict_.wall_s[step.name] = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return passed;
}

void CpuEvaluation::ended(bool) {
  subject_.reset();
}

bool CpuEvaluation::open_task() {
  Result<Zygote*> zygote = service_.tasks();
  if (!zygote) {
    return void_for(Stage::task, zygote.failure());
  }
  zygote_ = *zygote;
  const std::string source = request_["task"]["source"].get<std::string>();
  Result<std::shared_ptr<Session>> session = service_.session(source, audience());
  if (!session) {
    verdict_.fail(Stage::task, blame_task(session.failure()));
    return false;
  }
  return opened(*session);
}

// Under which name the session keeps a baseline: one that has more cores is another one.
std::string CpuEvaluation::kept_as(const std::string& kind) const {
  const int cores = subject_cores(threads_);
  return cores == 1 ? kind : kind + " on " + std::to_string(cores) + " cores";
}

bool CpuEvaluation::build_kernels() {
  { const std::shared_lock gate(service_.running_); }  // none begins while something is timed
  sandbox::BuildRequest request;
  request.files = files_;
  return built(sandbox::build(request));
}

bool CpuEvaluation::make_plan() {
  if (!planned(verdict_.rules, [this] { return service_.recorders(); })) {
    return false;
  }
  if (plan_.uses_torch() && plan_.own_bytes() > kMostOwnBytes) {
    verdict_.fail(Outcome::build_failed, Stage::plan, Reason::limit,
                  "the launches beside torch operators write more than 1 GiB");
    return false;
  }
  return true;
}

ProfileFacts CpuEvaluation::profile_facts() const {
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
