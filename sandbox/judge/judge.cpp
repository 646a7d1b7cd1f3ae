#include "sandbox/judge/judge.h"

#include <algorithm>
#include <chrono>

#include "host/base/sha256.h"
#include "sandbox/abi/derive.h"
#include "sandbox/judge/measure.h"

namespace khost::judge {
namespace {

using sandbox::Built;
using sandbox::Plan;
using sandbox::Verdict;
using Clock = std::chrono::steady_clock;
using Files = std::map<std::string, std::string>;

constexpr double kVerifyTimeout_s = 10;
constexpr double kRecordTimeout_s = 30;
constexpr double kQuestionTimeout_s = 120;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

Verdict failed(const char* status, const char* stage, std::string reason, std::string detail) {
  Verdict verdict;
  verdict.status = status;
  verdict.stage = stage;
  verdict.reason = std::move(reason);
  verdict.detail = std::move(detail);
  return verdict;
}

// "reason: text" of a task's failure, apart.
Verdict task_verdict(const Failure& failure) {
  const std::size_t colon = failure.message.find(": ");
  const bool split = failure.code == "bad_task" && colon != std::string::npos;
  return failed(failure.code == "bad_task" ? "bad_task" : "void", "task",
                split ? failure.message.substr(0, colon) : failure.code,
                split ? failure.message.substr(colon + 2) : failure.message);
}

Verdict build_verdict(const Failure& failure) {
  const std::string& code = failure.code;
  if (code == "policy") {
    return failed("policy", "build", "library", failure.message);
  }
  if (code == "io" || code == "host") {
    return failed("void", "build", code, failure.message);
  }
  return failed("build_failed", "build", code == "build" ? "compiler" : code, failure.message);
}

Verdict plan_verdict(const Failure& failure) {
  const std::string prefix = "policy/";
  if (failure.code.starts_with(prefix)) {
    return failed("policy", "plan", failure.code.substr(prefix.size()), failure.message);
  }
  if (failure.code == "not_replayable") {
    return failed("policy", "plan", failure.code, failure.message);
  }
  return failed(failure.code == "host" ? "void" : "build_failed", "plan", failure.code, failure.message);
}

struct Verified {
  bool ok = true;
  Verdict verdict;
};

Verdict call_verdict(const Call& call) {
  if (call.outcome == Call::Outcome::timeout) {
    return failed("timeout", "verify", "hang", "no answer in " + std::to_string(int(kVerifyTimeout_s)) + " s");
  }
  return failed("crash", "verify", call.outcome == Call::Outcome::error ? "error_code" : "died", call.message);
}

}  // namespace

Judge::Judge(JudgeOptions options)
    : options_(std::move(options)),
      tasks_({"tasks", options_.python, options_.root, {"task"}}),
      recorders_({"recorder", options_.python, options_.root, {"record"}}) {}

Result<Json> Judge::handle(const Json& request) {
  const std::string kind = request.value("kind", "");
  if (!request.contains("task") || !request["task"].contains("source")) {
    return Failure{"request '" + kind + "' has no task.source", "bad_input"};
  }
  if (kind == "evaluate") {
    return evaluate(request);
  }
  if (kind == "trace" || kind == "admit") {
    return ask(request, kind.c_str());
  }
  return Failure{"unknown request '" + kind + "' (known: evaluate, trace, admit)", "bad_input"};
}

Result<Json> Judge::ask(const Json& request, const char* op) {
  auto loaded = load_task(tasks_, request["task"]["source"].get<std::string>());
  if (!loaded) {
    return loaded.failure();
  }
  return ask_task(*loaded->child, {{"op", op}}, {}, kQuestionTimeout_s);
}

Result<std::shared_ptr<Session>> Judge::session(const std::string& source) {
  const std::string hash = sha256_hex(source);
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(sessions_.begin(), sessions_.end(), [&](const auto& s) { return s.first == hash; });
  if (found != sessions_.end()) {
    sessions_.splice(sessions_.begin(), sessions_, found);
    return sessions_.front().second;
  }
  auto opened = Session::open(tasks_, source);
  if (!opened) {
    return opened.failure();
  }
  sessions_.emplace_front(hash, *opened);
  std::size_t bytes = 0;
  for (auto entry = sessions_.begin(); entry != sessions_.end();) {
    bytes += entry->second->bytes();
    const bool keep = bytes <= options_.session_bytes || entry == sessions_.begin();
    entry = keep ? std::next(entry) : sessions_.erase(entry);
  }
  return sessions_.front().second;
}

Result<Plan> Judge::plan(const Json& request, Session& session, const Built& built) {
  const auto files = request["files"].get<Files>();
  const auto model_new = files.find("model_new.py");
  Result<Plan> plan = Failure{"", "host"};
  if (model_new == files.end()) {
    std::vector<std::string> sources;
    for (const auto& [path, text] : files) {
      if (path.starts_with("kernels/") && (path.ends_with(".cpp") || path.ends_with(".cc"))) {
        sources.push_back(text);
      }
    }
    if (sources.size() != 1 || built.signatures.size() != 1) {
      return Failure{"there is no model_new.py, and only a single kernel file with a single KHOST_EXPORT can do without",
                     "missing_model_new"};
    }
    plan = sandbox::derive_plan({sources[0], built.signatures.begin()->first, built.signatures.begin()->second,
                                 session.inputs(), session.state(), session.outputs()});
  } else {
    auto recorder = recorders_.fork("record");
    if (!recorder) {
      return Failure{recorder.failure().message, "host"};
    }
    auto answer = (*recorder)->call({{"model_source", request["task"]["source"]},
                                     {"model_new_source", model_new->second},
                                     {"signatures", built.signatures},
                                     {"inputs", session.inputs().to_json()},
                                     {"state", session.state().to_json()}},
                                    {}, kRecordTimeout_s);
    if (!answer) {
      return Failure{"model_new.py: " + answer.failure().message, "recorder"};
    }
    if (answer->contains("error")) {
      const Json& error = (*answer)["error"];
      std::string text = error.value("message", "");
      if (error.contains("line") && error["line"].is_number()) {
        text = "model_new.py:" + std::to_string(error["line"].get<int>()) + ": " + text;
      }
      return Failure{text, error.value("reason", "error")};
    }
    plan = Plan::parse(*answer);
  }
  if (!plan) {
    return plan;
  }
  if (Status bound = plan->bind(built.signatures, session.inputs(), session.state()); !bound) {
    return bound.failure();
  }
  if (Status matched = sandbox::match_outputs(plan->outputs, session.outputs()); !matched) {
    return Failure{matched.failure().message, "outputs"};
  }
  return plan;
}

Result<Json> Judge::evaluate(const Json& request) {
  if (!request.contains("files") || !request["files"].is_object()) {
    return Failure{"request 'evaluate' has no files", "bad_input"};
  }
  const std::string tolerance_name = request.value("tolerance", "calibrated");
  if (!known_tolerance(tolerance_name)) {
    return Failure{"tolerance '" + tolerance_name + "' is unknown (known: paper, strict, calibrated)", "bad_input"};
  }
  const std::string source = request["task"]["source"].get<std::string>();
  Clock::time_point begin = Clock::now();
  Json wall = Json::object();
  const auto lap = [&](const char* name) {
    wall[name] = seconds_since(begin);
    begin = Clock::now();
  };
  const auto answer = [&](Verdict verdict) -> Result<Json> {
    verdict.wall_s = wall;
    verdict.evidence["task_hash"] = sha256_hex(source);
    return verdict.to_json();
  };

  auto built = sandbox::build({.files = request["files"].get<Files>()});
  lap("build");
  // The task comes first in the verdict: a kernel for a task that does not run is nobody's failure.
  auto opened = session(source);
  lap("task");
  if (!opened) {
    return answer(task_verdict(opened.failure()));
  }
  Session& task = **opened;
  if (!built) {
    return answer(build_verdict(built.failure()));
  }
  auto planned = plan(request, task, *built);
  lap("plan");
  if (!planned) {
    return answer(plan_verdict(planned.failure()));
  }

  const int threads = request.value("threads", 1);
  const auto tolerance = tolerances(tolerance_name, task.scales(), task.outputs().tensors.size());
  const auto start = [&] { return CandidateProcess::start(*built, *planned, task.sets()[0], threads); };
  const auto check = [&](const CandidateProcess& process, const InputSet& set) {
    return compare(planned->outputs, process.outputs(), task.outputs(), set.expected.data(), tolerance);
  };
  Verdict verdict;
  verdict.stage = "verify";
  verdict.evidence["artefact_hash"] = built->hash;
  verdict.evidence["seeds"] = task.seeds();
  verdict.evidence["tolerance"] = tolerance_name == "calibrated" && task.scales().empty() ? "strict" : tolerance_name;
  {
    const auto lock = task.lock();
    auto process = start();
    if (!process) {
      const std::string& code = process.failure().code;
      const bool theirs = code == "crash" || code == "timeout";
      lap("verify");
      return answer(failed(theirs ? code.c_str() : "void", "verify", "load", process.failure().message));
    }
    for (std::size_t i = 0; i < task.sets().size(); i++) {
      const Call call = (*process)->play(task.sets()[i], kVerifyTimeout_s);
      if (call.outcome != Call::Outcome::ok) {
        lap("verify");
        return answer(call_verdict(call));
      }
      if (const Mismatch mismatch = check(**process, task.sets()[i]); !mismatch.equal) {
        lap("verify");
        return answer(failed("wrong", "verify", "mismatch",
                             mismatch.first + " (" + std::to_string(mismatch.different) + " of " +
                                 std::to_string(mismatch.total) + " elements differ, set " + std::to_string(i + 1) +
                                 " of " + std::to_string(task.sets().size()) + ")"));
      }
    }
    verdict.correct = true;
  }
  lap("verify");
  if (request.value("measure", true)) {
    const std::lock_guard alone(timing_);
    const auto lock = task.lock();
    auto lease = Lease::open(options_.lease_path);
    if (!lease) {
      return lease.failure();
    }
    measure(task, *lease, {start, check, request.value("compile", true)}, verdict);
    lap("time");
  }
  return answer(verdict);
}

}  // namespace khost::judge
