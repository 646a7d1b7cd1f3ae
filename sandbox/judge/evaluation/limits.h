// How long and how often: the limits of an evaluation, for both targets. A limit that one target alone has says so, and
// why. What a target needs besides, such as waiting for its device, stands with that target.
#pragma once

#include <cstddef>

namespace khost::judge {

// The candidate.
inline constexpr double kSetUpTimeout_s = 20;  // until its process is ready, whatever the machine does beside
inline constexpr double kCallTimeout_s = 5;    // of a call that is verified or warms up, and of a timed one on the CPU
// Calls of one process of a candidate on the CPU: those that are verified, and a block with sets that nobody has met.
inline constexpr int kMostCalls = 40;
// Of a block of timed calls on the CPU, in which everything else stands: what takes longer has fewer calls, at least
// so many that count, and those on sets that nobody has met.
inline constexpr double kBlock_s = 20;
inline constexpr std::size_t kFewestTimed = 3;
// On a GPU a candidate that hangs in a timed call holds the device: it may take so many times the longest verified
// call, and this at least.
inline constexpr double kTimedCallFactor = 10, kTimedCallLeast_s = 1;
inline constexpr std::size_t kWarmUps = 3;        // calls of a new process on a GPU before one is timed
inline constexpr std::size_t kBracketCalls = 12;  // timed calls of a block of a bracket on a GPU
inline constexpr std::size_t kVisibleCalls = 12;  // timed calls of an agent's profile

// Baselines.
inline constexpr double kCompileTimeout_s = 240;       // until a process of one is loaded, torch.compile included
inline constexpr double kBaselineReadyTimeout_s = 30;  // of one that has loaded what was compiled
inline constexpr double kBaselineCallTimeout_s = 60;
inline constexpr int kBaselineProcesses = 3;
inline constexpr std::size_t kBaselineCalls = 25;   // timed calls of a block on the CPU, the warm-up among them
inline constexpr std::size_t kBaselineWarmUps = 3;  // calls of a new process that are not timed
inline constexpr std::size_t kResidentWarmUps = 2;  // the same of one that was timed a moment ago, on a GPU
// On a GPU a baseline may be missed for want of memory: in two verdicts, each of which tries twice. Then they do
// without.
inline constexpr int kMostMisses = 4;

// What the launches of a plan with torch operators write, which is kept for the audit (evaluation_mixed.cpp).
inline constexpr std::size_t kMostOwnBytes = std::size_t{1} << 30;

// Candidates in Python, in a jail without a device: the plan of a forward on meta tensors, and what a module that runs
// asks to be built, which imports torch's compilers.
inline constexpr double kPlanTimeout_s = 30, kModuleTimeout_s = 60;

// A process under the profiler loads CUPTI before it is ready; what the machine moves and computes at most is measured
// once.
inline constexpr double kProfiledSetUpTimeout_s = 30, kCeilingsTimeout_s = 60;

// The reference: an answer that explains a finding, or says how many bytes must be read.
inline constexpr double kReferenceTimeout_s = 60;

// The clock.
inline constexpr int kCalibrationCalls = 40;   // of a subject that does nothing
inline constexpr int kFewestCleanReplies = 5;  // of these, where no window of a busy machine was clean
// A block that is not steady (statistics.h) is taken again, so often at most; then nothing is said about speed, and
// nothing is kept.
inline constexpr int kMostRepeats = 3;
// So many blocks in a row that are faster on sets that the candidate may know than on new ones are no accident.
inline constexpr int kSuspicions = 3;
// Of windows that do nothing: on a busy machine most are longer than their cost, and what is subtracted from everybody
// must rather be too little than too much.
inline constexpr double kCostShare = 0.05;

// A baseline that is shorter than so many slacks says nothing about speed: slack is then more than the 5 % that are
// asked.
inline constexpr double kResolved = 20;
// What must be read, over the machine's read rate times this, is the least time that is possible. Machines that change
// their clock read a tenth faster at one time than at another.
inline constexpr double kFloorMargin = 1.25;

}  // namespace khost::judge
