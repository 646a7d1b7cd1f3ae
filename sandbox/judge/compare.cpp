#include "sandbox/judge/compare.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <sstream>

namespace khost::judge {

using sandbox::Manifest;
using sandbox::TensorLeaf;

namespace {

constexpr std::int64_t kExamples = 4;

float from_bits(std::uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

float half_value(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits >> 15) << 31;
  const std::uint32_t exponent = (bits >> 10) & 31u;
  const std::uint32_t fraction = bits & 1023u;
  if (exponent == 31) {
    return from_bits(sign | 0x7f800000u | fraction << 13);
  }
  if (exponent == 0) {
    const float tiny = std::ldexp(static_cast<float>(fraction), -24);
    return sign != 0 ? -tiny : tiny;
  }
  return from_bits(sign | (exponent + 112) << 23 | fraction << 13);
}

template <class T>
T read(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

struct Single {
  static double get(const std::byte* p) { return read<float>(p); }
  static constexpr std::size_t size = 4;
};
struct Double {
  static double get(const std::byte* p) { return read<double>(p); }
  static constexpr std::size_t size = 8;
};
struct Half {
  static double get(const std::byte* p) { return half_value(read<std::uint16_t>(p)); }
  static constexpr std::size_t size = 2;
};
struct Brain {
  static double get(const std::byte* p) { return from_bits(static_cast<std::uint32_t>(read<std::uint16_t>(p)) << 16); }
  static constexpr std::size_t size = 2;
};

bool contiguous(const TensorLeaf& leaf) {
  std::int64_t step = 1;
  for (std::size_t d = leaf.size.size(); d-- > 0;) {
    if (leaf.size[d] != 1 && leaf.stride[d] != step) {
      return false;
    }
    step *= leaf.size[d];
  }
  return true;
}

std::vector<std::int64_t> position(const TensorLeaf& leaf, std::int64_t flat) {
  std::vector<std::int64_t> at(leaf.size.size());
  for (std::size_t d = leaf.size.size(); d-- > 0;) {
    at[d] = flat % leaf.size[d];
    flat /= leaf.size[d];
  }
  return at;
}

// Calls body(flat index, element offset) for every element in row-major order.
template <class F>
void each(const TensorLeaf& leaf, F body) {
  const std::int64_t count = leaf.count();
  if (contiguous(leaf)) {
    for (std::int64_t i = 0; i < count; i++) {
      body(i, leaf.offset + i);
    }
    return;
  }
  std::vector<std::int64_t> at(leaf.size.size(), 0);
  std::int64_t offset = leaf.offset;
  for (std::int64_t i = 0; i < count; i++) {
    body(i, offset);
    for (std::size_t d = at.size(); d-- > 0;) {
      offset += leaf.stride[d];
      if (++at[d] < leaf.size[d]) {
        break;
      }
      offset -= leaf.stride[d] * leaf.size[d];
      at[d] = 0;
    }
  }
}

// Counts a wrong element; the place of the first few is worked out later, from the flat index.
struct Wrong {
  Mismatch result;
  std::vector<std::int64_t> flats;

  void add(std::int64_t flat, double got, double expected) {
    if (result.count++ < kExamples) {
      flats.push_back(flat);
      result.examples.push_back({{}, got, expected});
    }
    const double difference = std::abs(got - expected);
    if (!(difference <= result.largest)) {
      result.largest = difference;
    }
  }

  std::optional<Mismatch> finish(const TensorLeaf& leaf) {
    if (result.count == 0) {
      return std::nullopt;
    }
    for (std::size_t i = 0; i < flats.size(); i++) {
      result.examples[i].at = position(leaf, flats[i]);
    }
    result.at = result.examples[0].at;
    result.got = result.examples[0].got;
    result.expected = result.examples[0].expected;
    return std::move(result);
  }
};

// The reference's outputs are contiguous; the candidate's may be strided.
template <class Kind>
std::optional<Mismatch> compare_floats(const TensorLeaf& got, const std::byte* g, const TensorLeaf& expected,
                                       const std::byte* e, const Tolerance& tolerance) {
  Wrong wrong;
  each(got, [&](std::int64_t flat, std::int64_t offset) {
    const double a = Kind::get(g + offset * static_cast<std::int64_t>(Kind::size));
    const double b = Kind::get(e + (expected.offset + flat) * static_cast<std::int64_t>(Kind::size));
    // In this form every comparison with NaN fails; infinities are equal only to themselves.
    const bool right = std::isfinite(b) ? std::abs(a - b) <= tolerance.atol + tolerance.rtol * std::abs(b) : a == b;
    if (!right) {
      wrong.add(flat, a, b);
    }
  });
  return wrong.finish(got);
}

double integer_value(const std::byte* at, const std::string& dtype, std::size_t size) {
  const bool is_signed = dtype.rfind("int", 0) == 0;
  switch (size) {
    case 1:
      return is_signed ? read<std::int8_t>(at) : read<std::uint8_t>(at);
    case 2:
      return is_signed ? read<std::int16_t>(at) : read<std::uint16_t>(at);
    case 4:
      return is_signed ? static_cast<double>(read<std::int32_t>(at)) : read<std::uint32_t>(at);
    default:
      return is_signed ? static_cast<double>(read<std::int64_t>(at)) : static_cast<double>(read<std::uint64_t>(at));
  }
}

std::optional<Mismatch> compare_exact(const TensorLeaf& got, const std::byte* g, const TensorLeaf& expected,
                                      const std::byte* e) {
  const std::size_t size = sandbox::dtype_bytes(got.dtype);
  Wrong wrong;
  each(got, [&](std::int64_t flat, std::int64_t offset) {
    const std::byte* a = g + static_cast<std::size_t>(offset) * size;
    const std::byte* b = e + static_cast<std::size_t>(expected.offset + flat) * size;
    if (std::memcmp(a, b, size) != 0) {
      wrong.add(flat, integer_value(a, got.dtype, size), integer_value(b, got.dtype, size));
    }
  });
  return wrong.finish(got);
}

std::uint64_t next(std::uint64_t& state) {
  std::uint64_t z = (state += 0x9e3779b97f4a7c15ull);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

}  // namespace

Result<std::vector<Tolerance>> tolerances(const std::string& name, std::size_t outputs,
                                          const std::vector<OutputScale>& scales) {
  if (name == "paper") {
    return std::vector<Tolerance>(outputs, {1e-2, 1e-2});
  }
  if (name == "strict" || (name == "calibrated" && scales.size() != outputs)) {
    return std::vector<Tolerance>(outputs, {1e-4, 1e-4});
  }
  if (name != "calibrated") {
    return Failure{"tolerance is paper, strict or calibrated, not '" + name + "'", "bad_input"};
  }
  std::vector<Tolerance> result;
  for (const OutputScale& scale : scales) {
    result.push_back({std::max({4 * scale.error, 1e-4 * scale.spread, 1e-12}), 1e-4});
  }
  return result;
}

namespace {

void write_place(std::ostream& out, const std::string& output, const std::vector<std::int64_t>& at) {
  out << "output" << (output.empty() ? "" : " " + output) << "[";
  for (std::size_t i = 0; i < at.size(); i++) {
    out << (i > 0 ? ", " : "") << at[i];
  }
  out << "]";
}

std::optional<Mismatch> compare_leaf(const TensorLeaf& mine, const std::byte* g, const TensorLeaf& theirs,
                                     const std::byte* e, const Tolerance& tolerance) {
  if (mine.dtype == "float32") {
    return compare_floats<Single>(mine, g, theirs, e, tolerance);
  }
  if (mine.dtype == "float64") {
    return compare_floats<Double>(mine, g, theirs, e, tolerance);
  }
  if (mine.dtype == "float16") {
    return compare_floats<Half>(mine, g, theirs, e, tolerance);
  }
  if (mine.dtype == "bfloat16") {
    return compare_floats<Brain>(mine, g, theirs, e, tolerance);
  }
  return compare_exact(mine, g, theirs, e);
}

std::vector<Mismatch> compare_up_to(std::size_t most, const Manifest& got, const std::byte* got_memory,
                                    const Manifest& expected, const std::byte* expected_memory,
                                    const std::vector<Tolerance>& tolerance) {
  std::vector<Mismatch> found;
  for (std::size_t i = 0; i < expected.tensors.size() && found.size() < most; i++) {
    const TensorLeaf& mine = got.tensors[i];
    const TensorLeaf& theirs = expected.tensors[i];
    std::optional<Mismatch> wrong =
        compare_leaf(mine, got_memory + got.storages[mine.storage].offset, theirs,
                     expected_memory + expected.storages[theirs.storage].offset, tolerance[i]);
    if (wrong) {
      wrong->output = theirs.path;
      wrong->total = theirs.count();
      found.push_back(std::move(*wrong));
    }
  }
  return found;
}

}  // namespace

std::string Mismatch::text() const {
  std::ostringstream out;
  out.precision(8);
  write_place(out, output, at);
  out << " is " << got << ", expected " << expected << "; " << count << " of " << total << " elements are wrong";
  return out.str();
}

std::string Mismatch::report() const {
  std::ostringstream out;
  out.precision(8);
  out << "output" << (output.empty() ? "" : " " + output) << ": " << count << " of " << total
      << " elements are wrong, the largest difference is " << largest << "\n";
  for (const Example& example : examples) {
    out << "  ";
    write_place(out, output, example.at);
    out << " is " << example.got << ", expected " << example.expected << "\n";
  }
  return out.str();
}

std::optional<Mismatch> compare(const Manifest& got, const std::byte* got_memory, const Manifest& expected,
                                const std::byte* expected_memory, const std::vector<Tolerance>& tolerance) {
  auto found = compare_up_to(1, got, got_memory, expected, expected_memory, tolerance);
  return found.empty() ? std::nullopt : std::optional(std::move(found.front()));
}

std::vector<Mismatch> compare_all(const Manifest& got, const std::byte* got_memory, const Manifest& expected,
                                  const std::byte* expected_memory, const std::vector<Tolerance>& tolerance) {
  return compare_up_to(expected.tensors.size(), got, got_memory, expected, expected_memory, tolerance);
}

void poison(const Manifest& outputs, std::byte* memory, std::size_t bytes, std::uint64_t seed) {
  const std::uint64_t nan_bits = 0x7fc000007fc00000ull;
  const bool nans = (seed & 1) != 0;  // quiet NaN with random payloads, or any bits
  for (std::size_t at = 0; at + 8 <= bytes; at += 8) {
    const std::uint64_t word = next(seed);
    const std::uint64_t value = nans ? word | nan_bits : word;
    std::memcpy(memory + at, &value, 8);
  }
  for (const TensorLeaf& leaf : outputs.tensors) {
    if (leaf.dtype == "bool") {
      const sandbox::Storage& storage = outputs.storages[leaf.storage];
      for (std::size_t i = 0; i < storage.bytes; i++) {
        memory[storage.offset + i] |= std::byte{2};
      }
    }
  }
}

}  // namespace khost::judge
