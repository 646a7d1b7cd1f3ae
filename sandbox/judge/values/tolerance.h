// How far an element of an output may be from what the reference returned: the one rule of host and device.
//
//   exact   got == expected
//   table   |got - expected| <= ulps * ulp(expected) + rtol * |expected| + bounds[b], with ulp(expected) the distance
//           of neighbouring numbers of the output's dtype at |expected| and b the row of the element: that of the
//           binary exponent of |expected| (octave), or, of small outputs whose elements measure different things, the
//           flat index of the element. The table is measured for each task (docs/tolerance.md), so that an element is
//           never judged by what elements of other sizes need.
//   flat    |got - expected| <= atol + rtol * |expected|: the classes `paper` and `strict`, for published comparisons
//
// Of an output's elements a share may lie beyond their bounds, where the reference itself does not decide them, but
// never farther off than the cap. And only a share of them may lie beyond the second table, `typical`, which holds what
// half of the elements of an octave keep to.
//
// An element that equals the expected one is right under every rule, infinities of one sign among them; NaN is right
// under none, and an infinity stands for a finite number, or one for it, only beyond a pole: a size from which numbers
// are no larger than their bounds. Values, pure functions; any thread, host and device.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#ifdef __CUDACC__
#define KHOST_HOST_DEVICE __host__ __device__
#else
#define KHOST_HOST_DEVICE
#endif

namespace khost::judge {

inline constexpr int kOctaves = 256;
inline constexpr double kLargestNumber = 1.7976931348623157e308;

// Of floating-point numbers; integers and booleans are compared by their bytes.
enum class Format : int { f32, f64, f16, bf16 };

// Where an element stands. `untypical`: right, but beyond the second table; `beyond`: wrong, unless a share excuses it;
// `out`: wrong whatever the share is.
enum class Standing : int { right, untypical, beyond, out };

struct Tolerance {
  enum class Rule : int { exact, table, flat };
  enum class Row : int { octave, element };
  Rule rule = Rule::exact;
  Row row = Row::octave;
  int first = -127, step = 1;  // the exponent of row 0, and exponents a row
  double ulps = 0;
  double atol = 0, rtol = 0;
  double share = 0;                                       // of an output's elements that may lie beyond ...
  double cap = std::numeric_limits<double>::infinity();   // ... by at most this difference
  double pole = std::numeric_limits<double>::infinity();  // from this size numbers and infinities stand for each other
  std::int64_t always = 0;  // of them lie beyond in every set, since the reference does not decide them; ...
  bool at_ends = false;     // ... some of these at an end of the output
  // How many jumps of the reference a set has on average, each with all the elements that it takes along; infinite
  // where that is not known.
  double jumps = std::numeric_limits<double>::infinity();
  double typical_share = 1;      // of them that may lie beyond `typical`; 1: all
  double bounds[kOctaves] = {};  // float64 outputs have bounds below what float32 holds
  double typical[kOctaves] = {};

  static Tolerance flat(double atol, double rtol) {
    Tolerance result;
    result.rule = Rule::flat;
    result.atol = atol;
    result.rtol = rtol;
    return result;
  }
  // How many of so many elements may lie beyond.
  std::int64_t beyond(std::int64_t elements) const {
    return static_cast<std::int64_t>(std::floor(share * static_cast<double>(elements)));
  }
  // How many of so many elements may lie beyond the second table.
  std::int64_t untypical(std::int64_t elements) const {
    return static_cast<std::int64_t>(std::floor(typical_share * static_cast<double>(elements)));
  }
};

namespace rule {

KHOST_HOST_DEVICE inline std::uint64_t bits_of(double value) {
  std::uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

KHOST_HOST_DEVICE inline double from_bits(std::uint64_t bits) {
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

}  // namespace rule

// The row of a table by octaves for a finite expected value: 0 to 254, zeros and all that is smaller than the first
// row's numbers in row 0.
KHOST_HOST_DEVICE inline int octave(const Tolerance& tolerance, double expected) {
  const int exponent = static_cast<int>(rule::bits_of(expected) >> 52 & 0x7ff) - 1023;
  const int row = exponent < tolerance.first ? 0 : (exponent - tolerance.first) / tolerance.step;
  return row < kOctaves - 1 ? row : kOctaves - 2;
}

// The distance from |expected|, finite, to the next larger number of the format (the last step below an infinity); near
// zero that of its subnormal numbers.
KHOST_HOST_DEVICE inline double ulp(double expected, Format format) {
  const int digits = format == Format::f64 ? 52 : format == Format::f32 ? 23 : format == Format::f16 ? 10 : 7;
  const int least = format == Format::f64 ? -1022 : format == Format::f16 ? -14 : -126;
  const int exponent = static_cast<int>(rule::bits_of(expected) >> 52 & 0x7ff) - 1023;
  const int step = (exponent < least ? least : exponent) - digits;  // a power of two
  return step >= -1022 ? rule::from_bits(static_cast<std::uint64_t>(step + 1023) << 52)
                       : rule::from_bits(std::uint64_t{1} << (step + 1074));
}

// The row of an element with this flat index.
KHOST_HOST_DEVICE inline int row_of(const Tolerance& tolerance, double expected, std::int64_t flat) {
  if (tolerance.row == Tolerance::Row::octave) {
    return octave(tolerance, expected);
  }
  return static_cast<int>(flat < kOctaves ? flat : kOctaves - 1);
}

// The largest difference that is still right, for a finite expected value.
KHOST_HOST_DEVICE inline double allowed(const Tolerance& tolerance, double expected, Format format,
                                        std::int64_t flat = 0) {
  switch (tolerance.rule) {
    case Tolerance::Rule::exact:
      return 0;
    case Tolerance::Rule::table:
      return tolerance.ulps * ulp(expected, format) + tolerance.rtol * fabs(expected) +
             tolerance.bounds[row_of(tolerance, expected, flat)];
    case Tolerance::Rule::flat:
      return tolerance.atol + tolerance.rtol * fabs(expected);
  }
  return 0;
}

// Whether one of both is an infinity, and the other of a size that the reference does not decide.
KHOST_HOST_DEVICE inline bool beside_infinity(const Tolerance& tolerance, double got, double expected) {
  const double mine = fabs(got), theirs = fabs(expected);
  return tolerance.pole <= kLargestNumber && mine >= tolerance.pole && theirs >= tolerance.pole &&
         (mine > kLargestNumber || theirs > kLargestNumber);
}

// What becomes of a difference that is not right. That of NaN is none, and is never excused.
KHOST_HOST_DEVICE inline Standing excused(const Tolerance& tolerance, double difference) {
  return difference <= tolerance.cap ? Standing::beyond : Standing::out;
}

KHOST_HOST_DEVICE inline Standing standing(const Tolerance& tolerance, double got, double expected, Format format,
                                           std::int64_t flat = 0) {
  if (got == expected) {
    return Standing::right;
  }
  // Every comparison with NaN fails, and the difference of an infinity is no finite number.
  const double difference = fabs(got - expected);
  if (!(difference <= kLargestNumber && difference <= allowed(tolerance, expected, format, flat))) {
    return beside_infinity(tolerance, got, expected) ? Standing::right : excused(tolerance, difference);
  }
  const bool typical =
      tolerance.typical_share >= 1 ||
      difference <= tolerance.ulps * ulp(expected, format) + tolerance.typical[row_of(tolerance, expected, flat)];
  return typical ? Standing::right : Standing::untypical;
}

// Of integers and booleans, which are compared by their bytes: what becomes of two that differ.
KHOST_HOST_DEVICE inline Standing differing(const Tolerance& tolerance, double got, double expected) {
  return excused(tolerance, fabs(got - expected));
}

// Of elements drawn at random of which so many are expected to be wrong, at most as many as this may be: eight standard
// deviations and twelve more, which an output that keeps to its share exceeds in fewer than one of 10^12 calls. One
// that is wrong everywhere exceeds it in every call.
inline unsigned wrong_samples(double expected) {
  return static_cast<unsigned>(std::floor(expected + 8 * std::sqrt(expected) + 12));
}

}  // namespace khost::judge
