#include "sandbox/judge/measure.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>

#include "sandbox/judge/statistics.h"

namespace khost::judge {
namespace {

using sandbox::Verdict;

constexpr double kCallTimeout_s = 30;
constexpr int kBaselineWindows = 4;
constexpr double kQuietShare = 0.02;    // a window whose threads waited longer for a core is dropped
constexpr double kSteady = 0.10;        // baselines before and after the candidate, as a log ratio
constexpr int kMostTries = 9;           // brackets, void ones included
// Freezing and thawing cost the candidate about this much more than a futex costs the baselines (15 to 35 µs), and
// no adversary can gain more than it.
constexpr double kSlack_s = 40e-6;

struct Side {
  std::vector<double> log_ratios;
  std::vector<double> baseline_s;
};

void fail(Verdict& verdict, const char* status, std::string reason, std::string detail) {
  verdict.status = status;
  verdict.reason = std::move(reason);
  verdict.detail = std::move(detail);
  verdict.correct = false;
}

std::optional<double> time_baseline(Session& session, const std::string& mode, Verdict& verdict) {
  auto process = session.baseline(mode);
  if (!process) {
    fail(verdict, process.failure().code == "bad_task" ? "bad_task" : "void", "baseline", process.failure().message);
    return std::nullopt;
  }
  std::vector<double> times;
  for (int i = 0; i < kBaselineWindows; i++) {
    const Call call = (*process)->play(session.sets()[static_cast<std::size_t>(i % kSets)], kCallTimeout_s);
    if (call.outcome != Call::Outcome::ok) {
      fail(verdict, "void", "baseline", mode + " stopped answering");
      return std::nullopt;
    }
    times.push_back(call.wall_s);
  }
  return median(times);
}

struct Block {
  double median_s = 0;
  int windows = 0;
  int dropped = 0;
};

// One fresh process, each set once, the first call not counted.
std::optional<Block> time_candidate(Session& session, const MeasureRequest& request, Verdict& verdict) {
  auto process = request.start();
  if (!process) {
    const std::string& code = process.failure().code;
    fail(verdict, code == "crash" || code == "timeout" ? code.c_str() : "void", "load", process.failure().message);
    return std::nullopt;
  }
  std::vector<double> times;
  Block block;
  for (std::size_t i = 0; i < session.sets().size(); i++) {
    const Call call = (*process)->play(session.sets()[i], kCallTimeout_s);
    if (call.outcome != Call::Outcome::ok) {
      const bool late = call.outcome == Call::Outcome::timeout;
      fail(verdict, late ? "timeout" : "crash", late ? "hang" : "died", call.message);
      return std::nullopt;
    }
    if (const Mismatch mismatch = request.check(**process, session.sets()[i]); !mismatch.equal) {
      fail(verdict, "wrong", "timed_call", mismatch.first);
      return std::nullopt;
    }
    if (i == 0) {
      continue;
    }
    block.windows++;
    if (call.run_delay_s > kQuietShare * call.wall_s) {
      block.dropped++;
    } else {
      times.push_back(call.wall_s);
    }
  }
  if (times.empty()) {
    return block;  // median 0: the bracket is void
  }
  block.median_s = median(times);
  return block;
}

bool steady(double before, double after) { return std::fabs(std::log(before / after)) < kSteady; }

}  // namespace

void measure(Session& session, Lease& lease, const MeasureRequest& request, Verdict& verdict) {
  verdict.stage = "time";
  std::vector<std::string> modes = {"eager"};
  if (request.compile) {
    modes.push_back("compile");
  }
  // Compiling may take seconds: before the lease.
  for (const std::string& mode : modes) {
    if (auto process = session.baseline(mode); !process) {
      fail(verdict, process.failure().code == "bad_task" ? "bad_task" : "void", "baseline",
           process.failure().message);
      return;
    }
  }
  std::map<std::string, Side> sides;
  std::vector<double> candidate_s;
  int dropped = 0;
  int windows = 0;
  int void_brackets = 0;
  const auto undecided = [&] {
    return std::any_of(modes.begin(), modes.end(), [&](const std::string& mode) {
      const auto& ratios = sides[mode].log_ratios;
      const double slack = candidate_s.empty() ? 0 : kSlack_s / median(candidate_s);
      return decide(ratios, slack) == Decision::undecided;
    });
  };
  for (int tries = 0; tries < kMostTries && candidate_s.size() < kMostBrackets && undecided(); tries++) {
    const Lease::Guard alone = lease.acquire(Lease::Mode::exclusive);
    std::map<std::string, double> before;
    for (const std::string& mode : modes) {
      const auto time = time_baseline(session, mode, verdict);
      if (!time) {
        return;
      }
      before[mode] = *time;
    }
    const auto block = time_candidate(session, request, verdict);
    if (!block) {
      return;
    }
    bool valid = block->median_s > 0;
    windows += block->windows;
    dropped += block->dropped;
    std::map<std::string, double> middle;
    for (const std::string& mode : modes) {
      const auto after = time_baseline(session, mode, verdict);
      if (!after) {
        return;
      }
      valid = valid && steady(before[mode], *after);
      middle[mode] = std::sqrt(before[mode] * *after);
    }
    if (!valid) {
      void_brackets++;
      continue;
    }
    candidate_s.push_back(block->median_s);
    for (const std::string& mode : modes) {
      sides[mode].baseline_s.push_back(middle[mode]);
      sides[mode].log_ratios.push_back(std::log(middle[mode] / block->median_s));
    }
  }
  verdict.evidence["brackets"] = candidate_s.size();
  verdict.evidence["void_brackets"] = void_brackets;
  verdict.evidence["windows"] = windows;
  verdict.evidence["dropped_windows"] = dropped;
  verdict.evidence["slack_s"] = kSlack_s;
  if (candidate_s.empty()) {
    fail(verdict, "void", "noisy", "no bracket was quiet enough to count: is the machine busy?");
    verdict.correct = true;
    return;
  }
  verdict.times["candidate_s"] = median(candidate_s);
  for (const std::string& mode : modes) {
    const Side& side = sides[mode];
    double mean = 0;
    for (const double x : side.log_ratios) {
      mean += x / static_cast<double>(side.log_ratios.size());
    }
    verdict.times[mode + "_s"] = median(side.baseline_s);
    verdict.speedup[mode] = std::exp(mean);
    verdict.faster[mode] = decide(side.log_ratios, kSlack_s / median(candidate_s)) == Decision::faster;
    verdict.evidence["log_ratios"][mode] = side.log_ratios;
  }
}

}  // namespace khost::judge
