// Elements of tensors on the host: the number behind an element's bytes, and where an element stands. Pure functions,
// any thread.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "sandbox/abi/manifest.h"

namespace khost::judge {

template <class T>
T read_as(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

inline float half_value(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits >> 15) << 31;
  const std::uint32_t exponent = (bits >> 10) & 31u;
  const std::uint32_t fraction = bits & 1023u;
  if (exponent == 0) {
    const float tiny = std::ldexp(static_cast<float>(fraction), -24);
    return sign != 0 ? -tiny : tiny;
  }
  const std::uint32_t wide =
      exponent == 31 ? sign | 0x7f800000u | fraction << 13 : sign | (exponent + 112) << 23 | fraction << 13;
  return read_as<float>(reinterpret_cast<const std::byte*>(&wide));
}

inline float brain_value(std::uint16_t bits) {
  const std::uint32_t wide = static_cast<std::uint32_t>(bits) << 16;
  return read_as<float>(reinterpret_cast<const std::byte*>(&wide));
}

// As a double; of 64-bit integers the nearest one.
double number_of(const std::string& dtype, const std::byte* element);

// Whether a tensor's elements lie one behind the other in row-major order.
bool dense(const sandbox::TensorLeaf& leaf);

// The indices of an element in row-major order.
std::vector<std::int64_t> position_of(const std::vector<std::int64_t>& size, std::int64_t flat);

}  // namespace khost::judge
