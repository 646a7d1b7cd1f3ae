// Calls on sets at once, and what is wrong with what they returned.
#include <algorithm>
#include <utility>

#include "host/base/sha256.h"
#include "sandbox/judge/cuda/evaluation.h"
#include "sandbox/judge/evaluation/blame.h"

namespace khost::judge::gpu {
namespace {

constexpr double kSetUpTimeout = 20;
constexpr double kCallTimeout = 5;
constexpr std::size_t kStartedAhead = 4;  // brackets that equal programs take
constexpr int kMostAhead = 16;            // of all candidates
constexpr std::size_t kShareAhead = 64;   // a subject's memory must be less than this part of the device's

}  // namespace

bool Evaluation::fits_often() const {
  const Layouts& layouts = task_->session->layouts();
  return layouts.inputs.region_bytes + layouts.state.region_bytes + layouts.outputs.region_bytes <=
         device_->bytes() / kShareAhead;
}

// Those of large tasks are made when no other candidate is judged: each evaluation holds its own until it ends. So is
// what could not be made here, perhaps because of a candidate that is verified meanwhile.
bool Evaluation::take_sets() {
  artefact_ = sha256_hex(built_.hash + plan_.to_json().dump());
  Session& session = *task_->session;
  batch_ = purpose_ == Purpose::verdict ? session.batch_at_hand(artefact_) : session.visible_at_hand();
  if (!batch_ && session.batch_bytes() <= device_->bytes() / kShareOfSets) {
    Result<std::shared_ptr<const Batch>> made =
        gpu_.untimed([this](Device& device) { return make_sets(device, false); });
    batch_ = made ? *made : nullptr;
  }
  return true;
}

Result<std::shared_ptr<const Batch>> Evaluation::make_sets(Device& device, bool alone) {
  Result<Zygote*> python = gpu_.zygote();
  if (!python) {
    return python.failure();
  }
  return gpu_.with_room(device, task_, alone, [&](Oracle oracle) {
    return purpose_ == Purpose::verdict ? task_->session->batch_for(**python, artefact_, oracle)
                                        : task_->session->visible(**python, oracle);
  });
}

// One whose process lives and has its context on the device of now.
Result<Blank> Evaluation::ready_blank(double most_s) {
  while (true) {
    if (gpu_.current_ != device_) {  // then none of them is this one's, however many come
      return lost();
    }
    Result<Blank> blank = gpu_.blanks_.take(most_s);
    if (!blank || (blank->device == device_ && !blank->jail->poll())) {
      return blank;
    }
  }
}

// What cannot be had is started when its turn has come, and what is wrong is said then.
bool Evaluation::take_blank() {
  if (!python_) {
    if (Result<Blank> blank = ready_blank(kPatience_s)) {
      blanks_.push_back(std::move(*blank));
    }
  }
  return true;
}

bool Evaluation::take_blanks() {
  for (std::size_t before = 0; blanks_.size() == before && before < kStartedAhead; before++) {
    if (gpu_.ahead_.fetch_add(1) >= kMostAhead) {
      gpu_.ahead_--;
      break;
    }
    counted_++;
    take_blank();
  }
  return true;
}

void Evaluation::give_up_ahead() {
  ahead_.clear();
  blanks_.clear();
  gpu_.ahead_ -= std::exchange(counted_, 0);
}

// Handles and a Python take tenths of a second; the rest takes hundredths.
bool Evaluation::starts_slowly() const {
  return python_ || plan_.wants_handles();
}

bool Evaluation::start_first() {
  start_ahead(1);
  return true;
}

// Processes of one candidate in Python are not apart from each other: there none is started while another one lives.
bool Evaluation::start_others() {
  start_ahead(blanks_.size());
  return true;
}

// What cannot be started now - another candidate may hold all of the device's memory - is started when its turn has
// come, and what is wrong is said then.
void Evaluation::start_ahead(std::size_t count) {
  if (!fits_often()) {
    return;
  }
  for (std::size_t i = 0; i < count; i++) {
    Result<std::unique_ptr<Candidate>> started = start_candidate();
    if (!started) {
      break;
    }
    ahead_.push_back(std::move(*started));
  }
  for (auto& subject : ahead_) {
    const Window window = subject->prepared(kSetUpTimeout);
    if (window.end != Window::End::done || window.status != 0) {
      subject.reset();
    }
  }
  ahead_.erase(std::remove(ahead_.begin(), ahead_.end(), nullptr), ahead_.end());
}

std::unique_ptr<Candidate> Evaluation::fresh(Stage stage) {
  const bool waiting = !ahead_.empty();
  Result<std::unique_ptr<Candidate>> subject = waiting ? std::move(ahead_.front()) : start_candidate();
  if (waiting) {
    ahead_.pop_front();
  }
  if (!subject && python_ && subject.failure().code == "gone") {  // its jail is nobody else's
    ended_home(stage);
    return nullptr;
  }
  if (!subject) {
    void_for(stage, subject.failure());
    return nullptr;
  }
  if (!waiting) {  // the step in which nothing of the candidate runs: what fails in it is ours
    const Window ours = (*subject)->prepared(kSetUpTimeout);
    if (ours.end != Window::End::done || ours.status != 0) {
      void_for(stage, {ours.message.empty() ? "the subject did not start" : ours.message, "device"});
      return nullptr;
    }
  }
  const Window window = (*subject)->ready(kSetUpTimeout);
  if (python_ && window.end == Window::End::done && window.status != 0) {
    const Finding blame = (*subject)->blame(window);
    if (blame.status == Outcome::violation) {
      verdict_.fail(stage, blame);
      return nullptr;
    }
  }
  if (window.end != Window::End::done || window.status != 0) {
    const bool memory = window.message.find("out of memory") != std::string::npos ||
                        window.message.find("the device has no") != std::string::npos;
    verdict_.fail(window.end == Window::End::timeout ? Outcome::timeout
                  : memory                           ? Outcome::oom
                                                     : Outcome::crash,
                  stage, Reason::set_up, window.message.empty() ? "the subject did not get ready" : window.message);
    return nullptr;
  }
  if (Status laid = (*subject)->expect(*batch_, tolerance_); !laid) {
    void_for(stage, laid.failure());
    return nullptr;
  }
  return std::move(*subject);
}

bool Evaluation::check(Candidate& subject, const Window& window, std::size_t set, Stage stage) {
  if (window.end == Window::End::timeout || window.end == Window::End::stuck) {
    verdict_.fail(Outcome::timeout, stage, Reason::call, "a call did not come back");
    return false;
  }
  if (window.end == Window::End::gone) {
    const int signal = window.exit ? window.exit->signal : 0;
    verdict_.fail(
        Outcome::crash, stage, signal != 0 ? Reason::signal : Reason::exit,
        signal != 0 ? "the launcher died of signal " + std::to_string(signal) : "the launcher ended its process");
    return false;
  }
  if (window.status != 0) {
    const Finding blame = subject.blame(window);
    verdict_.fail(stage, blame);
    return false;
  }
  Result<bool> changed = subject.inputs_changed(*batch_, set);
  if (!changed) {
    return void_for(stage, changed.failure());
  }
  if (*changed) {
    verdict_.fail(Outcome::violation, stage, Reason::writes_inputs,
                  "the kernel wrote to its inputs or to the model's state");
    return false;
  }
  Result<std::optional<Mismatch>> wrong = subject.compare(*batch_, set);
  if (!wrong) {
    return void_for(stage, wrong.failure());
  }
  if (!*wrong) {
    return true;
  }
  Reason reason = Reason::mismatch;
  if (set > 0) {
    Result<std::optional<Mismatch>> stale = subject.compare(*batch_, set - 1);
    reason = stale && !*stale ? Reason::stale_output : reason;
  }
  verdict_.fail(Outcome::wrong, stage, reason, (*wrong)->text());
  return false;
}

bool Evaluation::verify() {
  if (!batch_) {
    Result<std::shared_ptr<const Batch>> made = make_sets(*device_, true);
    if (!made) {
      return void_for(Stage::verify, made.failure());
    }
    batch_ = *made;
  }
  const bool secret = purpose_ == Purpose::verdict;
  const std::string name = request_.value("tolerance", "calibrated");
  Result<std::vector<Tolerance>> tolerance =
      tolerances(name, task_->session->layouts().outputs.tensors.size(), batch_->scales);
  if (!tolerance) {
    verdict_.fail(Stage::verify, blame_host(tolerance.failure()));
    return false;
  }
  tolerance_ = *tolerance;
  verdict_.evidence["tolerance"] = name == "calibrated" && batch_->scales.empty() ? "strict" : name;
  if (!batch_->oracle_error.empty()) {
    verdict_.evidence["oracle_error"] = batch_->oracle_error;
  }
  subject_ = fresh(Stage::verify);
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
    if (!check(*subject_, window, i, Stage::verify)) {
      return false;
    }
  }
  verdict_.evidence["seeds"] = seeds;
  known_ = all_is_known();
  return true;
}

// The first calls of a process load its kernels, which would wait for a stream that waits for us.
bool Evaluation::warm(Candidate& subject, Stage stage) {
  for (std::size_t i = 0; i < kWarmUps; i++) {
    if (!check(subject, subject.direct(*batch_, i, kCallTimeout), i, stage)) {
      return false;
    }
  }
  return true;
}

}  // namespace khost::judge::gpu
