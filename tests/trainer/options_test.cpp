// Options of learning: group advantages, learning-rate rules, guards, recomputed layers, bf16.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "tests/trainer/support.h"
#include "trainer/learn/options.h"
#include "trainer/trainer.h"

using namespace khost::trainer;

namespace {

ModelConfig shape() {
  ModelConfig c;
  c.vocabulary = 40;
  c.width = 32;
  c.layers = 3;
  c.heads = 4;
  c.kv_heads = 2;
  c.head_width = 8;
  c.mlp_width = 48;
  c.positions = 128;
  return c;
}

std::shared_ptr<Trainer> open(const TrainerSpec& given) {
  TrainerSpec spec = given;
  spec.config = spec.config ? spec.config : shape();
  spec.seed = 4;
  return Trainer::open(spec).value();
}

std::vector<Episode> episodes() {
  std::vector<Episode> list;
  for (int i = 0; i < 6; ++i) {
    Episode e;
    for (int t = 0; t < 8 + i; ++t) {
      e.tokens.push_back((7 * i + 5 * t * t + t) % 40);
      e.mask.push_back(t > 2);
    }
    e.reward = i % 3;
    e.group = i / 3;
    list.push_back(e);
  }
  return list;
}

Batch scored(Trainer& actor) {
  Batch batch = Batch::pack(episodes(), {}).value();
  REQUIRE(actor.fill(batch, Column::old_logp));
  AdvantageOptions group;
  group.source = AdvantageSource::group;
  REQUIRE(fill_advantages(batch, group));
  return batch;
}

std::vector<float> after_updates(const TrainerSpec& spec, int steps = 3) {
  const auto actor = open(spec);
  Batch batch = scored(*actor);
  for (int i = 0; i < steps; ++i) {
    REQUIRE(actor->update(batch, {}, {.lr = 1e-3, .max_norm = 1}));
  }
  REQUIRE(actor->fill(batch, Column::old_logp));
  return batch.action_column(Column::old_logp);
}

float advantage_of(const std::vector<double>& rewards, const AdvantageOptions& options, size_t which) {
  std::vector<Episode> list;
  for (const double reward : rewards) {
    list.push_back({{1, 2}, {0, 1}, {}, reward, 0});
  }
  Batch batch = Batch::pack(list, {}).value();
  AdvantageOptions group = options;
  group.source = AdvantageSource::group;
  group.whiten = Whitening::none;
  REQUIRE(fill_advantages(batch, group));
  return batch.column(Column::advantages)[2 * which + 1];
}

}  // namespace

TEST_CASE("group advantages: against the mean or the others, plain or in standard deviations") {
  const std::vector<double> rewards = {1, 2, 6};
  AdvantageOptions options;
  CHECK(advantage_of(rewards, options, 2) == doctest::Approx(3));
  options.center = GroupCenter::leave_one_out;
  CHECK(advantage_of(rewards, options, 2) == doctest::Approx(4.5));
  CHECK(advantage_of({5}, options, 0) == 0);
  options.center = GroupCenter::mean;
  options.scale = GroupScale::std;
  CHECK(advantage_of(rewards, options, 2) == doctest::Approx(3 / std::sqrt(7.0)));
  CHECK(advantage_of({2, 2, 2}, options, 1) == 0);
}

TEST_CASE("the rate rises over the warm-up and falls to its floor by the rule") {
  StepOptions o{.lr = 2, .warmup = 4};
  CHECK(learning_rate(o, 0) == doctest::Approx(0.5));
  CHECK(learning_rate(o, 3) == doctest::Approx(2));
  CHECK(learning_rate(o, 900) == doctest::Approx(2));
  o.rule = RateRule::linear;
  o.steps = 14;
  o.floor = 0.1;
  CHECK(learning_rate(o, 4) == doctest::Approx(2));
  CHECK(learning_rate(o, 9) == doctest::Approx(2 * 0.55));
  CHECK(learning_rate(o, 14) == doctest::Approx(0.2));
  CHECK(learning_rate(o, 99) == doctest::Approx(0.2));
  o.rule = RateRule::cosine;
  CHECK(learning_rate(o, 9) == doctest::Approx(2 * 0.55));
  CHECK(learning_rate(o, 6) > 2 * 0.82);
}

TEST_CASE("a spike is skipped and counted apart from a gradient that is not finite") {
  TrainerSpec spec;
  spec.optimizer.spike_factor = 5;
  const auto actor = open(spec);
  const Batch batch = scored(*actor);
  for (int i = 0; i < 12; ++i) {
    REQUIRE(actor->update(batch, {}, {.lr = 1e-5}));
  }
  Batch wild = batch;
  for (float& advantage : wild.column(Column::advantages)) {
    advantage *= 1e6f;
  }
  Metrics m = actor->update(wild, {}, {.lr = 1e-5}).value();
  CHECK(m.at("skipped") == 1);
  CHECK(m.at("skipped_spike") == 1);
  CHECK(m.at("skipped_nonfinite") == 0);
  for (float& advantage : wild.column(Column::advantages)) {
    advantage = std::numeric_limits<float>::quiet_NaN();
  }
  m = actor->update(wild, {}, {.lr = 1e-5}).value();
  CHECK(m.at("skipped_nonfinite") == 1);
  CHECK(m.at("skipped_total") == 2);
  CHECK(actor->update(batch, {}, {.lr = 1e-5}).value().at("skipped") == 0);
  const testing::TemporaryFolder folder;
  REQUIRE(actor->save(folder / "model", {}));
  const auto other = open(spec);
  REQUIRE(other->load(folder / "model"));
  CHECK(other->update(batch, {}, {.lr = 1e-5}).value().at("skipped_total") == 2);
}

TEST_CASE("layers computed again in the backward pass give the same weights, bit for bit") {
  TrainerSpec plain;
  TrainerSpec again;
  again.recompute = true;
  CHECK(after_updates(plain) == after_updates(again));
  plain.config = again.config = shape();
  plain.config->qk_norm = again.config->qk_norm = true;
  CHECK(after_updates(plain) == after_updates(again));
}

TEST_CASE("training in bf16 keeps to the path of fp32 within rounding, and rates below its resolution still add up") {
  TrainerSpec plain;
  TrainerSpec half;
  half.dtype = "bf16";
  const std::vector<float> a = after_updates(plain);
  const std::vector<float> b = after_updates(half);
  double gap = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    gap = std::max(gap, std::fabs(static_cast<double>(a[i]) - b[i]));
  }
  CHECK(gap > 0);
  CHECK(gap < 0.1);
  // A step of 1e-5 vanishes beside a norm weight of 1 in bf16; the fp32 weights keep it.
  const auto actor = open(half);
  const Batch batch = Batch::pack(episodes(), {}).value();
  const double before = actor->evaluate(batch).value().at("nll");
  const Objective rft{.kind = ObjectiveKind::rft, .aggregate = Aggregate::token_mean};
  for (int i = 0; i < 200; ++i) {
    REQUIRE(actor->update(batch, rft, {.lr = 2e-5, .max_norm = 1}));
  }
  CHECK(actor->evaluate(batch).value().at("nll") < before - 0.02);
}

TEST_CASE("an entropy bonus flattens and a KL term holds the policy near its reference") {
  const auto moved = [](double kl, double entropy) {
    const auto actor = open({});
    Batch batch = scored(*actor);
    batch.column(Column::ref_logp) = batch.column(Column::old_logp);
    Objective ppo;
    ppo.kl = kl;
    ppo.entropy = entropy;
    ppo.clip_low = ppo.clip_high = 10;
    Metrics m;
    for (int i = 0; i < 20; ++i) {
      m = actor->update(batch, ppo, {.lr = 5e-4}).value();
    }
    return m;
  };
  const Metrics free = moved(0, 0);
  CHECK(moved(3, 0).at("kl_k3") < 0.9 * free.at("kl_k3"));
  CHECK(moved(0, 3).at("entropy") > free.at("entropy"));
}
