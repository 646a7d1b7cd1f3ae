#include "sandbox/judge/evaluation/statistics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace khost::judge {
namespace {

constexpr double kLeastBetween = 0.015;  // what a median cannot be trusted beyond, however steady its samples look
constexpr double kLeastBracketSpread = 0.005;

// The same of two processes timed one after the other. On an H200 ten processes of one candidate spread by .9 and
// 2.8 % at 110 us and by .3 to .8 % above 1 ms, from the 10th to the 90th percentile: standard deviations of .1 to
// 1.1 %. At the largest a candidate that is 6 % faster would be refused in 1 or 2 verdicts of 1,000.
constexpr double kLeastBeside = 0.005;

double threshold() {
  return -std::log(1 - kFaster);
}

// How far beyond the threshold a candidate is, as a log ratio, and the standard error of that; no error, no answer.
struct Margin {
  double value = 0, error = 0;
};

Margin margin_of(double baseline_s, double between, const std::vector<double>& candidate, double slack_s) {
  const double mine = median(candidate) + slack_s;
  if (candidate.size() < 5 || mine <= 0 || baseline_s <= 0) {
    return {};
  }
  const double within = 1.2533 * spread(candidate) / mine / std::sqrt(static_cast<double>(candidate.size()));
  // Two processes are compared, so the spread between processes counts on both sides.
  return {std::log(baseline_s / mine) - threshold(), std::sqrt(2 * between * between + within * within)};
}

// Student's t, two-sided at 0.01 / 4 a look, which are at 3, 4 and 5 brackets; n - 1 degrees of freedom.
std::optional<bool> decided_by_mean(const std::vector<double>& brackets) {
  constexpr std::size_t kFewest = 3;
  constexpr std::array<double, 3> kQuantile{19.96, 10.87, 8.12};
  const std::size_t n = brackets.size();
  if (n < kFewest || n >= kFewest + kQuantile.size()) {
    return std::nullopt;
  }
  const auto count = static_cast<double>(n);
  const double mean = std::accumulate(brackets.begin(), brackets.end(), 0.0) / count;
  double squares = 0;
  for (const double value : brackets) {
    squares += (value - mean) * (value - mean);
  }
  const double deviation = std::max(std::sqrt(squares / (count - 1)), kLeastBracketSpread);
  const double half = kQuantile[n - kFewest] * deviation / std::sqrt(count);
  const double margin = mean - threshold();
  return std::abs(margin) > half ? std::optional(margin > 0) : std::nullopt;
}

// The sign test: how many brackets are on one side of the threshold. All of 9 (2^-9 where each side is as likely) or
// all but one of 14 (15 * 2^-14). Neighbours share a block of the baseline, which makes such runs likelier: together
// with the looks at the mean one answer of a candidate at the threshold is wrong in .6 to .8 % of 100,000 simulated
// verdicts. Where every seventh to tenth block is 8 to 12 % off, five brackets decided 15 to 30 % of the verdicts, and
// these 75 to 97 %.
std::optional<bool> decided_by_signs(const std::vector<double>& brackets) {
  struct Look {
    std::size_t brackets, others;
  };
  constexpr std::array<Look, 2> kLooks{{{9, 0}, {kMostBrackets, 1}}};
  const auto above = static_cast<std::size_t>(
      std::count_if(brackets.begin(), brackets.end(), [](double value) { return value > threshold(); }));
  for (const Look& look : kLooks) {
    if (brackets.size() == look.brackets && std::min(above, brackets.size() - above) <= look.others) {
      return above > look.others;
    }
  }
  return std::nullopt;
}

}  // namespace

double median(std::vector<double> values) {
  if (values.empty()) {
    return 0;
  }
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

void BlockTimes::add(double seconds, bool undisturbed, double own_s) {
  all_.push_back(seconds);
  own_.push_back(undisturbed ? seconds : own_s);
  disturbed_ += undisturbed ? 0 : 1;
}

double spread(const std::vector<double>& values) {
  const double centre = median(values);
  std::vector<double> distances;
  for (const double value : values) {
    distances.push_back(std::abs(value - centre));
  }
  return 1.4826 * median(distances);
}

Baseline baseline_of(const std::vector<double>& process_medians) {
  Baseline result;
  result.seconds = median(process_medians);
  for (const double value : process_medians) {
    result.between = std::max(result.between, std::abs(std::log(value / result.seconds)));
  }
  result.between = std::max(result.between, kLeastBetween);
  return result;
}

std::optional<bool> clear_case(const Baseline& baseline, const std::vector<double>& candidate, double slack_s) {
  const Margin margin = margin_of(baseline.seconds, baseline.between, candidate, slack_s);
  return margin.error <= 0 || std::abs(margin.value) < kClear * margin.error ? std::nullopt
                                                                             : std::optional(margin.value > 0);
}

bool slower_beside(double beside_s, const Baseline& known, const std::vector<double>& candidate, double slack_s) {
  const Margin margin = margin_of(beside_s, kLeastBeside, candidate, slack_s);
  return known.between <= kLeastBetween && margin.error > 0 && margin.value < -kClear * margin.error;
}

double bracket(double before_s, double candidate_s, double after_s, double slack_s) {
  return std::log(std::sqrt(before_s * after_s) / (candidate_s + slack_s));
}

std::optional<bool> decide(const std::vector<double>& brackets) {
  const std::optional<bool> by_mean = decided_by_mean(brackets);
  return by_mean ? by_mean : decided_by_signs(brackets);
}

bool remembers(const std::vector<double>& seen, const std::vector<double>& unseen, double slack_s) {
  return !seen.empty() && !unseen.empty() && median(unseen) > 1.1 * median(seen) + 2 * slack_s;
}

Memory memory_of(const std::vector<double>& seen, const std::vector<double>& unseen, bool undisturbed, double slack_s) {
  if (!remembers(seen, unseen, slack_s)) {
    return Memory::none;
  }
  return undisturbed ? Memory::remembers : Memory::doubtful;
}

}  // namespace khost::judge
