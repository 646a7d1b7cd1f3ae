// Is the candidate faster than its baselines? The rules of both targets as a state machine that is fed with the medians
// of blocks, whoever times them: it says what it wants next, and in the end what stands in the verdict.
//
//   cached reading   of each baseline, and one block of the candidate. A baseline shorter than kResolved slacks is
//                    unresolved: nothing is said about speed. A clear case is decided.
//   beside           where the target has this rule: a block of the baseline right after the candidate's shows that the
//                    candidate is not faster, which needs no bracket.
//   brackets         baseline, candidate in a fresh process, baseline, shared by all baselines that are still open,
//                    until the statistics decide; what kMostBrackets leave undecided is not faster.
//
// A baseline that cannot be had any more leaves the speed unresolved. No processes, no clock; one thread at a time.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sandbox/judge/evaluation/statistics.h"
#include "sandbox/judge/verdict/verdict.h"

namespace khost::judge {

// How one comparison ended.
enum class Settled { open, clear, beside, brackets, undecided, short_baseline, no_baseline };

class Decision {
 public:
  // What a target allows. `beside` rests on how near two processes are a moment apart, which was measured on a GPU
  // alone.
  struct Rules {
    bool beside = false;
  };

  Decision(Rules rules, double slack_s) : rules_(rules), slack_s_(slack_s) {}

  // The candidate's first block. `steady`: it had its cores to itself; else no case is clear.
  void first_block(std::vector<double> samples, bool steady);
  // After the first block, each baseline once: its cached reading, or why there is none.
  void baseline(const std::string& kind, const Baseline& known);
  void unavailable(const std::string& kind, const std::string& why);

  // Baselines that are not settled, in the order in which they were given.
  std::vector<std::string> open() const;
  bool is_open(const std::string& kind) const;
  // Whether a block of a baseline right now could settle it.
  bool wants_beside(const std::string& kind) const;

  // A block of a baseline right after the candidate's, in seconds; without effect where the rule does not hold.
  void beside(const std::string& kind, double seconds);
  // The blocks of brackets: before() for each open baseline, then a block of the candidate and after() for each open
  // baseline, again and again until none is open. A block after is the next bracket's before.
  void before(const std::string& kind, double seconds);
  void candidate_block(double seconds) { candidate_s_ = seconds; }
  void after(const std::string& kind, double seconds);
  // No further block of this baseline can be had.
  void lost(const std::string& kind, const std::string& why);

  Settled settled(const std::string& kind) const;
  bool faster(const std::string& kind) const;
  const std::vector<double>& brackets(const std::string& kind) const;

  // The times by the first block and the cached readings, speed-ups with the candidate charged with the slack as in a
  // bracket, and evidence.KIND_unavailable.
  void write_times(Verdict& verdict) const;
  // What is faster, whether the speed is resolved, and the evidence for it: brackets, beside_s, unresolved, undecided,
  // KIND_missed.
  void write(Verdict& verdict) const;

 private:
  struct One {
    std::string kind;
    Baseline known;
    Settled settled = Settled::open;
    bool faster = false;
    std::string why;  // there is none
    bool had = true;  // a reading of it
    std::optional<double> beside_s, before_s;
    std::vector<double> brackets;
  };
  One* find(const std::string& kind);
  const One& at(const std::string& kind) const;
  Rules rules_;
  double slack_s_;
  std::vector<double> samples_;
  bool steady_ = true;
  double candidate_s_ = 0;
  std::vector<One> all_;
};

}  // namespace khost::judge
