// How far an element of an output may be from what the reference returned: the one rule of host and device.
//
//   exact   got == expected
//   table   |got - expected| <= ulps * ulp(expected) + bounds[b], with ulp(expected) the distance of neighbouring
//   numbers of
//           the output's dtype at |expected| and b the biased exponent (0 to 255) of |expected| rounded to float32;
//           what lies
//           beyond float32's range has the bound of its last octave. The table is measured for each task
//           (docs/tolerance.md), so that an element is never judged by what elements of other sizes need.
//   flat    |got - expected| <= atol + rtol * |expected|: the classes `paper` and `strict`, for published comparisons
//
// An element that equals the expected one is right under every rule, infinities of one sign among them; NaN is right
// under none, and an infinity never stands for a finite number. Values, pure functions; any thread, host and device.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#ifdef __CUDACC__
#define KHOST_HOST_DEVICE __host__ __device__
#else
#define KHOST_HOST_DEVICE
#endif

namespace khost::judge {

inline constexpr int kOctaves = 256;

// Of floating-point numbers; integers and booleans are compared by their bytes.
enum class Format : int { f32, f64, f16, bf16 };

struct Tolerance {
  enum class Rule : int { exact, table, flat };
  Rule rule = Rule::exact;
  double ulps = 0;
  double atol = 0, rtol = 0;
  double share = 0;              // of an output's elements that may lie beyond
  double bounds[kOctaves] = {};  // float64 outputs have bounds below what float32 holds

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

// The row of the table for a finite expected value.
KHOST_HOST_DEVICE inline int octave(double expected) {
  const float magnitude = static_cast<float>(fabs(expected));
  std::uint32_t bits;
  memcpy(&bits, &magnitude, sizeof bits);
  const int exponent = static_cast<int>(bits >> 23);
  return exponent < kOctaves - 1 ? exponent : kOctaves - 2;
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

// The largest difference that is still right, for a finite expected value.
KHOST_HOST_DEVICE inline double allowed(const Tolerance& tolerance, double expected, Format format) {
  switch (tolerance.rule) {
    case Tolerance::Rule::exact:
      return 0;
    case Tolerance::Rule::table:
      return tolerance.ulps * ulp(expected, format) + tolerance.bounds[octave(expected)];
    case Tolerance::Rule::flat:
      return tolerance.atol + tolerance.rtol * fabs(expected);
  }
  return 0;
}

KHOST_HOST_DEVICE inline bool accepts(const Tolerance& tolerance, double got, double expected, Format format) {
  if (got == expected) {
    return true;
  }
  // Every comparison with NaN fails, and the difference of an infinity is no finite number.
  const double difference = fabs(got - expected);
  return difference <= 1.7976931348623157e308 && difference <= allowed(tolerance, expected, format);
}

// Of elements drawn at random of which so many are expected to be wrong, at most as many as this may be: eight standard
// deviations and twelve more, which an output that keeps to its share exceeds in fewer than one of 10^12 calls. One
// that is wrong everywhere exceeds it in every call.
inline unsigned wrong_samples(double expected) {
  return static_cast<unsigned>(std::floor(expected + 8 * std::sqrt(expected) + 12));
}

}  // namespace khost::judge
