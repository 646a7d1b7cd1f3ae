#include "sandbox/judge/evaluation.h"

#include <chrono>
#include <cmath>

#include "host/base/sha256.h"
#include "sandbox/abi/derive.h"

namespace khost::judge {
namespace {

using Steady = std::chrono::steady_clock;

constexpr double kSetUpTimeout = 20;
constexpr double kCallTimeout = 5;
constexpr double kCompileTimeout = 180;
constexpr int kBaselineProcesses = 3;

double since(Steady::time_point begin) { return std::chrono::duration<double>(Steady::now() - begin).count(); }

// Median of the undisturbed windows; of all when too few were.
double typical(const std::vector<double>& clean, const std::vector<double>& all) {
  return median(clean.size() >= 5 ? clean : all);
}

}  // namespace

Result<Json> Evaluation::run() {
  if (!request_.contains("files") || !request_["files"].is_object()) {
    return Failure{"evaluate needs files", "bad_input"};
  }
  for (const auto& [path, text] : request_["files"].items()) {
    if (text.is_string() && (path.rfind("kernels/", 0) == 0 || path == "model_new.py")) {
      files_[path] = text.get<std::string>();
    }
  }
  threads_ = std::max(1, request_.value("threads", 1));
  struct Step {
    const char* name;
    bool (Evaluation::*run)();
  };
  const bool measured = request_.value("measure", true);
  for (const Step& step : {Step{"task", &Evaluation::open_task}, Step{"build", &Evaluation::build_kernels},
                           Step{"plan", &Evaluation::make_plan}, Step{"verify", &Evaluation::verify},
                           Step{"time", &Evaluation::time}}) {
    if (step.run == &Evaluation::time && !measured) {
      break;
    }
    const auto begin = Steady::now();
    verdict_.stage = step.name;
    const bool passed = (this->*step.run)();
    verdict_.wall_s[step.name] = since(begin);
    if (!passed) {
      subject_.reset();
      return verdict_.to_json();
    }
  }
  subject_.reset();
  verdict_.status = "ok";
  return verdict_.to_json();
}

bool Evaluation::open_task() {
  Result<Zygote*> zygote = service_.tasks();
  if (!zygote) {
    verdict_.fail("void", "task", zygote.failure().code, zygote.failure().message);
    return false;
  }
  zygote_ = *zygote;
  Result<std::shared_ptr<Session>> session = service_.session(request_["task"]["source"].get<std::string>());
  if (!session) {
    verdict_.fail(session.failure().code == "bad_task" ? "bad_task" : "void", "task", session.failure().code,
                  session.failure().message);
    return false;
  }
  session_ = *session;
  verdict_.evidence["task_hash"] = session_->hash();
  verdict_.evidence["inputs"] = session_->planted() ? "planted" : "nominal";
  return true;
}

bool Evaluation::build_kernels() {
  sandbox::BuildRequest request;
  request.files = files_;
  Result<sandbox::Built> built = sandbox::build(request);
  if (!built) {
    const Failure& why = built.failure();
    verdict_.fail(why.code == "policy" ? "policy" : why.code == "io" ? "void" : "build_failed", "build", why.code,
                  why.message);
    return false;
  }
  built_ = std::move(*built);
  verdict_.evidence["artefact_hash"] = built_.hash;
  return true;
}

Result<sandbox::Plan> Evaluation::record() {
  Result<Zygote*> zygote = service_.recorders();
  if (!zygote) {
    return zygote.failure();
  }
  Result<Child> child = (*zygote)->spawn();
  if (!child) {
    return child.failure();
  }
  const Json request = {{"model_source", session_->source()},
                        {"model_new_source", files_.at("model_new.py")},
                        {"signatures", built_.signatures},
                        {"inputs", session_->layouts().inputs.to_json()},
                        {"state", session_->layouts().state.to_json()}};
  Result<Json> answer = child->call({{"kind", "record"}, {"request", request}}, {}, 30);
  if (!answer) {
    return Failure{answer.failure().message, "plan"};
  }
  if (answer->contains("error")) {
    const Json& error = (*answer)["error"];
    const std::string reason = error.value("reason", "error");
    const std::string line =
        error.contains("line") && error["line"].is_number() ? " line " + error["line"].dump() : std::string();
    return Failure{"model_new.py" + line + ": " + error.value("message", ""), reason};
  }
  return sandbox::Plan::parse(*answer);
}

Result<sandbox::Plan> Evaluation::derive() {
  std::string source;
  int kernels = 0;
  for (const auto& [path, text] : files_) {
    if (path.size() > 4 && path.substr(path.size() - 4) == ".cpp") {
      source = text;
      kernels++;
    }
  }
  if (kernels != 1 || built_.signatures.size() != 1) {
    return Failure{"without model_new.py there is one kernel file with one exported launcher", "bad_input"};
  }
  const auto& [symbol, signature] = *built_.signatures.begin();
  const Layouts& layouts = session_->layouts();
  return sandbox::derive_plan({source, symbol, signature, layouts.inputs, layouts.state, layouts.outputs});
}

bool Evaluation::make_plan() {
  Result<sandbox::Plan> plan = files_.count("model_new.py") > 0 ? record() : derive();
  Status bound = plan ? plan->bind(built_.signatures, session_->layouts().inputs, session_->layouts().state)
                      : Status(plan.failure());
  if (!bound) {
    const std::string& code = bound.failure().code;
    const bool policy = code.rfind("policy", 0) == 0;
    verdict_.fail(policy ? "policy" : "build_failed", "plan", policy && code.size() > 7 ? code.substr(7) : code,
                  bound.failure().message);
    return false;
  }
  plan_ = std::move(*plan);
  if (Status same = sandbox::match_outputs(plan_.outputs, session_->layouts().outputs); !same) {
    verdict_.fail("wrong", "plan", "shape", same.failure().message);
    return false;
  }
  return true;
}

bool Evaluation::ready(Subject& subject, const char* stage) {
  const Window window = subject.clock().ready(kSetUpTimeout);
  if (window.end == Window::End::done && window.status == 0) {
    return true;
  }
  verdict_.fail(window.end == Window::End::timeout ? "timeout" : "crash", stage, "set_up",
                window.message.empty() ? "the subject did not get ready" : window.message);
  return false;
}

std::unique_ptr<Subject> Evaluation::fresh(const char* stage) {
  Result<std::unique_ptr<Subject>> subject = Subject::start(session_.get(), plan_, built_.path, threads_);
  if (!subject) {
    verdict_.fail("void", stage, subject.failure().code, subject.failure().message);
    return nullptr;
  }
  return ready(**subject, stage) ? std::move(*subject) : nullptr;
}

bool Evaluation::check(Subject& subject, const Window& window, std::size_t set, const char* stage) {
  if (window.end == Window::End::timeout || window.end == Window::End::stuck) {
    verdict_.fail("timeout", stage, "call", "a call did not come back");
  } else if (window.end == Window::End::gone) {
    const int signal = window.exit ? window.exit->signal : 0;
    verdict_.fail("crash", stage, signal != 0 ? "signal" : "exit",
                  signal != 0 ? "the kernel died of signal " + std::to_string(signal) : "the kernel ended its process");
  } else if (window.status != 0) {
    verdict_.fail("crash", stage, "status", window.message);
  } else {
    const auto wrong = compare(plan_.outputs, subject.outputs(), session_->layouts().outputs,
                               session_->expected_of(batch_->sets[set]), tolerance_);
    if (!wrong) {
      return true;
    }
    std::string reason = "mismatch";
    if (set > 0 && !compare(plan_.outputs, subject.outputs(), session_->layouts().outputs,
                            session_->expected_of(batch_->sets[set - 1]), tolerance_)) {
      reason = "stale_output";
    }
    verdict_.fail("wrong", stage, reason, wrong->text());
  }
  return false;
}

bool Evaluation::verify() {
  const std::string artefact = sha256_hex(built_.hash + plan_.to_json().dump());
  Result<std::shared_ptr<const Batch>> batch = session_->batch_for(*zygote_, artefact);
  if (!batch) {
    verdict_.fail("void", "verify", batch.failure().code, batch.failure().message);
    return false;
  }
  batch_ = *batch;
  const std::string name = request_.value("tolerance", "calibrated");
  Result<std::vector<Tolerance>> tolerance =
      tolerances(name, session_->layouts().outputs.tensors.size(), batch_->scales);
  if (!tolerance) {
    verdict_.fail("void", "verify", "bad_input", tolerance.failure().message);
    return false;
  }
  tolerance_ = *tolerance;
  verdict_.evidence["tolerance"] = name == "calibrated" && batch_->scales.empty() ? "strict" : name;
  if (!batch_->oracle_error.empty()) {
    verdict_.evidence["oracle_error"] = batch_->oracle_error;
  }
  subject_ = fresh("verify");
  if (!subject_) {
    return false;
  }
  Json seeds = Json::array();
  for (std::size_t i = 0; i < kVerificationSets; i++) {
    seeds.push_back(batch_->sets[i].seed);
    subject_->write(*session_, batch_->sets[i]);
    if (!check(*subject_, subject_->clock().call(kCallTimeout), i, "verify")) {
      return false;
    }
  }
  verdict_.evidence["seeds"] = seeds;
  verdict_.correct = true;
  return true;
}

bool Evaluation::candidate_block(Subject& subject, std::vector<double>& samples) {
  std::vector<double> clean, all;
  for (std::size_t i = kVerificationSets; i < batch_->sets.size(); i++) {
    subject.write(*session_, batch_->sets[i]);
    const Window window = subject.clock().call(kCallTimeout);
    if (!check(subject, window, i, "time")) {
      return false;
    }
    const double net = std::max(1e-7, window.seconds - service_.cost_.plan_s);
    all.push_back(net);
    if (undisturbed(window)) {
      clean.push_back(net);
    } else {
      dropped_++;
    }
  }
  samples = clean.size() >= 5 ? clean : all;
  return true;
}

// Times a baseline over the sets. A resident one has met the task before and needs fewer calls to settle.
Result<double> Evaluation::baseline_block(const std::string& kind, Process process) {
  std::unique_ptr<BaselineSubject>& kept = session_->residents[kind];
  if (process == Process::fresh || !kept) {
    kept.reset();
    Result<std::unique_ptr<BaselineSubject>> started =
        BaselineSubject::start(*zygote_, *session_, batch_->sets[0], kind, kCompileTimeout);
    if (!started) {
      return started.failure();
    }
    kept = std::move(*started);
  }
  std::vector<double> clean, all;
  for (std::size_t i = 0; i < batch_->sets.size(); i++) {
    kept->write(*session_, batch_->sets[i]);
    const Window window = kept->clock().call(60);
    if (window.end != Window::End::done) {
      kept.reset();
      return Failure{"the " + kind + " baseline did not answer", "timeout"};
    }
    if (i < 3) {
      continue;
    }
    const double net = std::max(1e-7, window.seconds - (kind == "empty" ? 0 : service_.cost_.python_s));
    all.push_back(net);
    if (undisturbed(window)) {
      clean.push_back(net);
    }
  }
  return typical(clean, all);
}

void Evaluation::measure_baseline(const std::string& kind) {
  if (session_->baselines.count(kind) > 0 || session_->unavailable.count(kind) > 0) {
    return;
  }
  std::vector<double> medians;
  for (int i = 0; i < kBaselineProcesses; i++) {
    Result<double> block = baseline_block(kind, Process::fresh);
    if (!block) {
      session_->unavailable[kind] = block.failure().message;
      return;
    }
    if (kind != "compile" || i > 0) {  // the first process compiles; those that load its cache are timed
      medians.push_back(*block);
    }
  }
  session_->baselines[kind] = baseline_of(medians);
}

void Evaluation::calibrate() {
  if (service_.cost_.known) {
    return;
  }
  sandbox::Plan nothing;
  nothing.outputs = sandbox::Manifest::parse({{"storages", Json::array()}, {"tree", {{"kind", "none"}}}}).value();
  Result<std::unique_ptr<Subject>> subject = Subject::start(nullptr, nothing, "libm.so.6", 1);
  if (subject && (*subject)->clock().ready(kSetUpTimeout).end == Window::End::done) {
    std::vector<double> seconds, slack;
    for (int i = 0; i < 40; i++) {
      const Window window = (*subject)->clock().call(kCallTimeout);
      if (window.end == Window::End::done) {
        seconds.push_back(window.seconds);
        slack.push_back(window.freeze_s);
      }
    }
    service_.cost_.plan_s = median(seconds);
    service_.cost_.slack_s = median(slack);
  }
  Result<double> python = baseline_block("empty", Process::fresh);
  service_.cost_.python_s = python ? *python : service_.cost_.plan_s;
  service_.cost_.known = true;
}

bool Evaluation::time() {
  const std::scoped_lock turn(service_.timing_);
  Result<Lease> lease = Lease::open(service_.lease_path_);
  if (!lease) {
    verdict_.fail("void", "time", "lease", lease.failure().message);
    return false;
  }
  const Lease::Guard guard = lease->acquire(Lease::Mode::exclusive);
  service_.retire_residents();
  const std::vector<std::string> kinds = {"eager", "compile"};
  const bool known = service_.cost_.known && (session_->baselines.size() + session_->unavailable.size()) == 2;
  if (!known) {
    subject_.reset();  // no candidate lives while a baseline is timed
    calibrate();
    for (const std::string& kind : kinds) {
      measure_baseline(kind);
    }
    subject_ = fresh("time");
    if (!subject_) {
      return false;
    }
  }
  const double slack = verdict_.slack_s = service_.cost_.slack_s;
  std::vector<double> samples;
  if (!candidate_block(*subject_, samples)) {
    return false;
  }
  subject_.reset();
  const double mine = median(samples);
  verdict_.times["candidate_s"] = mine;
  verdict_.evidence["samples"] = samples;
  for (const std::string& kind : kinds) {
    const auto found = session_->baselines.find(kind);
    if (found == session_->baselines.end()) {
      verdict_.evidence[kind + "_unavailable"] = session_->unavailable[kind];
      continue;
    }
    verdict_.times[kind + "_s"] = found->second.seconds;
    verdict_.speedup[kind] = found->second.seconds / mine;
    std::optional<bool> faster = clear_case(found->second, samples, slack);
    std::vector<double> brackets;
    Result<double> before = faster ? Result<double>(0.0) : baseline_block(kind, Process::resident);
    while (!faster && before && brackets.size() < static_cast<std::size_t>(kMostBrackets)) {
      std::unique_ptr<Subject> again = fresh("time");
      std::vector<double> block;
      if (!again || !candidate_block(*again, block)) {
        return false;
      }
      again.reset();
      Result<double> after = baseline_block(kind, Process::resident);
      if (!after) {
        break;
      }
      brackets.push_back(bracket(*before, median(block), *after, slack));
      faster = decide(brackets);
      before = after;
    }
    verdict_.faster[kind] = faster.value_or(false);
    verdict_.evidence["brackets"][kind] = brackets;
  }
  verdict_.evidence["disturbed_windows"] = dropped_;
  return true;
}

}  // namespace khost::judge
