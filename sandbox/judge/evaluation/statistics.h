// Is the candidate more than 5 % faster? Evidence is a bracket: a baseline block, a candidate block in a fresh process,
// a baseline block; its value is the log ratio of block medians. Pure functions, any thread.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace khost::judge {

inline constexpr double kFaster = 0.05;  // (t0 - t) / t0 must exceed it
inline constexpr int kMostBrackets = 24;
inline constexpr double kClear = 5;  // standard errors that decide without a live baseline

double median(std::vector<double> values);         // 0 for none
double spread(const std::vector<double>& values);  // robust standard deviation (1.4826 MAD)

// The windows of a block. It is steady where three of four at least were undisturbed. All of them count then, the
// disturbed ones with what was the subject's own of them: who is timed can disturb its own windows, by what it lets the
// kernel do on its core, and must not choose which ones decide.
class BlockTimes {
 public:
  // `own_s`: of the seconds, what the subject itself took; they are looked at where others disturbed it.
  void add(double seconds, bool undisturbed, double own_s);
  std::size_t disturbed() const { return disturbed_; }
  bool steady() const { return !all_.empty() && 4 * (all_.size() - disturbed_) >= 3 * all_.size(); }
  const std::vector<double>& samples() const { return steady() ? own_ : all_; }
  const std::vector<double>& all() const { return all_; }

 private:
  std::vector<double> own_, all_;
  std::size_t disturbed_ = 0;
};

// A baseline's readings over processes: median of the medians, and how far one process is from another, as a log ratio.
struct Baseline {
  double seconds = 0;
  double between = 0;
  bool steady = true;  // its cores were free while it was timed; else it is no ground for a clear case, and not kept
};
Baseline baseline_of(const std::vector<double>& process_medians);

// True or false when one block against the cached baseline settles it; nothing when it is too close.
std::optional<bool> clear_case(const Baseline& baseline, const std::vector<double>& candidate, double slack_s);

// Whether a block of the baseline, taken right beside the candidate's, shows that it is not faster. No is what stays
// when nothing can be shown, so this rests on how near two processes are a moment apart, and not on how far a cached
// reading may have strayed; of a baseline whose processes were far apart (`known`) it says nothing.
bool slower_beside(double beside_s, const Baseline& known, const std::vector<double>& candidate, double slack_s);

// The log ratio of one bracket, the candidate charged with the slack.
double bracket(double before_s, double candidate_s, double after_s, double slack_s);

// Decides on the brackets so far; nothing where they leave it open. Few brackets that agree decide by their mean; where
// some are far from the others, as on machines that change their clock, many decide by signed ranks. Of candidates that
// are exactly at the threshold each answer is given in about one verdict of a hundred.
std::optional<bool> decide(const std::vector<double>& brackets);

// Whether the calls on sets that were shown before are faster than those on new ones, by more than a tenth and two
// slacks besides. Seconds.
bool remembers(const std::vector<double>& seen, const std::vector<double>& unseen, double slack_s);

// What a block says of a candidate's memory. doubtful: it looks as if answers were remembered, and a window on a new
// set was disturbed, which the candidate may have done itself: such a block says nothing about speed either.
enum class Memory { none, doubtful, remembers };
Memory memory_of(const std::vector<double>& seen, const std::vector<double>& unseen, bool undisturbed, double slack_s);

}  // namespace khost::judge
