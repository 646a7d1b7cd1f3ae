// Small GGUF models for tests.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "tests/trainer/gguf_writer.h"
#include "trainer/model/tokenizer.h"

namespace khost::trainer::testing {

inline std::string floats(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * 4};
}

// Shape keys of an architecture.
struct GgufShape {
  uint32_t width, layers, heads, kv_heads, mlp, positions;
  float theta = 100000;
};
inline void put_shape(GgufWriter& w, const std::string& family, const GgufShape& shape) {
  w.text("general.architecture", family);
  w.number(family + ".embedding_length", shape.width);
  w.number(family + ".block_count", shape.layers);
  w.number(family + ".attention.head_count", shape.heads);
  w.number(family + ".attention.head_count_kv", shape.kv_heads);
  w.number(family + ".feed_forward_length", shape.mlp);
  w.number(family + ".context_length", shape.positions);
  w.real(family + ".attention.layer_norm_rms_epsilon", 1e-6f);
  w.real(family + ".rope.freq_base", shape.theta);
}

// All bytes and "ab", then `extra` tokens with their types (3 control, 4 user-defined, 5 unused).
inline void put_tokenizer(GgufWriter& w, const std::string& pre,
                          const std::vector<std::pair<std::string, int32_t>>& extra) {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) {
    tokens.push_back(bytes_to_printable(std::string(1, static_cast<char>(byte))));
  }
  tokens.push_back("ab");
  std::vector<int32_t> types(tokens.size(), 1);
  for (const auto& [text, type] : extra) {
    tokens.push_back(text);
    types.push_back(type);
  }
  w.text("tokenizer.ggml.model", "gpt2");
  w.text("tokenizer.ggml.pre", pre);
  w.texts("tokenizer.ggml.tokens", tokens);
  w.numbers("tokenizer.ggml.token_type", types);
  w.texts("tokenizer.ggml.merges", {"a b"});
}

// A llama of one layer with two heads of four; each matrix's row r holds r everywhere, and q's and k's rows stand in
// the file's interleaved order. Tokens: 256 bytes, "ab" (256), "<|end|>" (257).
inline GgufWriter small_model(const std::string& pre = "smollm", uint64_t rows_of_embedding = 258) {
  GgufWriter w;
  put_shape(w, "llama", {8, 1, 2, 1, 12, 64});
  put_tokenizer(w, pre, {{"<|end|>", 3}});
  w.number("tokenizer.ggml.eos_token_id", 257);
  const auto matrix = [&](const std::string& name, uint64_t columns, uint64_t rows) {
    std::vector<float> values(columns * rows);
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>(i / columns);
    }
    w.tensor(name, {columns, rows}, 0, floats(values));
  };
  matrix("token_embd.weight", 8, rows_of_embedding);
  for (const char* name : {"output_norm.weight", "blk.0.attn_norm.weight", "blk.0.ffn_norm.weight"}) {
    w.tensor(name, {8}, 0, floats(std::vector<float>(8, 1)));
  }
  matrix("blk.0.attn_q.weight", 8, 8);
  matrix("blk.0.attn_k.weight", 8, 4);
  matrix("blk.0.attn_v.weight", 8, 4);
  matrix("blk.0.attn_output.weight", 8, 8);
  matrix("blk.0.ffn_gate.weight", 8, 12);
  matrix("blk.0.ffn_up.weight", 8, 12);
  matrix("blk.0.ffn_down.weight", 12, 8);
  return w;
}

// The numbers of gguf_qwen2.py, so that both write the same file.
class GgufBytes {
 public:
  explicit GgufBytes(uint32_t seed) : state_(seed) {}
  uint8_t next() {
    state_ = state_ * 1664525u + 1013904223u;
    return static_cast<uint8_t>(state_ >> 24);
  }
  // A block with random bytes, but small half-precision numbers where its scales stand: sign, exponent and the upper
  // two bits of the mantissa given.
  std::string block(size_t length, const std::vector<std::pair<size_t, uint16_t>>& halves) {
    std::string bytes;
    for (size_t i = 0; i < length; ++i) {
      bytes += static_cast<char>(next());
    }
    for (const auto& [at, bits] : halves) {
      bytes[at] = static_cast<char>(bits & 255);
      bytes[at + 1] = static_cast<char>(bits >> 8);
    }
    return bytes;
  }
  std::string numbers(size_t count, float middle) {
    std::vector<float> values(count);
    for (float& value : values) {
      value = middle + (static_cast<float>(next()) - 128.0f) / 512.0f;
    }
    return floats(values);
  }

 private:
  uint32_t state_;
};

// A Qwen2 of two layers whose matrices are in the formats that the makers' Q4_K_M has: 300 rows of embedding, of which
// the last 40 stand for no token. gguf_qwen2.py writes the same.
inline GgufWriter small_qwen2() {
  GgufWriter w;
  put_shape(w, "qwen2", {256, 2, 4, 2, 256, 512, 1e6f});
  std::vector<std::pair<std::string, int32_t>> extra = {{"<|endoftext|>", 3}, {"<|im_start|>", 3}, {"<|im_end|>", 3}};
  for (int id = 260; id < 300; ++id) {
    extra.push_back({"[PAD" + std::to_string(id) + "]", 5});
  }
  put_tokenizer(w, "qwen2", extra);
  w.number("tokenizer.ggml.eos_token_id", 259);
  w.number("tokenizer.ggml.padding_token_id", 257);
  w.number("tokenizer.ggml.bos_token_id", 257);
  w.flag("tokenizer.ggml.add_bos_token", false);
  w.text("tokenizer.chat_template", "{% for m in messages %}<|im_start|>{{ m.content }}<|im_end|>{% endfor %}");
  GgufBytes bytes(7);
  const auto matrix = [&](const std::string& name, uint64_t rows, uint32_t type) {
    // Scales that make weights of about 0.1.
    const size_t blocks = rows * (type >= 12 ? 1 : 8);
    std::string data;
    for (size_t i = 0; i < blocks; ++i) {
      data += type == 6    ? bytes.block(22, {{0, 0x2000}})
              : type == 8  ? bytes.block(34, {{0, 0x1400}})
              : type == 12 ? bytes.block(144, {{0, 0x0800}, {2, 0x1400}})
                           : bytes.block(210, {{208, 0x0200}});
    }
    w.tensor(name, {256, rows}, type, data);
  };
  matrix("token_embd.weight", 300, 6);
  w.tensor("output_norm.weight", {256}, 0, bytes.numbers(256, 1));
  for (const std::string layer : {"blk.0.", "blk.1."}) {
    w.tensor(layer + "attn_norm.weight", {256}, 0, bytes.numbers(256, 1));
    matrix(layer + "attn_q.weight", 256, 6);
    w.tensor(layer + "attn_q.bias", {256}, 0, bytes.numbers(256, 0));
    matrix(layer + "attn_k.weight", 128, 6);
    w.tensor(layer + "attn_k.bias", {128}, 0, bytes.numbers(128, 0));
    matrix(layer + "attn_v.weight", 128, 8);
    w.tensor(layer + "attn_v.bias", {128}, 0, bytes.numbers(128, 0));
    matrix(layer + "attn_output.weight", 256, 12);
    w.tensor(layer + "ffn_norm.weight", {256}, 0, bytes.numbers(256, 1));
    matrix(layer + "ffn_gate.weight", 256, 12);
    matrix(layer + "ffn_up.weight", 256, 6);
    matrix(layer + "ffn_down.weight", 256, 14);
  }
  return w;
}

}  // namespace khost::trainer::testing
