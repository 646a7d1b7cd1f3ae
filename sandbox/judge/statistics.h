// The statistics of a comparison: is the candidate more than 5 % faster? Pure functions.
#pragma once

#include <cstddef>
#include <vector>

namespace khost::judge {

double median(std::vector<double> values);  // of at least one

// The paper's question b(t, t0) = (t0 - t) / t0 > 5 %, as a bound on log(t0 / t).
inline constexpr double kFasterThan = 0.05;
double log_threshold();  // -log(1 - 0.05)

enum class Decision { faster, not_faster, undecided };

// `log_ratios`: one log(baseline / candidate) for each bracket. `slack` widens both sides. The error rate is 1 % over
// all looks together, spent evenly over at most kMostBrackets of them (Bonferroni), by Student's t on the brackets'
// means. A single bracket decides only what is kClear away from the threshold.
inline constexpr int kMostBrackets = 5;
inline constexpr double kClear = 0.30;
Decision decide(const std::vector<double>& log_ratios, double slack);

}  // namespace khost::judge
