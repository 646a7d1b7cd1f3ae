// Sets that nobody has met before. The sets of a batch are shown to many candidates and to every process of one, so an
// answer could be remembered somewhere and given again. A few sets of each verdict are therefore made for it alone and
// stand at secret places among the others: the candidate must be right on them, and as fast as on those that it may
// know.
#include "sandbox/judge/cpu/evaluation.h"
#include "sandbox/judge/evaluation/limits.h"

namespace khost::judge {

// Of the batch, or behind them one of those that nobody has met.
const Set& CpuEvaluation::set_at(std::size_t place) const {
  const std::size_t known = batch_->sets.size();
  return place < known ? batch_->sets[place] : *unseen_[place - known];
}

bool CpuEvaluation::is_unseen(std::size_t place) const {
  return place >= batch_->sets.size();
}

// Puts so many unseen sets at secret places among the others. False when they cannot be made; where there is no memory
// for them the order stays as it is.
bool CpuEvaluation::add_unseen(std::vector<std::size_t>& order, std::size_t count) {
  if (unseen_.size() - unseen_met_ < count) {
    Result<std::shared_ptr<const Batch>> made = session_->unseen(*zygote_, kUnseenVerified + kUnseenTimed);
    if (!made) {
      return void_for(verdict_.stage(), made.failure());
    }
    if (*made == nullptr) {
      return true;
    }
    unseen_batches_.push_back(*made);
    unseen_met_ = unseen_.size();
    for (const Set& set : (*made)->sets) {
      unseen_.push_back(&set);
    }
  }
  for (std::size_t i = 0; i < count; i++) {
    const auto at = static_cast<std::ptrdiff_t>(secret_number() % (order.size() + 1));
    order.insert(order.begin() + at, batch_->sets.size() + unseen_met_++);
  }
  return true;
}

// Whether the block shows that seen sets are answered faster than unseen ones. A block that is not steady says nothing,
// and one of which the candidate may have disturbed what would tell is none.
void CpuEvaluation::compare_unseen(const std::vector<double>& seen, const std::vector<double>& unseen,
                                   bool undisturbed) {
  remembered_ = doubtful_ = false;
  if (unseen.empty()) {
    return;
  }
  verdict_.evidence["unseen_s"] = unseen;
  const Memory memory = steady_ ? memory_of(seen, unseen, undisturbed, service_.cost_.slack_s) : Memory::none;
  remembered_ = memory == Memory::remembers;
  doubtful_ = memory == Memory::doubtful;
  steady_ = steady_ && !doubtful_;
}

// Blocks, each in a process of its own, until one is steady or there were enough. What looks as if answers were
// remembered is looked at again, with other sets that nobody has met; seen so often in a row it is no accident.
bool CpuEvaluation::steady_block(std::unique_ptr<Subject> subject, std::vector<double>& samples) {
  const int most = purpose_ == Purpose::verdict ? kMostRepeats : 0;
  int suspicions = 0;
  for (int repeat = 0;; repeat++) {
    if (!subject || !candidate_block(*subject, samples)) {
      return false;
    }
    subject.reset();
    suspicions = remembered_ ? suspicions + 1 : 0;
    if (suspicions == kSuspicions) {
      verdict_.times["candidate_s"] = median(samples);
      verdict_.fail(Outcome::suspect, Stage::time, Reason::remembers,
                    "calls on sets that the candidate may have met take " + format_line("%.3g", median(samples)) +
                        " s, on sets that nobody has met " +
                        format_line("%.3g", median(verdict_.evidence["unseen_s"].get<std::vector<double>>())) + " s");
      return false;
    }
    if (suspicions == 0 && (steady_ || repeat >= most)) {
      return true;
    }
    subject = fresh(Stage::time);
  }
}

bool CpuEvaluation::fresh_block(std::vector<double>& samples) {
  return steady_block(fresh(Stage::time), samples);
}

}  // namespace khost::judge
