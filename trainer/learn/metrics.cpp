#include "trainer/learn/metrics.h"

#include <algorithm>
#include <cmath>

namespace khost::trainer {
namespace {

// Buckets of the old probability: the rare tokens are where rounding moves ratios.
const char* bucket_name(double old_logp) {
  const double p = std::exp(old_logp);
  return p > 1e-1
             ? "ratio_std_p_above_1e-1"
             : (p > 1e-3 ? "ratio_std_p_1e-3_1e-1" : (p > 1e-6 ? "ratio_std_p_1e-6_1e-3" : "ratio_std_p_below_1e-6"));
}

struct Running {
  double sum = 0, squares = 0;
  int64_t count = 0;
  void add(double v) {
    sum += v;
    squares += v * v;
    ++count;
  }
  double mean() const { return count > 0 ? sum / static_cast<double>(count) : 0; }
  double std() const {
    return count > 0 ? std::sqrt(std::max(0.0, squares / static_cast<double>(count) - mean() * mean())) : 0;
  }
};

double quantile(const std::vector<double>& sorted, double q) {
  return sorted[static_cast<size_t>(std::lround(q * static_cast<double>(sorted.size() - 1)))];
}

void add_ratio(Metrics& m, const PolicyColumns& c, const Objective& objective) {
  Running ratio;
  Running k1;
  Running k3;
  std::map<std::string, Running> buckets;
  std::vector<double> sorted;
  double low = 0;
  double high = 0;
  double dual = 0;
  const double dual_clip = objective.dual_clip > 0 ? objective.dual_clip : 3;
  for (size_t i = 0; i < c.logp.size(); ++i) {
    const double d = std::clamp(static_cast<double>(c.logp[i]) - c.old_logp[i], -20.0, 20.0);
    const double rho = std::exp(d);
    const double a = c.advantages.empty() ? 0 : c.advantages[i];
    low += a < 0 && rho < 1 - objective.clip_low;
    high += a > 0 && rho > 1 + objective.clip_high;
    dual += a < 0 && rho > dual_clip;
    ratio.add(rho);
    k1.add(-d);
    k3.add(rho - d - 1);
    buckets[bucket_name(c.old_logp[i])].add(rho);
    sorted.push_back(rho);
  }
  std::sort(sorted.begin(), sorted.end());
  const auto count = static_cast<double>(c.logp.size());
  m["clip_frac_low"] = low / count;
  m["clip_frac_high"] = high / count;
  m["clip_frac"] = (low + high) / count;
  m["dual_clip_frac"] = dual / count;
  m["approx_kl"] = k1.mean();
  m["kl_k3"] = k3.mean();
  m["ratio_mean"] = ratio.mean();
  m["ratio_std"] = ratio.std();
  m["ratio_min"] = sorted.front();
  m["ratio_max"] = sorted.back();
  m["ratio_p1"] = quantile(sorted, 0.01);
  m["ratio_p99"] = quantile(sorted, 0.99);
  m["ess"] = ratio.sum * ratio.sum / (count * ratio.squares);
  for (const auto& [name, running] : buckets) {
    m[name] = running.std();
  }
}

// The sampler is the reference: rho = old / sampler.
void add_gap(Metrics& m, const PolicyColumns& c) {
  Running gap;
  Running k1;
  Running k3;
  Running chi;
  double most = 0;
  for (size_t i = 0; i < c.old_logp.size(); ++i) {
    const double d = std::clamp(static_cast<double>(c.old_logp[i]) - c.sampler_logp[i], -20.0, 20.0);
    gap.add(std::fabs(d));
    k1.add(-d);
    k3.add(std::exp(d) - d - 1);
    chi.add(std::exp(2 * d));
    most = std::max(most, std::fabs(d));
  }
  m["sampler_gap_mean"] = gap.mean();
  m["sampler_gap_max"] = most;
  m["sampler_gap_k1"] = k1.mean();
  m["sampler_gap_k3"] = k3.mean();
  m["sampler_gap_chi2"] = chi.mean() - 1;
}

}  // namespace

Metrics policy_metrics(const PolicyColumns& c, const Objective& objective) {
  Metrics m;
  if (c.logp.empty()) {
    return m;
  }
  Running entropy;
  Running logp;
  for (size_t i = 0; i < c.logp.size(); ++i) {
    entropy.add(c.entropy[i]);
    logp.add(c.logp[i]);
  }
  m["entropy"] = entropy.mean();
  m["logp_mean"] = logp.mean();
  if (!c.old_logp.empty()) {
    add_ratio(m, c, objective);
    if (!c.sampler_logp.empty()) {
      add_gap(m, c);
    }
  }
  return m;
}

}  // namespace khost::trainer
