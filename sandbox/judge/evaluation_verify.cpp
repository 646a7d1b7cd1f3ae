// Calls on sets, and what is wrong with what they returned.
#include <signal.h>

#include <cmath>

#include "host/base/sha256.h"
#include "sandbox/judge/evaluation.h"
#include "sandbox/judge/evaluation/blame.h"

namespace khost::judge {
namespace {

constexpr double kSetUpTimeout_s = 20;
constexpr double kCallTimeout_s = 5;
constexpr double kReferenceTimeout_s = 60;
constexpr int kOutOfMemory = 12;  // khost-subject's exit status

}  // namespace

bool Evaluation::take_batch() {
  const bool secret = purpose_ == Purpose::verdict;
  const std::string artefact = sha256_hex(built_.hash + plan_.to_json().dump());
  Result<std::shared_ptr<const Batch>> batch =
      secret ? session_->batch_for(*zygote_, artefact) : session_->visible(*zygote_);
  if (!batch) {
    verdict_.fail(Stage::verify, blame_host(batch.failure()));
    return false;
  }
  batch_ = *batch;
  verification_sets_ = secret ? kVerificationSets : kVisibleVerified;
  const std::string name = request_.value("tolerance", "calibrated");
  Result<std::vector<Tolerance>> tolerance =
      tolerances(name, session_->layouts().outputs.tensors.size(), batch_->scales);
  if (!tolerance) {
    verdict_.fail(Stage::verify, blame_host(tolerance.failure()));
    return false;
  }
  tolerance_ = *tolerance;
  verdict_.evidence["tolerance"] = name == "calibrated" && batch_->scales.empty() ? "strict" : name;
  if (!batch_->oracle_error.empty()) {
    verdict_.evidence["oracle_error"] = batch_->oracle_error;
  }
  if (!secret) {
    verdict_.evidence["sets"] = "visible";
  }
  return true;
}

std::unique_ptr<Subject> Evaluation::fresh(Stage stage) {
  const std::shared_lock turn(service_.running_);
  Result<std::unique_ptr<Subject>> subject =
      Subject::start(session_.get(), plan_, built_.path, threads_, service_.limits_);
  if (!subject) {
    verdict_.fail(stage, blame_host(subject.failure()));
    return nullptr;
  }
  const Window window = (*subject)->clock().ready(kSetUpTimeout_s);
  if (window.end == Window::End::done && window.status == 0) {
    return std::move(*subject);
  }
  const bool memory = window.message.find("Cannot allocate memory") != std::string::npos;
  verdict_.fail(window.end == Window::End::timeout ? Outcome::timeout
                : memory                           ? Outcome::oom
                                                   : Outcome::crash,
                stage, Reason::set_up, window.message.empty() ? "the subject did not get ready" : window.message);
  return nullptr;
}

// A call that did not come to an end that can be looked at.
void Evaluation::blame_window(const Window& window, Stage stage) {
  switch (window.end) {
    case Window::End::timeout:
      return verdict_.fail(Outcome::timeout, stage, Reason::call, "a call did not come back");
    case Window::End::stuck:
      return verdict_.fail(Outcome::timeout, stage, Reason::stop, "the process could not be stopped after its call");
    case Window::End::ran:
      return verdict_.fail(
          Outcome::violation, stage, Reason::ran_while_frozen,
          "the process ran for " + std::to_string(std::llround(window.ran_s * 1e9)) + " ns between its calls");
    case Window::End::escaped:
      return verdict_.fail(Outcome::violation, stage, Reason::affinity, "a thread left the cores that it was given");
    case Window::End::gone: {
      const int number = window.exit ? window.exit->signal : 0;
      if ((window.exit && window.exit->code == kOutOfMemory) || number == SIGKILL) {  // only the kernel sends that
        return verdict_.fail(Outcome::oom, stage, Reason::memory, "the kernel's process ran out of memory");
      }
      return verdict_.fail(
          Outcome::crash, stage, number != 0 ? Reason::signal : Reason::exit,
          number != 0 ? "the kernel died of signal " + std::to_string(number) : "the kernel ended its process");
    }
    case Window::End::done:
      return verdict_.fail(Outcome::crash, stage, Reason::status, window.message);
  }
}

bool Evaluation::right(const Subject& subject, const Window& window, std::size_t set) const {
  return window.end == Window::End::done && window.status == 0 &&
         !compare(plan_.outputs, subject.outputs(), session_->layouts().outputs,
                  session_->expected_of(batch_->sets[set]), tolerance_);
}

bool Evaluation::check(Subject& subject, const Window& window, std::size_t set, Stage stage) {
  if (window.end != Window::End::done || window.status != 0) {
    blame_window(window, stage);
    return false;
  }
  const Layouts& layouts = session_->layouts();
  auto wrong = compare_all(plan_.outputs, subject.outputs(), layouts.outputs, session_->expected_of(batch_->sets[set]),
                           tolerance_);
  if (wrong.empty()) {
    return true;
  }
  verdict_.fail(Outcome::wrong, stage, reason_for(subject, set), wrong.front().text());
  mismatches_ = std::move(wrong);
  verdict_.evidence["wrong_set"] = set;
  return false;
}

// Why an output is wrong, where that can be told: it answers an earlier question.
Reason Evaluation::reason_for(Subject& subject, std::size_t set) {
  const Layouts& layouts = session_->layouts();
  for (std::size_t earlier = 0; earlier < set; earlier++) {
    if (!compare(plan_.outputs, subject.outputs(), layouts.outputs, session_->expected_of(batch_->sets[earlier]),
                 tolerance_)) {
      return Reason::stale_output;
    }
  }
  return stale_weights(subject, set) ? Reason::stale_weights : Reason::mismatch;
}

// Whether the output is right for this call's inputs and the weights of the first call or the one before.
bool Evaluation::stale_weights(Subject& subject, std::size_t set) {
  const Layouts& layouts = session_->layouts();
  if (set == 0 || layouts.state.region_bytes == 0) {
    return false;
  }
  const std::shared_lock turn(service_.running_);
  Result<Child> child = zygote_->spawn();
  Result<Region> region = Region::make("mixed", layouts.outputs.region_bytes, Region::Others::write);
  for (const std::size_t earlier : {std::size_t{0}, set - 1}) {
    if (!child || !region) {
      return false;
    }
    const Json request = {{"kind", "mixed"},
                          {"source", session_->source()},
                          {"state_seed", batch_->sets[earlier].seed},
                          {"inputs_seed", batch_->sets[set].seed},
                          {"plant", session_->planted()}};
    const Result<Json> answer = child->call(request, {region->fd()}, kReferenceTimeout_s);
    if (answer && !compare(plan_.outputs, subject.outputs(), layouts.outputs, region->data(), tolerance_)) {
      return true;
    }
  }
  return false;
}

bool Evaluation::verify() {
  if (!take_batch()) {
    return false;
  }
  subject_ = fresh(Stage::verify);
  if (!subject_) {
    return false;
  }
  Json seeds = Json::array();
  for (std::size_t i = 0; i < verification_sets_; i++) {
    seeds.push_back(batch_->sets[i].seed);
    subject_->write(*session_, batch_->sets[i]);
    Window window;
    {
      const std::shared_lock turn(service_.running_);
      window = subject_->clock().call(kCallTimeout_s);
    }
    if (!check(*subject_, window, i, Stage::verify)) {
      return false;
    }
  }
  verdict_.evidence["seeds"] = seeds;
  return true;
}

}  // namespace khost::judge
