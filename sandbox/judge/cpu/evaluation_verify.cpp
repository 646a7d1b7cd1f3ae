// Calls on sets, and what is wrong with what they returned.
#include <numeric>

#include "sandbox/judge/cpu/evaluation.h"
#include "sandbox/judge/evaluation/blame.h"
#include "sandbox/judge/evaluation/limits.h"

namespace khost::judge {
bool CpuEvaluation::take_batch() {
  const bool secret = purpose_ == Purpose::verdict;
  Result<std::shared_ptr<const Batch>> batch =
      secret ? session_->batch_for(*zygote_, artefact(), audience()) : session_->visible(*zygote_);
  if (!batch) {
    return void_for(Stage::verify, batch.failure());
  }
  batch_ = *batch;
  wants_unseen_ = secret && session_->met_before(*batch_);
  std::vector<std::int64_t> elements;
  for (const sandbox::TensorLeaf& output : session_->layouts().outputs.tensors) {
    elements.push_back(output.count());
  }
  repeated_ = Repeated(std::move(elements));
  return take_tolerances();
}

std::unique_ptr<Subject> CpuEvaluation::fresh(Stage stage) {
  const std::shared_lock turn(service_.running_);
  Result<std::unique_ptr<Subject>> subject = start(stage);
  if (!subject) {
    verdict_.fail(stage, blame_host(subject.failure()));
    return nullptr;
  }
  const Window window = (*subject)->clock().ready(kSetUpTimeout_s);
  if (window.end == Window::End::done && window.status == 0) {
    return std::move(*subject);
  }
  verdict_.fail(stage, blame_set_up(window));
  return nullptr;
}

// Whether the outputs are what the reference returned for a set.
bool CpuEvaluation::matches(const Subject& subject, const Set& set) const {
  return !compare(plan_.outputs, subject.outputs(), session_->layouts().outputs, session_->expected_of(set),
                  tolerances_.of(set));
}

bool CpuEvaluation::right(const Subject& subject, const Window& window, std::size_t set) const {
  return window.end == Window::End::done && window.status == 0 && matches(subject, set_at(set));
}

bool CpuEvaluation::check(Subject& subject, const Window& window, std::size_t set, Stage stage) {
  if (window.end != Window::End::done || window.status != 0) {
    verdict_.fail(stage, blame_window(window));
    return false;
  }
  if (const std::optional<std::size_t> storage = subject.written_beyond()) {
    verdict_.fail(Outcome::wrong, stage, Reason::mismatch,
                  "the kernel wrote behind the end of output storage " + std::to_string(*storage));
    return false;
  }
  Excused excused;
  auto found = compare_all(plan_.outputs, subject.outputs(), session_->layouts().outputs,
                           session_->expected_of(set_at(set)), tolerances_.of(set_at(set)), &excused);
  if (found.empty()) {
    // Where all sets are the same, so are the elements that the reference does not decide.
    const std::optional<Repeated::Found> repeated =
        session_->calibration()->constant ? std::nullopt : repeated_.add(set, excused, tolerances_.of(set_at(set)));
    if (repeated) {
      verdict_.fail(Outcome::wrong, stage, Reason::mismatch, repeated->text());
    }
    return !repeated;
  }
  return wrong(stage, set, reason_for(subject, set), std::move(found));
}

// Why an output is wrong, where that can be told: it answers an earlier question.
Reason CpuEvaluation::reason_for(Subject& subject, std::size_t set) {
  for (const Set* const earlier : subject.met()) {
    if (earlier != &set_at(set) && matches(subject, *earlier)) {
      return Reason::stale_output;
    }
  }
  return stale_weights(subject, set) ? Reason::stale_weights : Reason::mismatch;
}

// Whether the output is right for this call's inputs and the weights of the first call or the one before.
bool CpuEvaluation::stale_weights(Subject& subject, std::size_t set) {
  const Layouts& layouts = session_->layouts();
  const std::vector<const Set*>& met = subject.met();
  if (met.size() < 2 || layouts.state.region_bytes == 0) {
    return false;
  }
  const std::shared_lock turn(service_.running_);
  Result<Child> child = zygote_->spawn();
  Result<Region> region = Region::make("mixed", layouts.outputs.region_bytes, Region::Others::write);
  const Set& now = set_at(set);
  for (const Set* const earlier : {met.front(), met[met.size() - 2]}) {
    if (!child || !region) {
      return false;
    }
    const Json request = {{"kind", "mixed"},
                          {"source", session_->source()},
                          {"state_seed", earlier->seed},
                          {"inputs_seed", now.seed},
                          {"plant", now.planted},
                          {"plant_state", earlier->planted},
                          {"kinds", session_->calibration()->planted_kinds}};
    const Result<Json> answer = child->call(request, {region->fd()}, kReferenceTimeout_s);
    if (answer && !compare(plan_.outputs, subject.outputs(), layouts.outputs, region->data(), tolerances_.of(now))) {
      return true;
    }
  }
  return false;
}

bool CpuEvaluation::verify() {
  if (!take_batch()) {
    return false;
  }
  subject_ = fresh(Stage::verify);
  if (!subject_) {
    return false;
  }
  std::vector<std::size_t> order(batch_->verified);
  std::iota(order.begin(), order.end(), 0);
  if (wants_unseen_ && !add_unseen(order, kUnseenVerified)) {
    return false;
  }
  recorded_set_ = order.front();
  return verify_on(order);
}

bool CpuEvaluation::verified(std::size_t set) {
  subject_->write(*session_, set_at(set));
  Window window;
  {
    const std::shared_lock turn(service_.running_);
    window = subject_->clock().call(kCallTimeout_s);
  }
  return check(*subject_, window, set, Stage::verify);
}

}  // namespace khost::judge
