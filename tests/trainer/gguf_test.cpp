#include "trainer/model/gguf.h"

#include <doctest/doctest.h>

#include "tests/trainer/gguf_writer.h"
#include "tests/trainer/support.h"
#include "trainer/model/gguf_model.h"
#include "trainer/model/safetensors.h"
#include "trainer/model/tokenizer.h"
#include "trainer/trainer.h"

using namespace khost::trainer;
using testing::GgufWriter;
using testing::TemporaryFolder;

namespace {

// Half-precision 0.5 and -2.
const std::string kHalf("\x00\x38", 2);
const std::string kMinusTwo("\x00\xc0", 2);

std::string floats(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * 4};
}

std::vector<float> read_one(const std::string& path, uint32_t type, const std::string& block) {
  GgufWriter writer;
  writer.tensor("t", {32}, type, block);
  testing::write_text(path, writer.bytes());
  const Gguf file = Gguf::open(path).value();
  std::vector<float> out(32);
  REQUIRE(dequantize(file.tensors().at("t"), out));
  return out;
}

// A llama of one layer with two heads of four; q's row r holds r everywhere, in the file's interleaved order.
GgufWriter small_model() {
  GgufWriter w;
  w.text("general.architecture", "llama");
  for (const auto& [key, value] : {std::pair{"embedding_length", 8}, std::pair{"block_count", 1},
                                   std::pair{"attention.head_count", 2}, std::pair{"attention.head_count_kv", 1},
                                   std::pair{"feed_forward_length", 12}, std::pair{"context_length", 64}}) {
    w.number(std::string("llama.") + key, static_cast<uint32_t>(value));
  }
  w.real("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  w.real("llama.rope.freq_base", 100000);
  std::vector<std::string> tokens = {"<|end|>"};
  for (int byte = 0; byte < 256; ++byte) {
    tokens.push_back(bytes_to_printable(std::string(1, static_cast<char>(byte))));
  }
  tokens.push_back("ab");
  std::vector<int32_t> types(tokens.size(), 1);
  types[0] = 3;
  w.text("tokenizer.ggml.model", "gpt2");
  w.text("tokenizer.ggml.pre", "smollm");
  w.texts("tokenizer.ggml.tokens", tokens);
  w.numbers("tokenizer.ggml.token_type", types);
  w.texts("tokenizer.ggml.merges", {"a b"});
  w.number("tokenizer.ggml.eos_token_id", 0);
  const auto matrix = [&](const std::string& name, uint64_t columns, uint64_t rows) {
    std::vector<float> values(columns * rows);
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>(i / columns);
    }
    w.tensor(name, {columns, rows}, 0, floats(values));
  };
  matrix("token_embd.weight", 8, tokens.size());
  w.tensor("output_norm.weight", {8}, 0, floats(std::vector<float>(8, 1)));
  w.tensor("blk.0.attn_norm.weight", {8}, 0, floats(std::vector<float>(8, 1)));
  w.tensor("blk.0.ffn_norm.weight", {8}, 0, floats(std::vector<float>(8, 1)));
  matrix("blk.0.attn_q.weight", 8, 8);
  matrix("blk.0.attn_k.weight", 8, 4);
  matrix("blk.0.attn_v.weight", 8, 4);
  matrix("blk.0.attn_output.weight", 8, 8);
  matrix("blk.0.ffn_gate.weight", 8, 12);
  matrix("blk.0.ffn_up.weight", 8, 12);
  matrix("blk.0.ffn_down.weight", 12, 8);
  return w;
}

}  // namespace

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

TEST_CASE("a GGUF llama becomes a folder that opens, with q and k rows in their own order") {
  const TemporaryFolder folder;
  testing::write_text(folder / "m.gguf", small_model().bytes());
  const auto made = convert_gguf(folder / "m.gguf", folder / "model");
  REQUIRE_MESSAGE(made, made.failure().message);
  const SafeTensors weights = SafeTensors::open(folder / "model/model.safetensors").value();
  const std::vector<float> q = weights.read_floats("model.layers.0.self_attn.q_proj.weight", {8, 8}).value();
  const std::vector<float> expected = {0, 2, 1, 3, 4, 6, 5, 7};
  for (size_t row = 0; row < 8; ++row) {
    CHECK(q[row * 8] == expected[row]);
  }
  TrainerSpec spec;
  spec.model = folder / "model";
  const auto opened = Trainer::open(spec).value();
  CHECK(opened->config().rope_theta == 100000);
  CHECK(opened->config().end_token == 0);
  CHECK(opened->config().tied_embeddings);
  CHECK(opened->tokenizer()->encode("ab", Special::plain) == std::vector<int32_t>{257});
  CHECK(opened->tokenizer()->encode("<|end|>", Special::parse) == std::vector<int32_t>{0});
}

TEST_CASE("what a GGUF file has that khost does not compute is named") {
  const TemporaryFolder folder;
  const auto message = [&](GgufWriter writer) {
    testing::write_text(folder / "m.gguf", writer.bytes());
    const auto made = convert_gguf(folder / "m.gguf", folder / "model");
    CHECK_FALSE(std::filesystem::exists(folder / "model"));
    return made ? "" : made.failure().message;
  };
  GgufWriter family = small_model();
  family.text("general.architecture", "mamba");
  CHECK(message(family).find("general.architecture is 'mamba'") != std::string::npos);
  GgufWriter pre = small_model();
  pre.text("tokenizer.ggml.pre", "tekken");
  CHECK(message(pre).find("tokenizer.ggml.pre: pre_tokenizer: 'tekken'") != std::string::npos);
  GgufWriter format = small_model();
  format.tensor("blk.0.attn_v.weight", {256, 1}, 12, std::string(144, 'x'));
  CHECK(message(format).find("blk.0.attn_v.weight: ggml type 12") != std::string::npos);
  GgufWriter foreign = small_model();
  foreign.tensor("blk.0.ssm_a", {1}, 0, std::string(4, '\0'));
  CHECK(message(foreign).find("tensor blk.0.ssm_a") != std::string::npos);
}
