// The formats in which GGUF files store numbers: single floats, and ggml's blocks of quantised numbers that share
// scales. Layouts are those of ggml's ggml-common.h; `gguf`'s numpy code is the reference of the tests.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace khost::trainer {

struct GgufFormat {
  uint32_t type;  // ggml's number
  const char* name;
  int64_t elements, bytes;  // of a block
  int bits;                 // of precision: what is stored is off by about 2^-bits of a weight's usual size
};

// F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K and Q6_K; null for every other type.
const GgufFormat* gguf_format(uint32_t type);

// "Q4_K", or "ggml type 99" where ggml's name is not known either.
std::string gguf_type_name(uint32_t type);

// Reads whole blocks into fp32: `blocks` has format.bytes for every format.elements of `out`.
void read_blocks(const GgufFormat& format, std::string_view blocks, std::span<float> out);

}  // namespace khost::trainer
