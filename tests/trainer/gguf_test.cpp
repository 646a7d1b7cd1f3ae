#include "trainer/model/gguf.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "tests/trainer/gguf_golden.h"
#include "tests/trainer/gguf_models.h"
#include "tests/trainer/support.h"
#include "trainer/learn/checkpoint.h"
#include "trainer/model/gguf_model.h"
#include "trainer/model/safetensors.h"
#include "trainer/model/tokenizer.h"
#include "trainer/trainer.h"

using namespace khost::trainer;
using khost::Json;
using testing::GgufWriter;
using testing::TemporaryFolder;

namespace {

// Half-precision 0.5 and -2.
const std::string kHalf("\x00\x38", 2);
const std::string kMinusTwo("\x00\xc0", 2);

std::vector<float> read_one(const std::string& path, uint32_t type, const std::string& blocks, uint64_t elements = 32) {
  GgufWriter writer;
  writer.tensor("t", {elements}, type, blocks);
  testing::write_text(path, writer.bytes());
  const Gguf file = Gguf::open(path).value();
  std::vector<float> out(elements);
  REQUIRE(dequantize(file.tensors().at("t"), out));
  return out;
}

std::string from_hex(const std::string& text) {
  std::string bytes;
  for (size_t i = 0; i < text.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(text.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

// Converts into folder/model; the failure's message, or nothing.
std::string convert(const TemporaryFolder& folder, const GgufWriter& writer) {
  testing::write_text(folder / "m.gguf", writer.bytes());
  const khost::Status made = convert_gguf(folder / "m.gguf", folder / "model");
  CHECK(static_cast<bool>(made) == std::filesystem::exists(folder / "model"));
  return made ? "" : made.failure().message;
}

std::shared_ptr<Trainer> open(const std::string& folder) {
  TrainerSpec spec;
  spec.model = folder;
  auto opened = Trainer::open(spec);
  REQUIRE_MESSAGE(opened, opened.failure().message);
  return opened.value();
}

void check_says(const std::string& message, const std::vector<std::string>& words) {
  CAPTURE(message);
  for (const std::string& word : words) {
    CHECK(message.find(word) != std::string::npos);
  }
}

// A tensor of random quantised blocks of 32, the same for the same seed.
std::string q5_0_blocks(uint32_t seed, size_t blocks) {
  testing::GgufBytes bytes(seed);
  std::string data;
  for (size_t i = 0; i < blocks; ++i) {
    data += bytes.block(22, {{0, 0x2000}});
  }
  return data;
}

}  // namespace

TEST_CASE("blocks of every format are read as llama.cpp's own numpy code reads them") {
  const TemporaryFolder folder;
  for (const testing::GgufGolden& golden : testing::kGgufGolden) {
    CAPTURE(golden.name);
    const std::vector<float> read =
        read_one(folder / "x.gguf", golden.type, from_hex(golden.blocks), golden.numbers.size());
    for (size_t i = 0; i < read.size(); ++i) {
      CAPTURE(i);
      CHECK(read[i] == std::bit_cast<float>(golden.numbers[i]));
    }
  }
}

TEST_CASE("every block format gives back scale times number plus minimum, low nibbles first") {
  const TemporaryFolder folder;
  const std::string path = folder / "x.gguf";
  const std::string nibbles(16, '\x92');           // low 2, high 9
  const std::string fifth("\x01\x00\x00\x80", 4);  // elements 0 and 31
  const auto q4_0 = read_one(path, 2, kHalf + nibbles);
  CHECK(q4_0[0] == 0.5f * (2 - 8));
  CHECK(q4_0[16] == 0.5f * (9 - 8));
  const auto q4_1 = read_one(path, 3, kHalf + kMinusTwo + nibbles);
  CHECK(q4_1[15] == 0.5f * 2 - 2);
  CHECK(q4_1[31] == 0.5f * 9 - 2);
  const auto q5_0 = read_one(path, 6, kHalf + fifth + nibbles);
  CHECK(q5_0[0] == 0.5f * (2 + 16 - 16));
  CHECK(q5_0[1] == 0.5f * (2 - 16));
  CHECK(q5_0[31] == 0.5f * (9 + 16 - 16));
  const auto q5_1 = read_one(path, 7, kHalf + kMinusTwo + fifth + nibbles);
  CHECK(q5_1[0] == 0.5f * 18 - 2);
  CHECK(q5_1[30] == 0.5f * 9 - 2);
  const auto q8_0 = read_one(path, 8, kHalf + std::string(31, '\x03') + '\xff');
  CHECK(q8_0[0] == 1.5f);
  CHECK(q8_0[31] == -0.5f);
}

TEST_CASE("single floats and rows from the middle of a tensor are read") {
  const TemporaryFolder folder;
  const std::string brain("\x80\x3f\x00\xc0", 4);  // 1, -2
  CHECK(read_one(folder / "x.gguf", 30, brain, 2) == std::vector<float>{1, -2});
  CHECK(read_one(folder / "x.gguf", 1, kHalf + kMinusTwo, 2) == std::vector<float>{0.5f, -2});
  GgufWriter writer;
  writer.tensor("t", {32, 3}, 6, q5_0_blocks(3, 3));
  testing::write_text(folder / "x.gguf", writer.bytes());
  const Gguf file = Gguf::open(folder / "x.gguf").value();
  const GgufTensor& tensor = file.tensors().at("t");
  std::vector<float> all(96);
  std::vector<float> last(32);
  REQUIRE(dequantize(tensor, all));
  REQUIRE(dequantize_rows(tensor, 2, last));
  CHECK(last == std::vector<float>(all.begin() + 64, all.end()));
  CHECK_FALSE(dequantize_rows(tensor, 3, last));
}

TEST_CASE("a GGUF llama becomes a folder that opens, with q and k rows in their own order") {
  const TemporaryFolder folder;
  REQUIRE(convert(folder, testing::small_model()) == "");
  const SafeTensors weights = SafeTensors::open(folder / "model/model.safetensors").value();
  const std::vector<float> q = weights.read_floats("model.layers.0.self_attn.q_proj.weight", {8, 8}).value();
  const std::vector<float> expected = {0, 2, 1, 3, 4, 6, 5, 7};
  for (size_t row = 0; row < 8; ++row) {
    CHECK(q[row * 8] == expected[row]);
  }
  const auto opened = open(folder / "model");
  CHECK(opened->config().rope_theta == 100000);
  CHECK(opened->config().end_tokens == std::vector<int64_t>{257});
  CHECK(opened->config().tied_embeddings);
  CHECK(opened->tokenizer()->encode("ab", Special::plain) == std::vector<int32_t>{256});
  CHECK(opened->tokenizer()->encode("<|end|>", Special::parse) == std::vector<int32_t>{257});
}

TEST_CASE("a GGUF Qwen2 in Q4_K, Q5_0, Q6_K and Q8_0 says what transformers says of it") {
  const TemporaryFolder folder;
  REQUIRE(convert(folder, testing::small_qwen2()) == "");
  const auto model = open(folder / "model");
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < 24; ++i) {
    tokens.push_back((11 * i * i + 5 * i + 3) % 260);
  }
  // tests/trainer/gguf_qwen2.py, gguf 0.19.0, transformers 5.24.0.
  const std::vector<float> expected = {-3.30895f, -7.29787f, -5.65921f, -6.15228f, -6.11893f, -6.24158f,
                                       -6.69725f, -7.04838f, -5.80915f, -8.21481f, -7.93047f, -6.44037f,
                                       -5.85344f, -6.61085f, -6.97274f, -6.87250f, -7.06130f, -7.43518f,
                                       -6.78079f, -6.15916f, -6.30813f, -5.47559f, -8.36147f};
  const std::vector<float> said = model->policy().value()->logprobs(tokens, 1).value();
  for (size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    CHECK(std::fabs(said[i + 1] - expected[i]) < 1e-4);
  }

  SUBCASE("rows without a token are no tokens, and every token that ends an answer is known") {
    CHECK(model->config().vocabulary == 300);
    CHECK(model->tokenizer()->size() == 260);
    CHECK(model->config().end_tokens == std::vector<int64_t>{259, 257});
    const Json generation = read_json(folder / "model/generation_config.json").value();
    CHECK(generation["eos_token_id"] == Json({259, 257}));
    CHECK(generation["pad_token_id"] == 257);
  }
  SUBCASE("the chat template and the special tokens come along") {
    const Json config = read_json(folder / "model/tokenizer_config.json").value();
    CHECK(config["chat_template"].get<std::string>().find("<|im_start|>{{ m.content }}") != std::string::npos);
    CHECK(config["eos_token"] == "<|im_end|>");
    CHECK(config["add_bos_token"] == false);
    CHECK(read_json(folder / "model/special_tokens_map.json").value()["pad_token"] == "<|endoftext|>");
    CHECK(read_json(folder / "model/tokenizer.json").value()["normalizer"]["type"] == "NFC");
  }
}

TEST_CASE("a tokenizer that begins every text says so in its post-processor") {
  const TemporaryFolder folder;
  GgufWriter writer = testing::small_model();
  writer.number("tokenizer.ggml.bos_token_id", 257);
  writer.flag("tokenizer.ggml.add_bos_token", true);
  REQUIRE(convert(folder, writer) == "");
  const Json post = read_json(folder / "model/tokenizer.json").value()["post_processor"];
  CHECK(post["processors"][1]["type"] == "TemplateProcessing");
  CHECK(post["processors"][1]["special_tokens"]["<|end|>"]["ids"] == Json({257}));
}

TEST_CASE("an output matrix that is the embedding again makes a tied model with the more precise of the two") {
  const TemporaryFolder folder;
  const auto with_output = [](uint32_t embedding_seed, uint32_t output_seed, bool same) {
    GgufWriter w;
    testing::put_shape(w, "llama", {32, 1, 2, 1, 32, 64});
    testing::put_tokenizer(w, "smollm", {{"<|end|>", 3}});
    w.number("tokenizer.ggml.eos_token_id", 257);
    const std::string embedding = q5_0_blocks(embedding_seed, 258);
    std::vector<float> numbers(32 * 258);
    GgufTensor tensor{6, {258, 32}, embedding};
    REQUIRE(dequantize(tensor, numbers));
    testing::GgufBytes noise(output_seed);
    for (float& number : numbers) {
      const float moved = static_cast<float>(noise.next()) / 256.0f - 0.5f;  // of a step of 2^-7
      number = same ? number + moved * 0.0078125f : moved;
    }
    w.tensor("token_embd.weight", {32, 258}, 6, embedding);
    w.tensor("output.weight", {32, 258}, 0, testing::floats(numbers));
    for (const char* name : {"output_norm.weight", "blk.0.attn_norm.weight", "blk.0.ffn_norm.weight"}) {
      w.tensor(name, {32}, 0, testing::floats(std::vector<float>(32, 1)));
    }
    for (const auto& [name, rows] :
         {std::pair{"attn_q", 32}, std::pair{"attn_k", 16}, std::pair{"attn_v", 16}, std::pair{"attn_output", 32},
          std::pair{"ffn_gate", 32}, std::pair{"ffn_up", 32}, std::pair{"ffn_down", 32}}) {
      w.tensor(std::string("blk.0.") + name + ".weight", {32, static_cast<uint64_t>(rows)}, 6,
               q5_0_blocks(9, static_cast<size_t>(rows)));
    }
    return std::pair{w, numbers};
  };
  const auto [twice, numbers] = with_output(1, 2, true);
  REQUIRE(convert(folder, twice) == "");
  const auto tied = open(folder / "model");
  CHECK(tied->config().tied_embeddings);
  const SafeTensors weights = SafeTensors::open(folder / "model/model.safetensors").value();
  CHECK(weights.read_floats("model.embed_tokens.weight", {258, 32}).value() == numbers);
  CHECK_FALSE(weights.tensors().contains("lm_head.weight"));

  const TemporaryFolder apart;
  REQUIRE(convert(apart, with_output(1, 2, false).first) == "");
  CHECK_FALSE(open(apart / "model")->config().tied_embeddings);
}

TEST_CASE("what a GGUF file has that khost does not compute is named, with the remedy") {
  const TemporaryFolder folder;
  GgufWriter wrong_family;
  testing::put_shape(wrong_family, "mamba", {8, 1, 2, 1, 12, 64});
  testing::put_tokenizer(wrong_family, "smollm", {});
  check_says(convert(folder, wrong_family), {folder / "m.gguf", "general.architecture is 'mamba'", "qwen2"});

  GgufWriter foreign = testing::small_model();
  foreign.tensor("blk.0.ssm_a", {1}, 0, std::string(4, '\0'));
  check_says(convert(folder, foreign), {"tensor blk.0.ssm_a", "llama"});

  GgufWriter scaled = testing::small_model();
  scaled.text("llama.rope.scaling.type", "yarn");
  check_says(convert(folder, scaled), {"llama.rope.scaling.type is 'yarn'"});

  GgufWriter format;
  testing::put_shape(format, "llama", {256, 1, 2, 1, 256, 64});
  testing::put_tokenizer(format, "smollm", {});
  format.tensor("token_embd.weight", {256, 257}, 11, std::string(110 * 257, 'x'));
  format.tensor("output.weight", {256, 257}, 11, std::string(110 * 257, 'x'));
  check_says(convert(folder, format), {"token_embd.weight is stored as Q3_K", "Q4_K_M"});

  check_says(convert(folder, testing::small_model("tekken")), {"tokenizer.ggml.pre: pre_tokenizer: 'tekken'", "qwen2"});
}

TEST_CASE("a GGUF file whose parts do not fit together is refused by name") {
  const TemporaryFolder folder;
  GgufWriter twice = testing::small_model();
  twice.tensor("blk.0.attn_v.weight", {8, 4}, 0, std::string(128, '\0'));
  check_says(convert(folder, twice), {folder / "m.gguf", "tensor blk.0.attn_v.weight appears twice", "fetch it again"});

  GgufWriter key = testing::small_model();
  key.number("llama.block_count", 2);
  check_says(convert(folder, key), {"key llama.block_count: appears twice"});

  GgufWriter layers;
  testing::put_shape(layers, "llama", {8, 1 << 23, 2, 1, 12, 64});
  testing::put_tokenizer(layers, "smollm", {});
  layers.tensor("token_embd.weight", {8, 257}, 0, std::string(8 * 257 * 4, '\0'));
  check_says(convert(folder, layers), {"llama.block_count is 8388608", "only 1 tensors"});

  GgufWriter shape;
  testing::put_shape(shape, "llama", {8, 1, 2, 1, 12, 64});
  testing::put_tokenizer(shape, "smollm", {});
  shape.tensor("token_embd.weight", {8, 257}, 0, std::string(8 * 257 * 4, '\0'));
  shape.tensor("blk.0.attn_norm.weight", {9}, 0, std::string(36, '\0'));
  check_says(convert(folder, shape), {"tensor blk.0.attn_norm.weight has shape [9], expected [8]"});

  check_says(convert(folder, testing::small_model("smollm", 100)),
             {"the tokenizer has 258 tokens", "token_embd.weight only 100 rows"});

  GgufWriter infinite = testing::small_model();
  std::string bytes = infinite.bytes();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(bytes.data() + bytes.size() - 64, &nan, 4);
  testing::write_text(folder / "m.gguf", bytes);
  const khost::Status made = convert_gguf(folder / "m.gguf", folder / "model");
  REQUIRE_FALSE(made);
  check_says(made.failure().message, {"tensor blk.0.ffn_down.weight", "not finite"});
  CHECK_FALSE(std::filesystem::exists(folder / "model"));
}
