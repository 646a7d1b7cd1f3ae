// Checked calls: sets, subjects, and what is wrong with the outputs.
#include <algorithm>
#include <numeric>
#include <utility>

#include "sandbox/judge/cuda/evaluation.h"
#include "sandbox/judge/evaluation/blame.h"
#include "sandbox/judge/evaluation/limits.h"

namespace khost::judge::gpu {
namespace {

constexpr std::size_t kStartedAhead = 4;  // as many brackets as equal programs take
constexpr int kMostAhead = 16;            // over all candidates
constexpr std::size_t kShareAhead = 64;   // a subject takes less than this part of the GPU memory

}  // namespace

bool GpuEvaluation::fits_often() const {
  const Layouts& layouts = task_->session->layouts();
  return layouts.inputs.region_bytes + layouts.state.region_bytes + layouts.outputs.region_bytes <=
         device_->bytes() / kShareAhead;
}

// Sets of large tasks are made later, under the device lock, since each evaluation holds its sets until it ends. So are
// sets that could not be made here, perhaps because a candidate that is being verified holds the memory.
bool GpuEvaluation::take_sets() {
  Session& session = *task_->session;
  batch_ = purpose_ == Purpose::verdict ? session.batch_at_hand(artefact(), audience()) : session.visible_at_hand();
  if (!batch_ && session.batch_bytes() <= device_->bytes() / kShareOfSets) {
    Result<std::shared_ptr<const Batch>> made =
        gpu_.untimed([this](Device& device) { return make_sets(device, false); });
    batch_ = made ? *made : nullptr;
  }
  return true;
}

Result<std::shared_ptr<const Batch>> GpuEvaluation::make_sets(Device& device, bool alone) {
  Result<Zygote*> python = gpu_.zygote();
  if (!python) {
    return python.failure();
  }
  return gpu_.with_room(device, task_, alone, [&](Oracle) {
    return purpose_ == Purpose::verdict ? task_->session->batch_for(**python, artefact(), audience())
                                        : task_->session->visible(**python);
  });
}

// An idle subject whose process is alive and has its context on the current device.
Result<IdleSubject> GpuEvaluation::ready_idle_subject(double most_s) {
  while (true) {
    if (gpu_.current_ != device_) {  // every idle subject to come belongs to the new device
      return lost();
    }
    Result<IdleSubject> blank = gpu_.idle_subjects(queues_).take(most_s);
    if (!blank || (blank->device == device_ && !blank->jail->poll())) {
      return blank;
    }
  }
}

// When none can be had, verify() or take_brackets() starts one and reports the error.
bool GpuEvaluation::take_idle_subject() {
  if (!python_) {
    if (Result<IdleSubject> blank = ready_idle_subject(kMostWaitForTiming_s)) {
      idle_subjects_.push_back(std::move(*blank));
    }
  }
  return true;
}

bool GpuEvaluation::take_idle_subjects() {
  for (std::size_t before = 0; idle_subjects_.size() == before && before < kStartedAhead; before++) {
    if (!gpu_.schedule_.reserve(kMostAhead)) {
      break;
    }
    reserved_++;
    take_idle_subject();
  }
  return true;
}

void GpuEvaluation::give_up_ahead() {
  ahead_.clear();
  idle_subjects_.clear();
  gpu_.schedule_.release(std::exchange(reserved_, 0));
}

// Library handles and Python take tenths of a second; everything else takes hundredths.
bool GpuEvaluation::starts_slowly() const {
  return python_ || plan_.wants_handles();
}

bool GpuEvaluation::start_first() {
  start_ahead(1);
  return true;
}

// Processes of one candidate in Python are not isolated from each other, so none is started while another one lives.
bool GpuEvaluation::start_others() {
  start_ahead(idle_subjects_.size());
  return true;
}

// A start can fail here because another candidate holds all of the GPU memory; then verify() or take_brackets() starts
// the process and reports the error.
void GpuEvaluation::start_ahead(std::size_t count) {
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
    const Window window = subject->prepared(kSetUpTimeout_s);
    if (window.end != Window::End::done || window.status != 0) {
      subject.reset();
    }
  }
  ahead_.erase(std::remove(ahead_.begin(), ahead_.end(), nullptr), ahead_.end());
}

std::unique_ptr<Candidate> GpuEvaluation::fresh(Stage stage) {
  const bool waiting = !ahead_.empty();
  Result<std::unique_ptr<Candidate>> subject = waiting ? std::move(ahead_.front()) : start_candidate();
  if (waiting) {
    ahead_.pop_front();
  }
  if (!subject && python_ && subject.failure().code == "gone") {  // its jail serves this candidate alone
    killed_its_zygote(stage);
    return nullptr;
  }
  if (!subject) {
    void_for(stage, subject.failure());
    return nullptr;
  }
  if (!waiting) {  // nothing of the candidate runs in this step, so its failure is the judge's
    const Window ours = (*subject)->prepared(kSetUpTimeout_s);
    if (ours.end != Window::End::done || ours.status != 0) {
      void_for(stage, {ours.message.empty() ? "the subject did not start" : ours.message, "device"});
      return nullptr;
    }
  }
  const Window window = (*subject)->ready(kSetUpTimeout_s);
  if (python_ && window.end == Window::End::done && window.status != 0) {
    const Finding blame = (*subject)->blame(window);
    if (blame.status == Outcome::violation) {
      verdict_.fail(stage, blame);
      return nullptr;
    }
  }
  if (window.end != Window::End::done || window.status != 0) {
    verdict_.fail(stage, blame_set_up(window));
    return nullptr;
  }
  if (Status laid = (*subject)->expect(*batch_, tolerances_); !laid) {
    void_for(stage, laid.failure());
    return nullptr;
  }
  return std::move(*subject);
}

bool GpuEvaluation::check(Candidate& subject, const Window& window, std::size_t set, Stage stage) {
  if (window.end != Window::End::done || window.status != 0) {
    verdict_.fail(stage, window.end == Window::End::done ? subject.blame(window) : blame_window(window));
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
  Result<std::optional<Mismatch>> differs = subject.compare(*batch_, set);
  if (!differs) {
    return void_for(stage, differs.failure());
  }
  if (!*differs) {
    return true;
  }
  Reason reason = Reason::mismatch;
  if (const std::optional<std::size_t> earlier = subject.before(set)) {
    Result<std::optional<Mismatch>> stale = subject.compare(*batch_, *earlier);
    reason = stale && !*stale ? Reason::stale_output : reason;
  }
  return wrong(stage, set, reason, {std::move(**differs)});
}

bool GpuEvaluation::verify() {
  if (!batch_) {
    Result<std::shared_ptr<const Batch>> made = make_sets(*device_, true);
    if (!made) {
      return void_for(Stage::verify, made.failure());
    }
    batch_ = *made;
  }
  if (!take_tolerances()) {
    return false;
  }
  subject_ = fresh(Stage::verify);
  std::vector<std::size_t> sets(batch_->verified);
  std::iota(sets.begin(), sets.end(), 0);
  if (!subject_ || !verify_on(sets)) {
    return false;
  }
  known_ = all_is_known();
  if (verdict_.rules == "mixed" && python_) {
    return audit();
  }
  if (verdict_.rules == "mixed") {
    verdict_.own_share = 1;  // a plan holds its own launches alone
  }
  return true;
}

bool GpuEvaluation::verified(std::size_t set) {
  const Window window = subject_->direct(*batch_, set, kCallTimeout_s);
  longest_call_s_ = std::max(longest_call_s_, window.seconds);
  return check(*subject_, window, set, Stage::verify);
}

// The first calls of a process load its kernels, which would block behind a stream that waits for the judge.
bool GpuEvaluation::warm(Candidate& subject, Stage stage) {
  for (std::size_t i = 0; i < kWarmUps; i++) {
    if (!check(subject, subject.direct(*batch_, i, kCallTimeout_s), i, stage)) {
      return false;
    }
  }
  return true;
}

}  // namespace khost::judge::gpu
