#include "trainer/model/gguf_blocks.h"

#include <array>
#include <cstring>

#include "trainer/model/halves.h"

namespace khost::trainer {
namespace {

enum Type : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kBF16 = 30
};

constexpr GgufFormat kFormats[] = {
    {kF32, "F32", 1, 4, 24},      {kF16, "F16", 1, 2, 11},      {kBF16, "BF16", 1, 2, 8},    {kQ4_0, "Q4_0", 32, 18, 4},
    {kQ4_1, "Q4_1", 32, 20, 4},   {kQ5_0, "Q5_0", 32, 22, 5},   {kQ5_1, "Q5_1", 32, 24, 5},  {kQ8_0, "Q8_0", 32, 34, 8},
    {kQ4_K, "Q4_K", 256, 144, 4}, {kQ5_K, "Q5_K", 256, 176, 5}, {kQ6_K, "Q6_K", 256, 210, 6}};

// Of formats that are only named.
constexpr std::pair<uint32_t, const char*> kOtherNames[] = {
    {9, "Q8_1"},   {10, "Q2_K"},   {11, "Q3_K"},  {15, "Q8_K"},  {16, "IQ2_XXS"}, {17, "IQ2_XS"}, {18, "IQ3_XXS"},
    {19, "IQ1_S"}, {20, "IQ4_NL"}, {21, "IQ3_S"}, {22, "IQ2_S"}, {23, "IQ4_XS"},  {24, "I8"},     {25, "I16"},
    {26, "I32"},   {27, "I64"},    {28, "F64"},   {29, "IQ1_M"}, {34, "TQ1_0"},   {35, "TQ2_0"},  {39, "MXFP4"}};

uint16_t bits16(const char* at) {
  uint16_t bits;
  std::memcpy(&bits, at, 2);
  return bits;
}

float half_at(const char* at) {
  return half_to_float(bits16(at));
}

uint8_t byte_at(const char* at) {
  return static_cast<uint8_t>(*at);
}

// 32 four-bit numbers in 16 bytes, the first 16 in the low halves; five-bit formats add a fifth from a bit field.
std::array<int, 32> unpack(const char* nibbles, const char* fifth) {
  std::array<int, 32> out;
  uint32_t high = 0;
  if (fifth != nullptr) {
    std::memcpy(&high, fifth, 4);
  }
  for (size_t i = 0; i < 16; ++i) {
    const uint8_t byte = byte_at(nibbles + i);
    out[i] = (byte & 15) | static_cast<int>((high >> i & 1) << 4);
    out[i + 16] = (byte >> 4) | static_cast<int>((high >> (i + 16) & 1) << 4);
  }
  return out;
}

// Q4_0, Q4_1, Q5_0 and Q5_1: half scale, half minimum (_1 only), four bytes of fifth bits (Q5 only), 16 bytes.
void read_small_block(uint32_t type, const char* block, float* out) {
  const bool has_minimum = type == kQ4_1 || type == kQ5_1;
  const bool five = type == kQ5_0 || type == kQ5_1;
  const float scale = half_at(block);
  const float minimum = has_minimum ? half_at(block + 2) : 0;
  const char* next = block + (has_minimum ? 4 : 2);
  const std::array<int, 32> numbers = unpack(next + (five ? 4 : 0), five ? next : nullptr);
  const int zero = has_minimum ? 0 : (five ? 16 : 8);
  for (size_t i = 0; i < 32; ++i) {
    out[i] = scale * static_cast<float>(numbers[i] - zero) + minimum;
  }
}

void read_q8_0(const char* block, float* out) {
  const float scale = half_at(block);
  for (int i = 0; i < 32; ++i) {
    out[i] = scale * static_cast<float>(static_cast<signed char>(block[2 + i]));
  }
}

// Eight scales and eight minima of six bits in 12 bytes: the first four of each in the low six bits of bytes 0..3 and
// 4..7, the low halves of the others in bytes 8..11 and their upper two bits above those of the first.
struct ScaleAndMinimum {
  float scale, minimum;
};
ScaleAndMinimum packed_scale(const char* packed, int index) {
  if (index < 4) {
    return {static_cast<float>(byte_at(packed + index) & 63), static_cast<float>(byte_at(packed + index + 4) & 63)};
  }
  const uint8_t low = byte_at(packed + index + 4);
  return {static_cast<float>((low & 15) | (byte_at(packed + index - 4) >> 6) << 4),
          static_cast<float>((low >> 4) | (byte_at(packed + index) >> 6) << 4)};
}

// Q4_K and Q5_K: half scale of scales, half scale of minima, 12 bytes as above, 32 bytes of fifth bits (Q5_K only), 128
// bytes. Every 32 bytes hold two groups of 32 numbers, the first in the low halves.
void read_k_block(bool five, const char* block, float* out) {
  const float scale_of_scales = half_at(block);
  const float scale_of_minima = half_at(block + 2);
  const char* fifth = block + 16;
  const char* nibbles = block + (five ? 48 : 16);
  for (int group = 0; group < 8; ++group) {
    const ScaleAndMinimum packed = packed_scale(block + 4, group);
    const float scale = scale_of_scales * packed.scale;
    const float minimum = scale_of_minima * packed.minimum;
    const char* from = nibbles + group / 2 * 32;
    for (int i = 0; i < 32; ++i) {
      int number = group % 2 == 0 ? byte_at(from + i) & 15 : byte_at(from + i) >> 4;
      if (five) {
        number |= (byte_at(fifth + i) >> group & 1) << 4;
      }
      *out++ = scale * static_cast<float>(number) - minimum;
    }
  }
}

// 128 bytes of low halves, 64 of upper pairs of bits, 16 signed scales, half scale of scales. Each half of the block is
// four runs of 32 numbers: two in the low halves of 64 bytes, two in the high ones.
void read_q6_k(const char* block, float* out) {
  const float scale_of_scales = half_at(block + 208);
  for (int half = 0; half < 2; ++half) {
    const char* low = block + half * 64;
    const char* high = block + 128 + half * 32;
    const char* scales = block + 192 + half * 8;
    for (int run = 0; run < 4; ++run) {
      for (int i = 0; i < 32; ++i) {
        const uint8_t byte = byte_at(low + (run % 2) * 32 + i);
        const int number = ((run < 2 ? byte & 15 : byte >> 4) | (byte_at(high + i) >> (2 * run) & 3) << 4) - 32;
        const auto scale = static_cast<float>(static_cast<signed char>(scales[2 * run + i / 16]));
        *out++ = scale_of_scales * scale * static_cast<float>(number);
      }
    }
  }
}

void read_block(uint32_t type, const char* block, float* out) {
  switch (type) {
    case kF16:
      *out = half_at(block);
      return;
    case kBF16:
      *out = brain_to_float(bits16(block));
      return;
    case kQ8_0:
      read_q8_0(block, out);
      return;
    case kQ4_K:
    case kQ5_K:
      read_k_block(type == kQ5_K, block, out);
      return;
    case kQ6_K:
      read_q6_k(block, out);
      return;
    default:
      read_small_block(type, block, out);
  }
}

}  // namespace

const GgufFormat* gguf_format(uint32_t type) {
  for (const GgufFormat& format : kFormats) {
    if (format.type == type) {
      return &format;
    }
  }
  return nullptr;
}

std::string gguf_type_name(uint32_t type) {
  if (const GgufFormat* format = gguf_format(type)) {
    return format->name;
  }
  for (const auto& [other, name] : kOtherNames) {
    if (other == type) {
      return name;
    }
  }
  return "ggml type " + std::to_string(type);
}

void read_blocks(const GgufFormat& format, std::string_view blocks, std::span<float> out) {
  if (format.type == kF32) {
    std::memcpy(out.data(), blocks.data(), out.size_bytes());
    return;
  }
  const char* block = blocks.data();
  for (size_t i = 0; i < out.size(); i += static_cast<size_t>(format.elements), block += format.bytes) {
    read_block(format.type, block, &out[i]);
  }
}

}  // namespace khost::trainer
