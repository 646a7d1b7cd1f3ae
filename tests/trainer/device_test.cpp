// Device cuda against the CPU, which transformers is the measure of in family_test.cpp. Skipped, by name, without a
// card.
#include <doctest/doctest.h>

#include <cmath>
#include <future>
#include <map>

#include "tests/trainer/support.h"
#include "trainer/accelerator.h"
#include "trainer/trainer.h"

using namespace khost::trainer;
using khost::Result;
using khost::trainer::testing::TemporaryFolder;

namespace {

bool has_device() {
  prepare_devices();
  const Result<Accelerator*> opened = open_accelerator();
  if (!opened) {
    MESSAGE("skipped: " << opened.failure().message);
  }
  return static_cast<bool>(opened);
}

ModelConfig shape(const std::string& family) {
  ModelConfig c;
  c.family = family;
  c.vocabulary = 300;
  c.width = 96;
  c.layers = 3;
  c.heads = 6;
  c.kv_heads = 2;
  c.head_width = 32;
  c.mlp_width = 160;
  c.positions = 256;
  c.qkv_bias = family == "qwen2";
  c.qk_norm = family == "qwen3";
  return c;
}

std::shared_ptr<Trainer> open(const ModelConfig& config, const std::string& device, const std::string& dtype = "fp32",
                              const std::string& sampler = "") {
  TrainerSpec spec;
  spec.config = config;
  spec.seed = 3;
  spec.device = device;
  spec.dtype = dtype;
  spec.engine.dtype = sampler;
  spec.optimizer.weight_decay = 0.1;
  Result<std::shared_ptr<Trainer>> opened = Trainer::open(spec);
  REQUIRE_MESSAGE(opened, (opened ? "" : opened.failure().message));
  return *opened;
}

std::vector<Episode> episodes() {
  std::vector<Episode> all;
  for (int32_t e = 0; e < 7; ++e) {
    Episode episode;
    for (int32_t t = 0; t < 20 + 13 * e; ++t) {
      episode.tokens.push_back((e * 37 + t * 101) % 300);
      episode.mask.push_back(t > 4 && t % 5 != 0);
    }
    episode.reward = e % 3 - 1;
    all.push_back(episode);
  }
  return all;
}

Batch batch_for(Trainer& actor) {
  Batch batch = Batch::pack(episodes(), {.tokens = 256}).value();
  REQUIRE(actor.fill(batch, Column::old_logp));
  batch.column(Column::advantages).resize(static_cast<size_t>(batch.tokens()));
  for (int64_t t = 0; t < batch.tokens(); ++t) {
    batch.column(Column::advantages)[static_cast<size_t>(t)] = static_cast<float>(t % 7) - 3;
  }
  return batch;
}

double most_apart(const std::vector<float>& a, const std::vector<float>& b) {
  REQUIRE(a.size() == b.size());
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    most = std::max(most, std::fabs(static_cast<double>(a[i]) - b[i]));
  }
  return most;
}

std::vector<int32_t> prompt(int length) {
  std::vector<int32_t> tokens;
  for (int i = 0; i < length; ++i) {
    tokens.push_back((i * 53 + 7) % 300);
  }
  return tokens;
}

std::vector<Completion> draw(Policy& policy,
                             const std::vector<std::pair<std::vector<int32_t>, GenerateOptions>>& requests) {
  std::vector<std::promise<Result<Completion>>> promises(requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    policy.generate(requests[i].first, requests[i].second,
                    [&promises, i](Result<Completion> result) { promises[i].set_value(std::move(result)); });
  }
  std::vector<Completion> all;
  for (auto& promise : promises) {
    Result<Completion> result = promise.get_future().get();
    REQUIRE_MESSAGE(result, (result ? "" : result.failure().message));
    all.push_back(*result);
  }
  return all;
}

}  // namespace

TEST_CASE("cuda: scores and updates in fp32 are those of the CPU, for every family") {
  if (!has_device()) {
    return;
  }
  for (const std::string family : {"llama", "qwen2", "qwen3"}) {
    CAPTURE(family);
    const auto host = open(shape(family), "cpu");
    const auto device = open(shape(family), "cuda");
    for (int step = 0; step < 3; ++step) {
      Batch on_host = batch_for(*host);
      Batch on_device = batch_for(*device);
      CHECK(most_apart(on_host.column(Column::old_logp), on_device.column(Column::old_logp)) < 2e-4);
      const Objective objective{.entropy = 0.01};
      const Metrics a = host->update(on_host, objective, {.lr = 1e-3, .max_norm = 1}).value();
      const Metrics b = device->update(on_device, objective, {.lr = 1e-3, .max_norm = 1}).value();
      CHECK(b.at("loss") == doctest::Approx(a.at("loss")).epsilon(1e-3));
      CHECK(b.at("norm") == doctest::Approx(a.at("norm")).epsilon(1e-3));
      CHECK(b.at("entropy") == doctest::Approx(a.at("entropy")).epsilon(1e-4));
    }
  }
}

TEST_CASE("cuda: a critic learns what the CPU's learns, also with layers computed again") {
  if (!has_device()) {
    return;
  }
  const auto host = open(shape("llama"), "cpu")->critic();
  TrainerSpec spec;
  spec.config = shape("llama");
  spec.seed = 3;
  spec.device = "cuda";
  spec.recompute = true;
  spec.optimizer.weight_decay = 0.1;
  const auto device = Trainer::open(spec).value()->critic();
  Batch batch = Batch::pack(episodes(), {.tokens = 256}).value();
  batch.column(Column::returns).assign(static_cast<size_t>(batch.tokens()), 0.5f);
  const Objective objective{.kind = ObjectiveKind::value};
  for (int step = 0; step < 3; ++step) {
    const Metrics a = host->update(batch, objective, {.lr = 1e-3}).value();
    const Metrics b = device->update(batch, objective, {.lr = 1e-3}).value();
    CHECK(b.at("loss") == doctest::Approx(a.at("loss")).epsilon(1e-3));
  }
  Batch again = batch;
  REQUIRE(host->fill(batch, Column::values));
  REQUIRE(device->fill(again, Column::values));
  CHECK(most_apart(batch.column(Column::values), again.column(Column::values)) < 1e-3);
}

TEST_CASE("cuda: in bf16 packed sequences score as alone, and a first update has ratio 1") {
  if (!has_device()) {
    return;
  }
  for (const std::string family : {"llama", "qwen2", "qwen3"}) {
    CAPTURE(family);
    const auto full = open(shape(family), "cpu");
    const auto actor = open(shape(family), "cuda", "bf16");
    Batch exact = batch_for(*full);
    Batch batch = batch_for(*actor);
    const double apart = most_apart(exact.column(Column::old_logp), batch.column(Column::old_logp));
    MESSAGE(family << ": log-probs in bf16 stand at most " << apart << " from fp32");
    CHECK(apart < 0.05);
    const std::vector<Episode> all = episodes();
    const std::vector<float> alone = actor->policy().value()->logprobs(all[6].tokens, 1).value();
    const std::vector<float>& packed = batch.column(Column::old_logp);
    const auto begin = packed.begin() + batch.begin(6);
    for (size_t t = 0; t < alone.size(); ++t) {
      if (all[6].mask[t] != 0) {
        CHECK(begin[static_cast<int64_t>(t)] == doctest::Approx(alone[t]).epsilon(0.01));
      }
    }
    const Metrics first = actor->update(batch, {}, {.lr = 1e-3, .max_norm = 1}).value();
    CHECK(first.at("ratio_min") == doctest::Approx(1));
    CHECK(first.at("ratio_max") == doctest::Approx(1));
    CHECK(first.at("clip_frac") == 0);
    const Metrics second = actor->update(batch, {}, {.lr = 1e-3, .max_norm = 1}).value();
    CHECK(second.at("loss") < first.at("loss"));
  }
}

TEST_CASE("cuda: greedy continuations in fp32 are those of the CPU, and log-probs those of the trainer") {
  if (!has_device()) {
    return;
  }
  for (const std::string family : {"llama", "qwen2", "qwen3"}) {
    CAPTURE(family);
    const auto host = open(shape(family), "cpu")->policy().value();
    const auto device = open(shape(family), "cuda")->policy().value();
    std::vector<std::pair<std::vector<int32_t>, GenerateOptions>> requests;
    for (int i = 0; i < 9; ++i) {
      requests.push_back({prompt(3 + 17 * i), {.max_tokens = 5 + 6 * i, .temperature = 0}});
    }
    const std::vector<Completion> a = draw(*host, requests);
    const std::vector<Completion> b = draw(*device, requests);
    for (size_t i = 0; i < requests.size(); ++i) {
      CAPTURE(i);
      CHECK(a[i].tokens == b[i].tokens);
      CHECK(most_apart(a[i].logprobs, b[i].logprobs) < 1e-3);
    }
  }
}

TEST_CASE("cuda: what a seed draws depends on nobody else, and log-probs are the trainer's within a bound") {
  if (!has_device()) {
    return;
  }
  for (const auto& [family, dtype, bound] : {std::tuple{"llama", "fp32", 2e-4}, std::tuple{"llama", "bf16", 0.05},
                                             std::tuple{"qwen2", "bf16", 0.05}, std::tuple{"qwen3", "bf16", 0.05}}) {
    CAPTURE(std::string(family));
    CAPTURE(std::string(dtype));
    const auto trainer = open(shape(family), "cuda", dtype);
    const auto policy = trainer->policy().value();
    // Norms that are not all 1, and weights that changed after the engine first saw them.
    draw(*policy, {{prompt(4), {.max_tokens = 2}}});
    Batch batch = batch_for(*trainer);
    for (int step = 0; step < 5; ++step) {
      REQUIRE(trainer->update(batch, {}, {.lr = 5e-3, .max_norm = 1}));
    }
    std::vector<std::pair<std::vector<int32_t>, GenerateOptions>> requests;
    for (int i = 0; i < 40; ++i) {
      requests.push_back({prompt(5 + i), {.max_tokens = 60, .temperature = 0.8, .seed = static_cast<uint64_t>(i)}});
    }
    const std::vector<Completion> together = draw(*policy, requests);
    const std::vector<Completion> alone = draw(*policy, {requests[7]});
    if (std::string(dtype) == "fp32") {  // in bf16 products of another size may round otherwise
      CHECK(alone[0].tokens == together[7].tokens);
    }
    CHECK(together[0].tokens != together[1].tokens);
    double most = 0;
    double sum = 0;
    for (size_t i = 0; i < requests.size(); ++i) {
      std::vector<int32_t> all = requests[i].first;
      all.insert(all.end(), together[i].tokens.begin(), together[i].tokens.end());
      const std::vector<float> scored = policy->logprobs(all, 0.8).value();
      for (size_t t = 0; t < together[i].tokens.size(); ++t) {
        const double apart =
            std::fabs(static_cast<double>(scored[requests[i].first.size() + t]) - together[i].logprobs[t]);
        most = std::max(most, apart);
        sum += apart;
      }
    }
    MESSAGE(std::string(family) << " in " << std::string(dtype) << ": sampler and trainer differ by at most " << most
                                << ", " << sum / 2400 << " on average");
    CHECK(most < bound);
  }
}

TEST_CASE("cuda: draws have the frequencies of their probabilities, whole or cut by top_k and top_p") {
  if (!has_device()) {
    return;
  }
  ModelConfig c = shape("llama");
  c.vocabulary = 8;
  const auto policy = open(c, "cuda")->policy().value();
  struct Cut {
    int64_t top_k;
    double top_p;
  };
  for (const Cut cut : {Cut{0, 1}, Cut{3, 1}, Cut{0, 0.5}}) {
    std::vector<std::pair<std::vector<int32_t>, GenerateOptions>> requests;
    for (uint64_t i = 0; i < 4000; ++i) {
      requests.push_back(
          {{1, 2, 3}, {.max_tokens = 1, .temperature = 1, .seed = i, .top_k = cut.top_k, .top_p = cut.top_p}});
    }
    std::map<int32_t, std::pair<int, double>> seen;  // how often, probability
    for (const Completion& drawn : draw(*policy, requests)) {
      auto& entry = seen[drawn.tokens[0]];
      ++entry.first;
      entry.second = std::exp(static_cast<double>(drawn.logprobs[0]));
    }
    double kept = 0;
    for (const auto& [token, entry] : seen) {
      kept += entry.second;
    }
    if (cut.top_k > 0) {
      CHECK(seen.size() == 3);
    } else if (cut.top_p < 1) {
      CHECK(kept >= 0.5);
      CHECK(seen.size() < 8);
    } else {
      CHECK(kept == doctest::Approx(1).epsilon(1e-4));
    }
    for (const auto& [token, entry] : seen) {
      const double expected = entry.second / kept;
      CHECK(entry.first / 4000.0 == doctest::Approx(expected).epsilon(4 * std::sqrt((1 - expected) / expected / 4000)));
    }
  }
}

TEST_CASE("cuda: a checkpoint goes to the CPU and back, and the next turn reuses what a slot holds") {
  if (!has_device()) {
    return;
  }
  const TemporaryFolder folder;
  const auto device = open(shape("qwen3"), "cuda");
  Batch batch = batch_for(*device);
  REQUIRE(device->update(batch, {}, {.lr = 1e-3}));
  REQUIRE(device->save(folder / "kept", nullptr));
  const auto host = open(shape("qwen3"), "cpu");
  REQUIRE(host->load(folder / "kept"));
  const auto again = open(shape("qwen3"), "cuda");
  REQUIRE(again->load(folder / "kept"));
  Batch a = batch_for(*host);
  Batch b = batch_for(*again);
  CHECK(most_apart(a.column(Column::old_logp), b.column(Column::old_logp)) < 2e-4);
  const Metrics c = device->update(batch, {}, {.lr = 1e-3}).value();
  const Metrics d = again->update(batch, {}, {.lr = 1e-3}).value();
  CHECK(c.at("loss") == doctest::Approx(d.at("loss")));

  const auto policy = again->policy().value();
  const std::vector<int32_t> first = prompt(90);
  const Completion turn = draw(*policy, {{first, {.max_tokens = 40, .temperature = 0}}})[0];
  std::vector<int32_t> second = first;
  second.insert(second.end(), turn.tokens.begin(), turn.tokens.end());
  second.insert(second.end(), {5, 6, 7});
  const Completion next = draw(*policy, {{second, {.max_tokens = 10, .temperature = 0}}})[0];
  CHECK(policy->stats().reused_tokens >= 120);
  const std::vector<float> scored = [&] {
    std::vector<int32_t> all = second;
    all.insert(all.end(), next.tokens.begin(), next.tokens.end());
    return policy->logprobs(all, 1).value();
  }();
  for (size_t t = 0; t < next.tokens.size(); ++t) {
    CHECK(next.logprobs[t] == doctest::Approx(scored[second.size() + t]).epsilon(1e-3));
  }
}
