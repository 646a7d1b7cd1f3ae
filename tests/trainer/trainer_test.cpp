#include "trainer/trainer.h"

#include <doctest/doctest.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <future>
#include <limits>
#include <thread>
#include <unistd.h>

#include "trainer/network.h"
#include "trainer/torch.h"

using namespace khost::trainer;

namespace {

namespace fs = std::filesystem;

ModelConfig tiny() {
  ModelConfig c;
  c.vocabulary = 40;
  c.width = 32;
  c.layers = 2;
  c.heads = 4;
  c.kv_heads = 2;
  c.head_width = 8;
  c.mlp_width = 48;
  c.positions = 256;
  return c;
}

std::shared_ptr<Trainer> open_tiny(uint64_t seed = 1) {
  TrainerSpec spec;
  spec.config = tiny();
  spec.seed = seed;
  return Trainer::open(spec).value();
}

std::vector<Episode> some_episodes(size_t count) {
  std::vector<Episode> episodes;
  uint64_t state = 11;
  const auto random = [&state](uint64_t n) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return (state >> 33) % n;
  };
  for (size_t i = 0; i < count; ++i) {
    Episode e;
    const size_t length = 6 + random(20);
    for (size_t t = 0; t < length; ++t) {
      e.tokens.push_back(static_cast<int32_t>(random(40)));
      e.mask.push_back(t > 0 && (t == 1 || random(3) > 0));
    }
    e.reward = static_cast<double>(random(4)) - 1;
    episodes.push_back(e);
  }
  return episodes;
}

Batch ready(Trainer& actor, Trainer& critic, const std::vector<Episode>& episodes, int64_t tokens) {
  Batch batch = Batch::pack(episodes, {.tokens = tokens, .temperature = 1}).value();
  REQUIRE(actor.fill(batch, Column::old_logp));
  REQUIRE(critic.fill(batch, Column::values));
  REQUIRE(fill_advantages(batch, {}));
  return batch;
}

std::vector<Completion> generate_all(Policy& policy, const std::vector<std::vector<int32_t>>& prompts,
                                     GenerateOptions options) {
  std::vector<std::promise<Completion>> promises(prompts.size());
  for (size_t i = 0; i < prompts.size(); ++i) {
    options.seed = 100 + i;
    policy.generate(prompts[i], options, [&promises, i](khost::Result<Completion> result) {
      promises[i].set_value(result ? *result : Completion{});
    });
  }
  std::vector<Completion> out;
  for (std::promise<Completion>& promise : promises) {
    out.push_back(promise.get_future().get());
  }
  return out;
}

struct TemporaryDirectory {
  std::string path = (fs::temp_directory_path() / ("khost-trainer-" + std::to_string(getpid()))).string();
  TemporaryDirectory() { fs::create_directories(path); }
  ~TemporaryDirectory() { fs::remove_all(path); }
};

// Log-probs of all actions after one PPO step.
std::vector<float> after_step(const std::vector<Episode>& episodes, int64_t tokens, bool poison,
                              Metrics* metrics = nullptr) {
  const auto actor = open_tiny();
  const auto critic = actor->critic();
  Batch batch = ready(*actor, *critic, episodes, tokens);
  if (poison) {
    for (int c = 0; c < kColumns; ++c) {
      std::vector<float>& column = batch.column(static_cast<Column>(c));
      for (size_t t = 0; t < column.size(); ++t) {
        column[t] = batch.mask()[t] != 0 ? column[t] : std::numeric_limits<float>::quiet_NaN();
      }
    }
  }
  Metrics m = actor->update(batch, {}, {.lr = 1e-3, .max_norm = 1}).value();
  if (metrics != nullptr) {
    *metrics = m;
  }
  Batch scored = Batch::pack(some_episodes(5), {}).value();
  REQUIRE(actor->fill(scored, Column::old_logp));
  return scored.column(Column::old_logp);
}

void check_close(const std::vector<float>& a, const std::vector<float>& b, double tolerance) {
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    CHECK(std::abs(a[i] - b[i]) <= tolerance);
  }
}

}  // namespace

TEST_CASE("the first update has ratio 1 and clips nothing") {
  Metrics m;
  after_step(some_episodes(9), 8192, false, &m);
  CHECK(m.at("ratio_min") == doctest::Approx(1).epsilon(1e-6));
  CHECK(m.at("ratio_max") == doctest::Approx(1).epsilon(1e-6));
  CHECK(m.at("clip_frac") == 0);
  CHECK(std::abs(m.at("approx_kl")) < 1e-6);
  CHECK(m.at("entropy") > 0);
}

TEST_CASE("micro-batches, padding and order of trajectories do not change an update") {
  const std::vector<Episode> episodes = some_episodes(9);
  Metrics whole;
  Metrics split;
  const std::vector<float> one = after_step(episodes, 8192, false, &whole);
  check_close(one, after_step(episodes, 30, false, &split), 2e-5);
  CHECK(split.at("micro_batches") > whole.at("micro_batches"));
  CHECK(split.at("norm") == doctest::Approx(whole.at("norm")).epsilon(1e-5));
  CHECK(split.at("loss") == doctest::Approx(whole.at("loss")).epsilon(1e-4));
  const std::vector<Episode> reversed(episodes.rbegin(), episodes.rend());
  check_close(one, after_step(reversed, 8192, false), 2e-5);
}

TEST_CASE("what stands in the columns at observation tokens changes nothing") {
  CHECK(after_step(some_episodes(9), 64, false) == after_step(some_episodes(9), 64, true));
}

TEST_CASE("trajectories without actions count in no denominator") {
  std::vector<Episode> episodes = some_episodes(6);
  Metrics with;
  Metrics without;
  after_step(episodes, 8192, false, &without);
  Episode empty = episodes[0];
  std::fill(empty.mask.begin(), empty.mask.end(), uint8_t{0});
  episodes.push_back(empty);
  after_step(episodes, 8192, false, &with);
  CHECK(with.at("norm") == doctest::Approx(without.at("norm")).epsilon(1e-6));
}

TEST_CASE("the sampler's log-probs are the trainer's, over 200 tokens and any batching") {
  const auto actor = open_tiny();
  const auto policy = actor->policy().value();
  const std::vector<std::vector<int32_t>> prompts = {{1, 2, 3}, {4, 5, 6, 7, 8, 9}, {1, 2, 3}, {11}};
  for (const double temperature : {1.0, 0.7}) {
    const std::vector<Completion> out = generate_all(*policy, prompts, {.max_tokens = 200, .temperature = temperature});
    for (size_t i = 0; i < prompts.size(); ++i) {
      REQUIRE(out[i].tokens.size() == 200);
      std::vector<int32_t> all = prompts[i];
      all.insert(all.end(), out[i].tokens.begin(), out[i].tokens.end());
      const std::vector<float> scored = policy->logprobs(all, temperature).value();
      check_close(out[i].logprobs, {scored.begin() + static_cast<int64_t>(prompts[i].size()), scored.end()}, 1e-4);
    }
    CHECK(out[0].tokens != out[2].tokens);  // same prompt, another seed
  }
}

TEST_CASE("greedy generation takes the most likely token of the full pass") {
  const auto actor = open_tiny();
  const auto policy = actor->policy().value();
  const Completion out = generate_all(*policy, {{3, 1, 4}}, {.max_tokens = 60, .temperature = 0}).at(0);
  std::vector<int32_t> all = {3, 1, 4};
  for (const int32_t token : out.tokens) {
    float best = -1e9f;
    int32_t best_token = -1;
    for (int32_t candidate = 0; candidate < 40; ++candidate) {
      std::vector<int32_t> tried = all;
      tried.push_back(candidate);
      const float logp = policy->logprobs(tried, 1).value().back();
      if (logp > best) {
        best = logp;
        best_token = candidate;
      }
    }
    CHECK(best_token == token);
    all.push_back(token);
  }
}

TEST_CASE("the same seed draws the same tokens, alone or among others, with or without a reused prompt") {
  const auto policy = open_tiny()->policy().value();
  std::vector<std::vector<int32_t>> prompts(6, std::vector<int32_t>(50, 5));
  prompts[0][49] = 6;
  const std::vector<Completion> together = generate_all(*policy, prompts, {.max_tokens = 40});
  const std::vector<Completion> alone = generate_all(*open_tiny()->policy().value(), {prompts[0]}, {.max_tokens = 40});
  CHECK(together[0].tokens == alone[0].tokens);
  CHECK(policy->stats().reused_tokens > 4 * 49);
}

TEST_CASE("a policy whose last owner is a callback ends on the engine's thread without harm") {
  auto policy = open_tiny()->policy().value();
  const std::weak_ptr<Policy> watched = policy;
  policy->generate({1, 2, 3}, {.max_tokens = 5}, [policy](const khost::Result<Completion>& out) { CHECK(bool(out)); });
  policy.reset();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!watched.expired() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  CHECK(watched.expired());
}

TEST_CASE("stop tokens, limits, bad prompts and cancellation end a request") {
  const auto policy = open_tiny()->policy().value();
  std::vector<int32_t> every(40);
  for (int32_t i = 0; i < 40; ++i) {
    every[static_cast<size_t>(i)] = i;
  }
  GenerateOptions stop{.max_tokens = 10};
  stop.stop = every;
  const Completion stopped = generate_all(*policy, {{1}}, stop).at(0);
  CHECK(stopped.finish == "stop");
  CHECK(stopped.tokens.size() == 1);
  const Completion full = generate_all(*policy, {std::vector<int32_t>(250, 1)}, {.max_tokens = 100}).at(0);
  CHECK(full.finish == "length");
  CHECK(full.tokens.size() == 6);
  for (const std::vector<int32_t>& prompt : {std::vector<int32_t>{}, {40}, std::vector<int32_t>(256, 1)}) {
    std::promise<std::string> code;
    policy->generate(prompt, {}, [&](khost::Result<Completion> r) { code.set_value(r ? "" : r.failure().code); });
    CHECK(code.get_future().get() == (prompt.size() == 256 ? "limit" : "bad_input"));
  }
  std::promise<std::string> code;
  const uint64_t id = policy->generate({1}, {.max_tokens = 255},
                                       [&](khost::Result<Completion> r) { code.set_value(r ? "" : r.failure().code); });
  policy->cancel(id);
  const std::string answer = code.get_future().get();
  CHECK((answer == "cancelled" || answer.empty()));
}

TEST_CASE("an update gives the policy a new version and the sampler the new weights") {
  const auto actor = open_tiny();
  const auto policy = actor->policy().value();
  generate_all(*policy, {{1, 2, 3}}, {.max_tokens = 20});
  Batch batch = Batch::pack(some_episodes(4), {}).value();
  const Objective rft{.kind = ObjectiveKind::rft, .aggregate = Aggregate::seq_mean_token_sum};
  REQUIRE(actor->update(batch, rft, {.lr = 1e-2, .max_norm = 1}));
  CHECK(policy->version() == 1);
  const Completion out = generate_all(*policy, {{1, 2, 3}}, {.max_tokens = 20}).at(0);
  CHECK(out.version == 1);
  std::vector<int32_t> all = {1, 2, 3};
  all.insert(all.end(), out.tokens.begin(), out.tokens.end());
  const std::vector<float> scored = policy->logprobs(all, 1).value();
  check_close(out.logprobs, {scored.begin() + 3, scored.end()}, 1e-4);
}

TEST_CASE("a gradient that is not finite is skipped and counted, the weights stay") {
  const auto actor = open_tiny();
  const auto critic = actor->critic();
  Batch batch = ready(*actor, *critic, some_episodes(4), 8192);
  const std::vector<float> before = batch.column(Column::old_logp);
  Batch broken = batch;
  std::fill(broken.column(Column::advantages).begin(), broken.column(Column::advantages).end(),
            std::numeric_limits<float>::quiet_NaN());
  const Metrics m = actor->update(broken, {}, {.lr = 1e-2, .max_norm = 1}).value();
  CHECK(m.at("skipped") == 1);
  CHECK(m.at("version") == 0);
  REQUIRE(actor->fill(batch, Column::old_logp));
  CHECK(batch.column(Column::old_logp) == before);
}

TEST_CASE("a resumed run takes the same next step, bit for bit") {
  const TemporaryDirectory directory;
  const auto actor = open_tiny();
  const auto critic = actor->critic();
  Batch batch = ready(*actor, *critic, some_episodes(8), 8192);
  const StepOptions step{.lr = 1e-3, .max_norm = 1};
  const Objective value{.kind = ObjectiveKind::value};
  REQUIRE(actor->update(batch, {}, step));
  REQUIRE(critic->update(batch, value, step));
  const uint64_t first_seed = actor->policy().value()->next_seed();
  REQUIRE(actor->save(directory.path + "/actor", {{"step", 1}}));
  REQUIRE(critic->save(directory.path + "/critic", {}));
  REQUIRE(actor->save(directory.path + "/actor", {{"step", 2}}));  // replaces

  const auto other_actor = open_tiny(99);
  const auto other_critic = other_actor->critic();
  const khost::Json note = other_actor->load(directory.path + "/actor").value();
  CHECK(note.at("step") == 2);
  REQUIRE(other_critic->load(directory.path + "/critic"));
  const uint64_t next_seed = actor->policy().value()->next_seed();
  CHECK(next_seed != first_seed);
  CHECK(other_actor->policy().value()->next_seed() == next_seed);
  for (int i = 0; i < 2; ++i) {
    Metrics a = actor->update(batch, {}, step).value();
    Metrics b = other_actor->update(batch, {}, step).value();
    CHECK(a.at("norm") == b.at("norm"));
    CHECK(a.at("step") == b.at("step"));
    REQUIRE(critic->update(batch, value, step));
    REQUIRE(other_critic->update(batch, value, step));
  }
  Batch x = batch;
  Batch y = batch;
  REQUIRE(actor->fill(x, Column::old_logp));
  REQUIRE(other_actor->fill(y, Column::old_logp));
  CHECK(x.column(Column::old_logp) == y.column(Column::old_logp));
  REQUIRE(critic->fill(x, Column::values));
  REQUIRE(other_critic->fill(y, Column::values));
  CHECK(x.column(Column::values) == y.column(Column::values));
}

TEST_CASE("a checkpoint of weights alone: a used trainer that loads it steps as one that opens it does") {
  const TemporaryDirectory directory;
  const std::string place = directory.path + "/weights";
  const auto actor = open_tiny(5);
  const auto critic = actor->critic();
  Batch batch = ready(*actor, *critic, some_episodes(8), 8192);
  const StepOptions step{.lr = 1e-3, .max_norm = 1};
  REQUIRE(actor->update(batch, {}, step));
  REQUIRE(actor->save(place, {{"step", 1}}, false));
  CHECK(!fs::exists(place + "/optimizer.safetensors"));
  REQUIRE(actor->update(batch, {}, step));  // moments and weights of another place
  CHECK(actor->load(place).failure().message.find("optimizer = false") != std::string::npos);
  CHECK(actor->load(place, false).value().at("step") == 1);

  TrainerSpec spec;
  spec.model = place;
  const auto opened = Trainer::open(spec).value();
  for (int i = 0; i < 2; ++i) {
    const Metrics a = actor->update(batch, {}, step).value();
    const Metrics b = opened->update(batch, {}, step).value();
    CHECK(a.at("norm") == b.at("norm"));
    CHECK(a.at("step") == b.at("step"));
  }
  const std::vector<int32_t> tokens = {1, 2, 3, 4, 5};
  CHECK(opened->policy().value()->logprobs(tokens, 1).value() == actor->policy().value()->logprobs(tokens, 1).value());
}

TEST_CASE("a checkpoint opens as a model; a damaged one is refused") {
  const TemporaryDirectory directory;
  const std::string place = directory.path + "/model";
  const auto actor = open_tiny(3);
  REQUIRE(actor->save(place, {}));
  TrainerSpec spec;
  spec.model = place;
  const auto opened = Trainer::open(spec).value();
  const std::vector<int32_t> tokens = {1, 2, 3, 4, 5};
  CHECK(opened->policy().value()->logprobs(tokens, 1).value() == actor->policy().value()->logprobs(tokens, 1).value());
  fs::resize_file(place + "/optimizer.safetensors", fs::file_size(place + "/optimizer.safetensors") - 1);
  CHECK(opened->load(place).failure().message.find("optimizer.safetensors") != std::string::npos);
}

TEST_CASE("PPO finds the one rewarded token of a toy task within seconds") {
  const auto started = std::chrono::steady_clock::now();
  const auto actor = open_tiny(5);
  const auto critic = actor->critic();
  const auto policy = actor->policy().value();
  double mean = 0;
  for (int step = 0; step < 60 && mean < 0.95; ++step) {
    const std::vector<std::vector<int32_t>> prompts(48, {1, 2});
    GenerateOptions options{.max_tokens = 4};
    const std::vector<Completion> out = generate_all(*policy, prompts, options);
    std::vector<Episode> episodes;
    for (const Completion& completion : out) {
      Episode e;
      e.tokens = {1, 2};
      e.mask = {0, 0};
      for (size_t i = 0; i < completion.tokens.size(); ++i) {
        e.tokens.push_back(completion.tokens[i]);
        e.mask.push_back(1);
        e.reward += completion.tokens[i] % 8 == 3 ? 0.25 : 0;  // five of forty tokens are right
      }
      episodes.push_back(e);
    }
    Batch batch = Batch::pack(episodes, {}).value();
    REQUIRE(actor->fill(batch, Column::old_logp));
    REQUIRE(critic->fill(batch, Column::values));
    AdvantageOptions advantages;
    advantages.lambda = 1;
    mean = fill_advantages(batch, advantages).value().at("reward_mean");
    for (const Batch& part : batch.split(24, 2, static_cast<uint64_t>(step))) {
      REQUIRE(critic->update(part, {.kind = ObjectiveKind::value}, {.lr = 3e-3, .max_norm = 1}));
      REQUIRE(actor->update(part, {}, {.lr = 3e-3, .max_norm = 1}));
    }
  }
  CHECK(mean >= 0.95);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  MESSAGE("toy task: " << seconds << " s");
}
