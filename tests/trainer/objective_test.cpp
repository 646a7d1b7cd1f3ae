#include "trainer/learn/objective.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "trainer/learn/metrics.h"
#include "trainer/torch.h"

using namespace khost::trainer;

namespace {

at::Tensor tensor(const std::vector<float>& values) {
  at::Tensor out = at::empty({static_cast<int64_t>(values.size())}, at::kFloat);
  std::copy(values.begin(), values.end(), out.data_ptr<float>());
  return out;
}

const std::vector<float> kOld = {-1.0f, -.5f, -2.0f, -.1f, -2.5f, -.3f, -1.2f};
const std::vector<float> kNew = {-.7f, -.9f, -1.2f, -.1f, -.7f, -.9f, -.8f};
const std::vector<float> kAdvantages = {1, 1, -.5f, 2, -1, -2, .5f};

// Two trajectories whose actions are the seven tokens above.
Batch golden_batch() {
  const Episode first{{1, 2, 3, 4, 5, 6, 7, 8, 9}, {0, 1, 1, 0, 0, 1, 1, 0, 1}, {}, 0, 0};
  const Episode second{{1, 2, 3, 4}, {0, 1, 0, 1}, {}, 0, 1};
  return Batch::pack({first, second}, {}).value();
}

double aggregate(const at::Tensor& losses, Aggregate how) {
  const std::vector<float> weights = token_weights(golden_batch(), how, 8);
  double sum = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    sum += static_cast<double>(weights[i]) * losses.const_data_ptr<float>()[i];
  }
  return sum;
}

}  // namespace

TEST_CASE("PPO losses of the golden tokens, with and without dual clip") {
  Objective ppo;
  const at::Tensor loss = ppo_loss(tensor(kNew), tensor(kOld), tensor(kAdvantages), ppo);
  const std::vector<double> expected = {-1.28, -.67032, 1.11277, -2, 6.049647, 1.6, -.64};
  for (size_t i = 0; i < expected.size(); ++i) {
    CHECK(loss.const_data_ptr<float>()[i] == doctest::Approx(expected[i]).epsilon(1e-5));
  }
  CHECK(aggregate(loss, Aggregate::seq_mean_token_mean) == doctest::Approx(0.561210).epsilon(1e-5));
  CHECK(aggregate(loss, Aggregate::token_mean) == doctest::Approx(0.596014).epsilon(1e-5));
  CHECK(aggregate(loss, Aggregate::seq_mean_token_sum) == doctest::Approx(2.086049).epsilon(1e-5));
  CHECK(aggregate(loss, Aggregate::seq_mean_token_sum_norm) == doctest::Approx(0.260756).epsilon(1e-5));
  CHECK(aggregate(loss, Aggregate::token_sum) == doctest::Approx(4.172098).epsilon(1e-5));
  CHECK(aggregate(loss, Aggregate::prompt_mean) == doctest::Approx(0.561210).epsilon(1e-5));
  ppo.dual_clip = 3;
  const at::Tensor dual = ppo_loss(tensor(kNew), tensor(kOld), tensor(kAdvantages), ppo);
  CHECK(aggregate(dual, Aggregate::seq_mean_token_mean) == doctest::Approx(0.256245).epsilon(1e-5));
  CHECK(aggregate(dual, Aggregate::token_mean) == doctest::Approx(0.160350).epsilon(1e-5));
  CHECK(aggregate(dual, Aggregate::seq_mean_token_sum) == doctest::Approx(0.561225).epsilon(1e-5));
  CHECK(aggregate(dual, Aggregate::token_sum) == doctest::Approx(1.122450).epsilon(1e-5));
}

TEST_CASE("metrics of the golden tokens") {
  const std::vector<float> entropy(kNew.size(), 0.5f);
  const Metrics m = policy_metrics({kNew, kOld, kOld, kAdvantages, entropy}, {});
  CHECK(m.at("clip_frac") == doctest::Approx(3.0 / 7));
  CHECK(m.at("dual_clip_frac") == doctest::Approx(1.0 / 7));
  CHECK(m.at("approx_kl") == doctest::Approx(-0.328571).epsilon(1e-5));
  CHECK(m.at("ratio_max") == doctest::Approx(6.049647).epsilon(1e-5));
  CHECK(m.at("ratio_min") == doctest::Approx(0.548812).epsilon(1e-5));
  CHECK(m.at("sampler_gap_max") == 0);
  CHECK(m.at("entropy") == doctest::Approx(0.5));
}

TEST_CASE("k3 of the golden tokens") {
  CHECK(kl_k3(tensor(kNew), tensor(kOld)).mean().item<double>() == doctest::Approx(0.234244).epsilon(1e-5));
}

TEST_CASE("value loss of the golden trajectory, clipped and not") {
  const at::Tensor values = tensor({.7f, .6f, .2f, 1.5f, .9f});
  const at::Tensor old = tensor({.5f, .6f, .7f, .8f, .9f});
  const at::Tensor returns = tensor({1.766944f, 1.828362f, 1.887750f, 1.945f, 2.0f});
  CHECK(value_loss(values, old, returns, 0.2).mean().item<double>() == doctest::Approx(0.759877).epsilon(1e-5));
  CHECK(value_loss(values, old, returns, 0).mean().item<double>() == doctest::Approx(0.690377).epsilon(1e-5));
}

TEST_CASE("an unknown aggregate names the known ones") {
  CHECK(parse_aggregate("token-mean").value() == Aggregate::token_mean);
  CHECK(parse_aggregate("mean").failure().message.find("seq-mean-token-mean") != std::string::npos);
}
