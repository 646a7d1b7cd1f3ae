#include "sandbox/judge/values/compare.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "sandbox/judge/values/elements.h"

namespace khost::judge {

using sandbox::Manifest;
using sandbox::TensorLeaf;

namespace {

constexpr std::int64_t kExamples = 4;

struct Single {
  static float get(const std::byte* p) { return read_as<float>(p); }
  static constexpr std::int64_t size = 4;
  static constexpr Format format = Format::f32;
};
struct Double {
  static double get(const std::byte* p) { return read_as<double>(p); }
  static constexpr std::int64_t size = 8;
  static constexpr Format format = Format::f64;
};
struct Half {
  static float get(const std::byte* p) { return half_value(read_as<std::uint16_t>(p)); }
  static constexpr std::int64_t size = 2;
  static constexpr Format format = Format::f16;
};
struct Brain {
  static float get(const std::byte* p) { return brain_value(read_as<std::uint16_t>(p)); }
  static constexpr std::int64_t size = 2;
  static constexpr Format format = Format::bf16;
};

// Calls body(flat index, element offset) for every element in row-major order.
template <class F>
void each(const TensorLeaf& leaf, F body) {
  const std::int64_t count = leaf.count();
  if (dense(leaf)) {
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

// Counts elements by where they stand; the place of the first few is worked out later, from the flat index.
struct Wrong {
  // A few elements of one kind. Of untypical ones only those are wanted that are told of.
  struct Kind {
    std::int64_t count = 0;
    double largest = 0;
    std::vector<std::int64_t> flats;
    std::vector<Mismatch::Example> examples;

    void add(std::int64_t flat, double got, double expected) {
      if (count++ < kExamples) {
        flats.push_back(flat);
        examples.push_back({{}, got, expected, 0});
      }
      const double difference = std::abs(got - expected);
      if (!(difference <= largest)) {
        largest = difference;
      }
    }
  };
  Kind wrong, out, untypical;  // `out` are counted as wrong, too
  std::vector<std::int64_t>* excused = nullptr;

  void add(Standing standing, std::int64_t flat, double got, double expected) {
    if (standing == Standing::right) {
      return;
    }
    untypical.add(flat, got, expected);
    if (standing != Standing::untypical) {
      wrong.add(flat, got, expected);
    }
    if (standing == Standing::out) {
      out.add(flat, got, expected);
    }
    if (standing == Standing::beyond && excused != nullptr) {
      excused->push_back(flat);
    }
  }

  std::optional<Mismatch> finish(const TensorLeaf& leaf, const Tolerance& tolerance) {
    const Reproach reproach = reproach_of(tolerance, leaf.count(), {wrong.count, out.count, untypical.count});
    if (reproach == Reproach::none) {
      return std::nullopt;
    }
    Kind& told = reproach == Reproach::wrong ? wrong : reproach == Reproach::out ? out : untypical;
    Mismatch result = mismatch_of(tolerance, leaf.count(), reproach, told.count);
    result.largest = told.largest;
    result.examples = std::move(told.examples);
    const std::optional<Format> format = format_of(leaf.dtype);
    for (std::size_t i = 0; i < told.flats.size(); i++) {
      Mismatch::Example& example = result.examples[i];
      example.at = position_of(leaf.size, told.flats[i]);
      example.allowed = allowed_by(tolerance, reproach, example.expected, format, told.flats[i]);
    }
    return result;
  }
};

// What is right and typical in each octave, where it depends on nothing else: under the rules exact and table with rows
// as float32 has exponents, of formats that have no more of them. Nearly all elements are decided by one look into it;
// what it does not accept is asked of standing(), which knows the rest of the rule.
class Limits {
 public:
  Limits(const Tolerance& tolerance, Format format)
      : usable_(tolerance.rule != Tolerance::Rule::flat && tolerance.row == Tolerance::Row::octave &&
                tolerance.first == -127 && tolerance.step == 1 && format != Format::f64) {
    for (int i = 0; i < kOctaves - 1 && usable_; i++) {
      const double expected = i == 0 ? 0 : std::ldexp(1.0, i - 127);
      limits_[i] = allowed(tolerance, expected, format);
      if (tolerance.typical_share < 1) {
        limits_[i] = std::min(limits_[i], tolerance.ulps * ulp(expected, format) + tolerance.typical[i]);
      }
    }
    limits_[kOctaves - 1] = -1;
  }
  bool usable() const { return usable_; }
  bool accept(float got, float expected) const {
    std::uint32_t bits;
    std::memcpy(&bits, &expected, sizeof bits);
    return std::abs(static_cast<double>(got) - static_cast<double>(expected)) <= limits_[bits >> 23 & 255];
  }

 private:
  bool usable_;
  double limits_[kOctaves] = {};
};

// The reference's outputs are contiguous; the candidate's may be strided.
template <class Kind>
std::optional<Mismatch> compare_floats(const TensorLeaf& got, const std::byte* g, const TensorLeaf& expected,
                                       const std::byte* e, const Tolerance& tolerance,
                                       std::vector<std::int64_t>* excused) {
  Wrong wrong;
  wrong.excused = excused;
  const Limits limits(tolerance, Kind::format);
  each(got, [&](std::int64_t flat, std::int64_t offset) {
    const auto a = Kind::get(g + offset * Kind::size);
    const auto b = Kind::get(e + (expected.offset + flat) * Kind::size);
    if constexpr (Kind::format != Format::f64) {
      if (limits.usable() && limits.accept(a, b)) {
        return;
      }
    }
    wrong.add(standing(tolerance, a, b, Kind::format, flat), flat, a, b);
  });
  return wrong.finish(got, tolerance);
}

std::optional<Mismatch> compare_bytes(const TensorLeaf& got, const std::byte* g, const TensorLeaf& expected,
                                      const std::byte* e, const Tolerance& tolerance,
                                      std::vector<std::int64_t>* excused) {
  const std::size_t size = sandbox::dtype_bytes(got.dtype);
  Wrong wrong;
  wrong.excused = excused;
  each(got, [&](std::int64_t flat, std::int64_t offset) {
    const std::byte* a = g + static_cast<std::size_t>(offset) * size;
    const std::byte* b = e + static_cast<std::size_t>(expected.offset + flat) * size;
    if (std::memcmp(a, b, size) != 0) {
      const double mine = number_of(got.dtype, a), theirs = number_of(got.dtype, b);
      wrong.add(differing(tolerance, mine, theirs), flat, mine, theirs);
    }
  });
  return wrong.finish(got, tolerance);
}

std::uint64_t next(std::uint64_t& state) {
  std::uint64_t z = (state += 0x9e3779b97f4a7c15ull);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

std::optional<Mismatch> compare_leaf(const TensorLeaf& mine, const std::byte* g, const TensorLeaf& theirs,
                                     const std::byte* e, const Tolerance& tolerance,
                                     std::vector<std::int64_t>* excused) {
  const std::optional<Format> format = format_of(mine.dtype);
  if (!format) {
    return compare_bytes(mine, g, theirs, e, tolerance, excused);
  }
  switch (*format) {
    case Format::f32:
      return compare_floats<Single>(mine, g, theirs, e, tolerance, excused);
    case Format::f64:
      return compare_floats<Double>(mine, g, theirs, e, tolerance, excused);
    case Format::f16:
      return compare_floats<Half>(mine, g, theirs, e, tolerance, excused);
    case Format::bf16:
      return compare_floats<Brain>(mine, g, theirs, e, tolerance, excused);
  }
  return std::nullopt;
}

// One side's outputs.
struct Side {
  const Manifest& manifest;
  const std::byte* memory;

  const std::byte* of(const TensorLeaf& leaf) const { return memory + manifest.storages[leaf.storage].offset; }
};

std::vector<Mismatch> compare_up_to(std::size_t most, const Side& got, const Side& expected,
                                    const std::vector<Tolerance>& tolerance, Excused* excused) {
  std::vector<Mismatch> found;
  if (excused != nullptr) {
    excused->assign(expected.manifest.tensors.size(), {});
  }
  for (std::size_t i = 0; i < expected.manifest.tensors.size() && found.size() < most; i++) {
    const TensorLeaf& mine = got.manifest.tensors[i];
    const TensorLeaf& theirs = expected.manifest.tensors[i];
    std::vector<std::int64_t>* const places = excused != nullptr && tolerance[i].share > 0 ? &(*excused)[i] : nullptr;
    std::optional<Mismatch> wrong = compare_leaf(mine, got.of(mine), theirs, expected.of(theirs), tolerance[i], places);
    if (wrong) {
      wrong->output = theirs.path;
      found.push_back(std::move(*wrong));
    }
  }
  return found;
}

}  // namespace

std::optional<Format> format_of(const std::string& dtype) {
  if (dtype == "float32") {
    return Format::f32;
  }
  if (dtype == "float64") {
    return Format::f64;
  }
  if (dtype == "float16") {
    return Format::f16;
  }
  return dtype == "bfloat16" ? std::optional(Format::bf16) : std::nullopt;
}

std::optional<Mismatch> compare(const Manifest& got, const std::byte* got_memory, const Manifest& expected,
                                const std::byte* expected_memory, const std::vector<Tolerance>& tolerance) {
  auto found = compare_up_to(1, {got, got_memory}, {expected, expected_memory}, tolerance, nullptr);
  return found.empty() ? std::nullopt : std::optional(std::move(found.front()));
}

std::vector<Mismatch> compare_all(const Manifest& got, const std::byte* got_memory, const Manifest& expected,
                                  const std::byte* expected_memory, const std::vector<Tolerance>& tolerance,
                                  Excused* excused) {
  return compare_up_to(expected.tensors.size(), {got, got_memory}, {expected, expected_memory}, tolerance, excused);
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
