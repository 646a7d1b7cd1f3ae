#include "trainer/learn/advantages.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "trainer/learn/ranks.h"

namespace khost::trainer {
namespace {

// The terminal reward stands on the last action: on an observation it would be lost to the skipping recursion.
std::vector<float> place_rewards(const Batch& batch) {
  std::vector<float> rewards(static_cast<size_t>(batch.tokens()), 0.0f);
  for (int64_t i = 0; i < batch.trajectories(); ++i) {
    for (int64_t t = batch.end(i) - 1; t >= batch.begin(i); --t) {
      if (batch.mask()[static_cast<size_t>(t)] != 0) {
        rewards[static_cast<size_t>(t)] = static_cast<float>(batch.reward(i));
        break;
      }
    }
  }
  return rewards;
}

struct Group {
  double sum = 0, squares = 0;
  int64_t count = 0;
};

double group_advantage(const Group& group, double reward, const AdvantageOptions& options) {
  const auto n = static_cast<double>(group.count);
  const double mean = group.sum / n;
  double advantage = reward - mean;
  if (options.center == GroupCenter::leave_one_out) {
    advantage = group.count > 1 ? reward - (group.sum - reward) / (n - 1) : 0;
  }
  if (options.scale == GroupScale::std) {
    const double variance = group.count > 1 ? std::max(0.0, group.squares - n * mean * mean) / (n - 1) : 0;
    advantage /= std::sqrt(variance) + 1e-6;
  }
  return advantage;
}

void fill_group(Batch& batch, const AdvantageOptions& options, std::vector<float>& advantages) {
  std::map<int64_t, Group> groups;
  for (int64_t i = 0; i < batch.trajectories(); ++i) {
    Group& group = groups[batch.group(i)];
    group.sum += batch.reward(i);
    group.squares += batch.reward(i) * batch.reward(i);
    ++group.count;
  }
  for (int64_t i = 0; i < batch.trajectories(); ++i) {
    const double advantage = group_advantage(groups[batch.group(i)], batch.reward(i), options);
    for (int64_t t = batch.begin(i); t < batch.end(i); ++t) {
      advantages[static_cast<size_t>(t)] =
          batch.mask()[static_cast<size_t>(t)] != 0 ? static_cast<float>(advantage) : 0;
    }
  }
}

struct Spread {
  double mean = 0, std = 0, min = 0, max = 0;
};

template <class Keep>
Spread spread(const std::vector<float>& values, Keep keep) {
  Spread s;
  int64_t count = 0;
  double squares = 0;
  for (size_t t = 0; t < values.size(); ++t) {
    if (keep(t)) {
      const double v = values[t];
      s.min = count == 0 ? v : std::min(s.min, v);
      s.max = count == 0 ? v : std::max(s.max, v);
      s.mean += v;
      squares += v * v;
      ++count;
    }
  }
  if (count > 0) {
    s.mean /= static_cast<double>(count);
    s.std = std::sqrt(std::max(0.0, squares / static_cast<double>(count) - s.mean * s.mean));
  }
  return s;
}

std::string level_name(double reward) {
  char text[48];
  std::snprintf(text, sizeof text, "reward_count_%g", reward);
  return text;
}

}  // namespace

Result<Metrics> fill_advantages(Batch& batch, const AdvantageOptions& options) {
  const bool critic = options.source == AdvantageSource::gae;
  if (critic && !batch.has(Column::values)) {
    return Failure{"advantages: fill the values first, or use source = \"group\"", "bad_input"};
  }
  const auto count = static_cast<size_t>(batch.tokens());
  const std::vector<float> rewards = place_rewards(batch);
  const std::vector<float> zeros(critic ? 0 : count, 0.0f);
  const std::vector<float>& values = critic ? batch.column(Column::values) : zeros;
  std::vector<float> advantages(count);
  std::vector<float> returns(count);
  std::vector<float> mc_returns(count);
  std::vector<float> unused(count);
  for (int64_t i = 0; i < batch.trajectories(); ++i) {
    const auto from = static_cast<size_t>(batch.begin(i));
    const size_t length = static_cast<size_t>(batch.end(i)) - from;
    const auto part = [&](auto& column) { return std::span(column).subspan(from, length); };
    const double lambda =
        options.adaptive_alpha > 0 ? adaptive_lambda(options.adaptive_alpha, batch.actions(i)) : options.lambda;
    const double critic_lambda = options.lambda_critic.value_or(options.lambda);
    const auto fill = [&](const Decay& decay, auto& filled_advantages, auto& filled_returns) {
      gae(part(batch.mask()), part(rewards), part(values), decay, part(filled_advantages), part(filled_returns));
    };
    fill({options.gamma, critic_lambda, options.lambda_turn}, unused, returns);
    fill({options.gamma, 1, 1}, unused, mc_returns);
    fill({options.gamma, lambda, options.lambda_turn}, advantages, unused);
  }
  if (!critic) {
    fill_group(batch, options, advantages);
    returns = mc_returns;
  }
  const Spread before = spread(advantages, [&](size_t t) { return batch.mask()[t] != 0; });
  Status exchanged = ok();
  SumOverRanks sum;
  if (const std::shared_ptr<Ranks> ranks = Ranks::current(); ranks && !ranks->whole()) {
    sum = [&](std::vector<double>& numbers) { exchanged = exchanged ? ranks->sum(numbers) : exchanged; };
  }
  whiten(batch.mask(), advantages, options.whiten, sum, options.whiten_floor);
  if (!exchanged) {
    return exchanged.failure();
  }
  batch.column(Column::advantages) = std::move(advantages);
  batch.column(Column::returns) = std::move(returns);
  batch.column(Column::mc_returns) = std::move(mc_returns);
  Metrics metrics = batch_metrics(batch);
  metrics["advantage_mean"] = before.mean;
  metrics["advantage_std"] = before.std;
  metrics["advantage_min"] = before.min;
  metrics["advantage_max"] = before.max;
  return metrics;
}

double explained_variance(const Batch& batch, Column column) {
  const std::vector<float>& returns = batch.column(column);
  const std::vector<float>& values = batch.column(Column::values);
  std::vector<float> error(returns.size());
  for (size_t t = 0; t < returns.size(); ++t) {
    error[t] = returns[t] - values[t];
  }
  const auto keep = [&](size_t t) { return batch.mask()[t] != 0; };
  const double spread_error = spread(error, keep).std;
  const double spread_return = spread(returns, keep).std;
  return 1 - spread_error * spread_error / (spread_return * spread_return + 1e-5);
}

Metrics batch_metrics(const Batch& batch) {
  Metrics m;
  std::vector<float> rewards;
  for (int64_t i = 0; i < batch.trajectories(); ++i) {
    rewards.push_back(static_cast<float>(batch.reward(i)));
    m[level_name(batch.reward(i))] += 1;
    m["reward_positive"] += batch.reward(i) > 0;
  }
  if (m.size() > 40) {  // a continuous reward has no levels
    std::erase_if(m, [](const auto& entry) { return entry.first.starts_with("reward_count_"); });
  }
  const double count = static_cast<double>(batch.trajectories());
  const Spread reward = spread(rewards, [](size_t) { return true; });
  m["reward_positive"] /= count;
  m["reward_mean"] = reward.mean;
  m["reward_std"] = reward.std;
  m["trajectories"] = count;
  m["empty_trajectories"] = count - static_cast<double>(batch.nonempty());
  m["tokens"] = static_cast<double>(batch.tokens());
  m["action_tokens"] = static_cast<double>(batch.actions());
  m["length_mean"] = static_cast<double>(batch.tokens()) / count;
  m["action_length_mean"] = static_cast<double>(batch.actions()) / count;
  const auto keep = [&](size_t t) { return batch.mask()[t] != 0; };
  if (batch.has(Column::values)) {
    const Spread value = spread(batch.column(Column::values), keep);
    m["value_mean"] = value.mean;
    m["value_min"] = value.min;
    m["value_max"] = value.max;
    if (batch.has(Column::returns)) {
      m["return_mean"] = spread(batch.column(Column::returns), keep).mean;
      m["ev_lambda"] = explained_variance(batch, Column::returns);
      m["ev_mc"] = explained_variance(batch, Column::mc_returns);
    }
  }
  return m;
}

}  // namespace khost::trainer
