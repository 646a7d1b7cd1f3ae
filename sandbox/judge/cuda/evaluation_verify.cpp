// Calls on sets at once, and what is wrong with what they returned.
#include "host/base/sha256.h"
#include "sandbox/judge/cuda/evaluation.h"

namespace khost::judge::gpu {
namespace {

constexpr double kSetUpTimeout = 20;
constexpr double kCallTimeout = 5;

}  // namespace

std::unique_ptr<Candidate> Evaluation::fresh(const char* stage) {
  Result<std::unique_ptr<Candidate>> subject = start_candidate();
  if (!subject && python_ && subject.failure().code == "gone") {  // its jail is nobody else's
    verdict_.fail("crash", stage, "exit", "the candidate ended the process that its own are forked from");
    return nullptr;
  }
  if (!subject) {
    void_for(stage, subject.failure());
    return nullptr;
  }
  const Window window = (*subject)->ready(kSetUpTimeout);
  if (python_ && window.end == Window::End::done && window.status != 0) {
    const Candidate::Blame blame = (*subject)->blame(window);
    if (blame.status == "policy") {
      verdict_.fail(blame.status, stage, blame.reason, blame.text);
      return nullptr;
    }
  }
  if (window.end != Window::End::done || window.status != 0) {
    const bool memory = window.message.find("out of memory") != std::string::npos ||
                        window.message.find("the device has no") != std::string::npos;
    verdict_.fail(window.end == Window::End::timeout ? "timeout" : memory ? "oom" : "crash", stage, "set_up",
                  window.message.empty() ? "the subject did not get ready" : window.message);
    return nullptr;
  }
  if (Status laid = (*subject)->expect(*batch_, tolerance_); !laid) {
    void_for(stage, laid.failure());
    return nullptr;
  }
  return std::move(*subject);
}

bool Evaluation::check(Candidate& subject, const Window& window, std::size_t set, const char* stage) {
  if (window.end == Window::End::timeout || window.end == Window::End::stuck) {
    verdict_.fail("timeout", stage, "call", "a call did not come back");
    return false;
  }
  if (window.end == Window::End::gone) {
    const int signal = window.exit ? window.exit->signal : 0;
    verdict_.fail("crash", stage, signal != 0 ? "signal" : "exit",
                  signal != 0 ? "the launcher died of signal " + std::to_string(signal)
                              : "the launcher ended its process");
    return false;
  }
  if (window.status != 0) {
    const Candidate::Blame blame = subject.blame(window);
    verdict_.fail(blame.status, stage, blame.reason, blame.text);
    return false;
  }
  Result<bool> changed = subject.inputs_changed(*batch_, set);
  if (!changed) {
    return void_for(stage, changed.failure());
  }
  if (*changed) {
    verdict_.fail("policy", stage, "writes_inputs", "the kernel wrote to its inputs or to the model's state");
    return false;
  }
  Result<std::optional<Mismatch>> wrong = subject.compare(*batch_, set);
  if (!wrong) {
    return void_for(stage, wrong.failure());
  }
  if (!*wrong) {
    return true;
  }
  std::string reason = "mismatch";
  if (set > 0) {
    Result<std::optional<Mismatch>> stale = subject.compare(*batch_, set - 1);
    reason = stale && !*stale ? "stale_output" : reason;
  }
  verdict_.fail("wrong", stage, reason, (*wrong)->text());
  return false;
}

bool Evaluation::verify() {
  const std::string artefact = sha256_hex(built_.hash + plan_.to_json().dump());
  Result<Zygote*> python = gpu_.zygote();
  const bool secret = purpose_ == Purpose::verdict;
  Result<std::shared_ptr<const Batch>> batch = !python  ? Result<std::shared_ptr<const Batch>>(python.failure())
                                               : secret ? task_->session->batch_for(**python, artefact)
                                                        : task_->session->visible(**python);
  if (!batch) {
    return void_for("verify", batch.failure());
  }
  batch_ = *batch;
  const std::string name = request_.value("tolerance", "calibrated");
  Result<std::vector<Tolerance>> tolerance =
      tolerances(name, task_->session->layouts().outputs.tensors.size(), batch_->scales);
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
  verified_ = secret ? kVerificationSets : kVisibleVerified;
  if (!secret) {
    verdict_.evidence["sets"] = "visible";
  }
  Json seeds = Json::array();
  for (std::size_t i = 0; i < verified_; i++) {
    seeds.push_back(batch_->sets[i].seed);
    const Window window = subject_->direct(*batch_, i, kCallTimeout);
    longest_call_s_ = std::max(longest_call_s_, window.seconds);
    if (!check(*subject_, window, i, "verify")) {
      return false;
    }
  }
  verdict_.evidence["seeds"] = seeds;
  verdict_.correct = true;
  return true;
}

// The first calls of a process load its kernels, which would wait for a stream that waits for us.
bool Evaluation::warm(Candidate& subject, const char* stage) {
  for (std::size_t i = 0; i < kWarmUps; i++) {
    if (!check(subject, subject.direct(*batch_, i, kCallTimeout), i, stage)) {
      return false;
    }
  }
  return true;
}

}  // namespace khost::judge::gpu
