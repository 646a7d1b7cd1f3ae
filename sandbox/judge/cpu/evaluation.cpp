#include "sandbox/judge/cpu/evaluation.h"

#include <chrono>

#include "sandbox/judge/evaluation/blame.h"
#include "sandbox/judge/evaluation/limits.h"
#include "sandbox/judge/task/planning.h"

namespace khost::judge {
namespace {

using Steady = std::chrono::steady_clock;

double since(Steady::time_point begin) {
  return std::chrono::duration<double>(Steady::now() - begin).count();
}

}  // namespace

Result<Json> Evaluation::run() {
  if (!request_.contains("files") || !request_["files"].is_object()) {
    return Failure{"the request needs files", "bad_input"};
  }
  files_ = candidate_files(request_["files"]);
  verdict_.rules = *rules_of(request_);  // the service has refused other words
  threads_ = std::max(1, request_.value("threads", 1));
  struct Step {
    const char* name;
    Stage stage;
    bool (Evaluation::*run)();
  };
  for (const Step& step :
       {Step{"task", Stage::task, &Evaluation::open_task}, Step{"build", Stage::build, &Evaluation::build_kernels},
        Step{"plan", Stage::plan, &Evaluation::make_plan}, Step{"verify", Stage::verify, &Evaluation::verify},
        Step{"audit", Stage::verify, &Evaluation::audit}, Step{"time", Stage::time, &Evaluation::time}}) {
    if (step.run == &Evaluation::time && !wants_times(request_, purpose_, *session_->calibration(), verdict_)) {
      break;
    }
    const auto begin = Steady::now();
    verdict_.enter(step.stage);
    const bool passed = (this->*step.run)();
    verdict_.wall_s[step.name] = since(begin);
    if (!passed) {
      subject_.reset();
      return answer();
    }
  }
  subject_.reset();
  verdict_.pass();
  return answer();
}

bool Evaluation::open_task() {
  Result<Zygote*> zygote = service_.tasks();
  if (!zygote) {
    verdict_.fail(Stage::task, blame_host(zygote.failure()));
    return false;
  }
  zygote_ = *zygote;
  Result<std::shared_ptr<Session>> session = service_.session(request_["task"]["source"].get<std::string>());
  if (!session) {
    verdict_.fail(Stage::task, blame_task(session.failure()));
    return false;
  }
  session_ = *session;
  verdict_.evidence["task_hash"] = session_->hash();
  return can_judge(request_, *session_->calibration(), verdict_);
}

// Under which name the session keeps a baseline: one that has more cores is another one.
std::string Evaluation::kept_as(const std::string& kind) const {
  const int cores = subject_cores(threads_);
  return cores == 1 ? kind : kind + " on " + std::to_string(cores) + " cores";
}

bool Evaluation::build_kernels() {
  { const std::shared_lock gate(service_.running_); }  // none begins while something is timed
  sandbox::BuildRequest request;
  request.files = files_;
  Result<sandbox::Built> built = sandbox::build(request);
  if (!built) {
    verdict_.fail(Stage::build, blame_build(built.failure()));
    return false;
  }
  built_ = std::move(*built);
  verdict_.evidence["artefact_hash"] = built_.hash;
  return true;
}

bool Evaluation::make_plan() {
  Result<sandbox::Plan> plan =
      plan_of({files_, built_, *session_, verdict_.rules}, [this] { return service_.recorders(); });
  if (!plan) {
    verdict_.fail(Stage::plan, blame_plan(plan.failure()));
    return false;
  }
  plan_ = std::move(*plan);
  if (plan_.uses_torch() && plan_.own_bytes() > kMostOwnBytes) {
    verdict_.fail(Outcome::build_failed, Stage::plan, Reason::limit,
                  "the launches beside torch operators write more than 1 GiB");
    return false;
  }
  return true;
}

}  // namespace khost::judge
