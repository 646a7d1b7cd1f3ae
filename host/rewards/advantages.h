// Group advantages: how much better an episode was than the others played on the same task. Free functions.
#pragma once

#include <vector>

namespace khost {

struct AdvantageOptions {
  enum class Center { none, mean, leave_one_out };
  enum class Scale { none, deviation };
  Center center = Center::mean;
  Scale scale = Scale::none;
};

// mean:           A_i = r_i - mean(r)
// leave_one_out:  A_i = r_i - mean(r without i) = n / (n - 1) × (r_i - mean(r))
// deviation:      A_i / (s + 1e-6) with the sample deviation s (n - 1) of the group
// A group without spread, or of one, has nothing to compare with: zeros (unless center is none).
std::vector<double> group_advantages(const std::vector<double>& scores, const AdvantageOptions& options);

}  // namespace khost
