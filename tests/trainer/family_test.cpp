#include <doctest/doctest.h>

#include <cmath>
#include <future>
#include <map>

#include "tests/trainer/support.h"
#include "trainer/accelerator.h"
#include "trainer/learn/checkpoint.h"
#include "trainer/model/config.h"
#include "trainer/model/safetensors.h"
#include "trainer/trainer.h"

using namespace khost::trainer;
using khost::Json;
using khost::Result;

namespace {

std::shared_ptr<Trainer> open(const std::string& folder, const std::string& dtype = "fp32",
                              const std::string& device = "cpu") {
  TrainerSpec spec;
  spec.model = folder;
  spec.dtype = dtype;
  spec.device = device;
  const Result<std::shared_ptr<Trainer>> opened = Trainer::open(spec);
  REQUIRE_MESSAGE(opened, opened.failure().message);
  return opened.value();
}

// Log-probabilities of all tokens but the first.
std::vector<float> logprobs(Trainer& model, const std::vector<int32_t>& tokens) {
  const std::vector<float> all = model.policy().value()->logprobs(tokens, 1).value();
  return {all.begin() + 1, all.end()};
}

std::vector<int32_t> greedy(Trainer& model, const std::vector<int32_t>& prompt, int64_t count) {
  std::promise<Completion> drawn;
  GenerateOptions options{.max_tokens = count, .temperature = 0};
  model.policy().value()->generate(
      prompt, options, [&](Result<Completion> result) { drawn.set_value(result ? *result : Completion{}); });
  return drawn.get_future().get().tokens;
}

double largest_gap(const std::vector<float>& a, const std::vector<float>& b) {
  REQUIRE(a.size() == b.size());
  double gap = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    gap = std::max(gap, std::fabs(static_cast<double>(a[i]) - b[i]));
  }
  return gap;
}

double mean_gap(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    sum += std::fabs(static_cast<double>(a[i]) - b[i]);
  }
  return sum / static_cast<double>(a.size());
}

// The CPU, and a card where there is one.
std::vector<std::string> devices() {
  prepare_devices();
  const Result<Accelerator*> opened = open_accelerator();
  if (!opened) {
    MESSAGE("skipped on a card: " << opened.failure().message);
    return {"cpu"};
  }
  return {"cpu", "cuda"};
}

// Log-probs and greedy continuation of a model folder beside what golden.py says that transformers makes of it.
void check_like(const std::string& place, const Json& facts) {
  const auto tokens = facts["tokens"].get<std::vector<int32_t>>();
  const auto expected = facts["logprobs"].get<std::vector<float>>();
  const auto reference = facts["bf16"].get<std::vector<float>>();
  for (const std::string& device : devices()) {
    CAPTURE(device);
    const auto model = open(place, "fp32", device);
    const double apart = largest_gap(logprobs(*model, tokens), expected);
    // As many layers, as much rounding; a card adds up in another order.
    const double layers = static_cast<double>(model->config().layers);
    CHECK(apart < (device == "cpu" ? 2e-5 : 1e-4) * std::max(1.0, layers / 3));
    CHECK(greedy(*model, {tokens.begin(), tokens.begin() + 8}, 24) == facts["greedy"].get<std::vector<int32_t>>());

    // bf16 rounds; both implementations stray from fp32 by the same amount, not by the same numbers.
    const std::vector<float> half = logprobs(*open(place, "bf16", device), tokens);
    const double own = mean_gap(half, expected);
    const double theirs = mean_gap(reference, expected);
    CHECK(own < 1.5 * theirs + 1e-3);
    CHECK(mean_gap(half, reference) < 0.1);
    MESSAGE(std::filesystem::path(place).filename().string()
            << " on " << device << ": from transformers at most " << apart << " in fp32; from its fp32 on average "
            << own << " in bf16, its own bf16 " << theirs);
  }
}

// A one-layer model of a family whose weights are sin(0.7 i + k), as golden.py formula writes them down.
void write_formula_model(const std::string& folder, const std::string& name) {
  const bool qwen3 = name == "qwen3";
  Json config = {{"model_type", name == "llama3" || name == "linear" ? "llama" : name},
                 {"vocab_size", 11},
                 {"hidden_size", 16},
                 {"intermediate_size", 12},
                 {"num_hidden_layers", 1},
                 {"num_attention_heads", 2},
                 {"num_key_value_heads", 1},
                 {"head_dim", 8},
                 {"max_position_embeddings", 256},
                 {"rms_norm_eps", name == "llama" ? 1e-5 : 1e-6},
                 {"tie_word_embeddings", name == "llama" || name == "qwen2"}};
  if (name == "llama3") {
    config["rope_parameters"] = {{"rope_type", "llama3"},
                                 {"factor", 8.0},
                                 {"low_freq_factor", 1.0},
                                 {"high_freq_factor", 4.0},
                                 {"original_max_position_embeddings", 32},
                                 {"rope_theta", 500000.0}};
  } else if (name == "linear") {
    config["rope_scaling"] = {{"type", "linear"}, {"factor", 4.0}};
  }
  std::map<std::string, std::vector<int64_t>> shapes = {{"model.embed_tokens.weight", {11, 16}},
                                                        {"model.norm.weight", {16}}};
  const std::string layer = "model.layers.0.";
  shapes[layer + "input_layernorm.weight"] = shapes[layer + "post_attention_layernorm.weight"] = {16};
  for (const auto& [part, rows] : {std::pair{"q", 16}, std::pair{"k", 8}, std::pair{"v", 8}}) {
    shapes[layer + "self_attn." + part + "_proj.weight"] = {rows, 16};
    if (name == "qwen2") {
      shapes[layer + "self_attn." + part + "_proj.bias"] = {rows};
    }
  }
  shapes[layer + "self_attn.o_proj.weight"] = {16, 16};
  shapes[layer + "mlp.gate_proj.weight"] = shapes[layer + "mlp.up_proj.weight"] = {12, 16};
  shapes[layer + "mlp.down_proj.weight"] = {16, 12};
  if (qwen3) {
    shapes[layer + "self_attn.q_norm.weight"] = shapes[layer + "self_attn.k_norm.weight"] = {8};
  }
  if (!config["tie_word_embeddings"]) {
    shapes["lm_head.weight"] = {11, 16};
  }
  std::vector<std::vector<float>> values;
  std::vector<FloatTensor> tensors;
  for (const auto& [tensor, shape] : shapes) {
    const double k = static_cast<double>(values.size());
    values.emplace_back(static_cast<size_t>(shape[0] * (shape.size() > 1 ? shape[1] : 1)));
    for (size_t i = 0; i < values.back().size(); ++i) {
      values.back()[i] = static_cast<float>(std::sin(0.7 * static_cast<double>(i) + k));
    }
    tensors.push_back({tensor, shape, values.back().data()});
  }
  std::filesystem::create_directories(folder);
  REQUIRE(write_json(folder + "/config.json", config));
  REQUIRE(write_safetensors(folder + "/model.safetensors", tensors, {}));
}

}  // namespace

TEST_CASE("one layer of each family says what transformers says") {
  // tests/trainer/golden.py formula, transformers 5.
  const std::map<std::string, std::vector<float>> golden = {
      {"llama", {-4.02958f, -2.39103f, -4.54316f, -4.77038f, -3.84229f, -2.28134f, -1.51076f, -2.41405f, -2.68764f}},
      {"llama3", {-1.92737f, -2.24946f, -2.57605f, -2.81084f, -2.47545f, -2.32852f, -2.24326f, -2.47976f, -3.92660f}},
      {"linear", {-1.92737f, -2.24522f, -2.58744f, -3.06966f, -2.48515f, -2.32222f, -2.25702f, -2.53569f, -3.94328f}},
      {"qwen2", {-1.54280f, -1.98194f, -4.12751f, -4.36916f, -4.29305f, -1.79746f, -4.50060f, -1.81078f, -2.79170f}},
      {"qwen3", {-2.98315f, -1.81336f, -2.43970f, -4.27994f, -1.89749f, -3.03400f, -1.53069f, -3.18553f, -2.03191f}},
  };
  const testing::TemporaryFolder folder;
  for (const auto& [name, expected] : golden) {
    CAPTURE(name);
    write_formula_model(folder / name, name);
    CHECK(largest_gap(logprobs(*open(folder / name), {1, 5, 9, 2, 7, 7, 0, 3, 10, 4}), expected) < 2e-5);
  }
}

TEST_CASE("random models of each family: log-probs, greedy continuations and saved folders are those of transformers") {
  const std::string python = testing::python_with("transformers");
  if (python.empty()) {
    MESSAGE("skipped: no transformers; pip install transformers and set KHOST_REFERENCE_PYTHON");
    return;
  }
  const testing::TemporaryFolder folder;
  const std::string script = python + " " + KHOST_SOURCE_DIR + "/tests/trainer/golden.py ";
  REQUIRE(testing::run(script + "make " + folder.path + " 2>/dev/null").code == 0);
  for (const auto& entry : std::filesystem::directory_iterator(folder.path)) {
    const std::string name = entry.path().filename();
    CAPTURE(name);
    const Json facts = read_json(entry.path() / "golden.json").value();
    check_like(entry.path(), facts);

    const std::string saved = folder / ("saved-" + name);
    REQUIRE(open(entry.path())->save(saved, {}));
    const testing::Ran checked = testing::run(script + "check " + saved + " 2>/dev/null");
    REQUIRE(checked.code == 0);
    const Json said = Json::parse(checked.output);
    CHECK(largest_gap(said["logprobs"].get<std::vector<float>>(), facts["logprobs"].get<std::vector<float>>()) < 2e-5);
    CHECK(said["greedy"] == facts["greedy"]);
  }
}

TEST_CASE("SmolLM2: token ids, log-probs and greedy continuations are those of transformers") {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  const char* given = std::getenv("KHOST_SMOLLM2");
  const std::string place = given != nullptr ? given
                            : cache != nullptr
                                ? std::string(cache) + "/khost/models/smollm2"
                                : std::string(home == nullptr ? "" : home) + "/.cache/khost/models/smollm2";
  const std::string python = testing::python_with("transformers");
  if (python.empty() || !std::filesystem::exists(place)) {
    MESSAGE("skipped: needs transformers (KHOST_REFERENCE_PYTHON) and " << place
                                                                        << ", which khost fetch-model smollm2 makes");
    return;
  }
  const testing::Ran said =
      testing::run(python + " " + KHOST_SOURCE_DIR + "/tests/trainer/golden.py text " + place + " 2>/dev/null");
  REQUIRE(said.code == 0);
  const Json facts = Json::parse(said.output);
  CHECK(open(place)->tokenizer()->encode(facts["text"].get<std::string>(), Special::plain) ==
        facts["tokens"].get<std::vector<int32_t>>());
  check_like(place, facts);
}
