#include "sandbox/judge/values/compare.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>

#include "sandbox/judge/values/elements.h"

namespace khost::judge {
namespace {

using sandbox::Manifest;

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

Manifest one_tensor(const char* dtype, std::vector<std::int64_t> size, std::vector<std::int64_t> stride,
                    std::size_t bytes, std::int64_t offset = 0) {
  return Manifest::parse({{"storages", {{{"bytes", bytes}, {"offset", 0}}}},
                          {"tree",
                           {{"kind", "tensor"},
                            {"storage", 0},
                            {"dtype", dtype},
                            {"size", size},
                            {"stride", stride},
                            {"offset", offset}}}})
      .value();
}

// The rule of the table with the same bound everywhere.
Tolerance table(double ulps, double bound) {
  Tolerance result;
  result.rule = Tolerance::Rule::table;
  result.ulps = ulps;
  std::fill(std::begin(result.bounds), std::end(result.bounds), bound);
  return result;
}

Tolerance with_share(Tolerance tolerance, double share) {
  tolerance.share = share;
  return tolerance;
}

bool is_right(Standing standing) {
  return standing == Standing::right || standing == Standing::untypical;
}

template <class T>
std::optional<Mismatch> compare_values(const char* dtype, const std::vector<T>& got, const std::vector<T>& expected,
                                       const Tolerance& tolerance) {
  const auto count = static_cast<std::int64_t>(got.size());
  const Manifest manifest = one_tensor(dtype, {count}, {1}, got.size() * sizeof(T));
  return compare(manifest, reinterpret_cast<const std::byte*>(got.data()), manifest,
                 reinterpret_cast<const std::byte*>(expected.data()), {tolerance});
}

TEST_CASE("a flat class allows atol plus rtol of the expected value") {
  const Tolerance tolerance = Tolerance::flat(1e-3, 1e-2);
  CHECK_FALSE(compare_values<double>("float64", {100.999}, {100}, tolerance));
  CHECK(compare_values<double>("float64", {101.002}, {100}, tolerance));
  // the expected value carries rtol, not the candidate's
  CHECK(compare_values<double>("float64", {1000}, {900}, tolerance));
  CHECK(compare_values<double>("float64", {1e9}, {0}, tolerance));
}

TEST_CASE("a table's bound is that of the expected value's octave, from its first number to its last") {
  Tolerance tolerance = table(0, 0);
  tolerance.bounds[127] = 0.25f;  // [1, 2)
  tolerance.bounds[128] = 0.5f;   // [2, 4)
  const float last = std::nextafter(2.0f, 0.0f);
  CHECK(octave(tolerance, 1.0) == 127);
  CHECK(octave(tolerance, -static_cast<double>(last)) == 127);
  CHECK(octave(tolerance, 2.0) == 128);
  CHECK(octave(tolerance, std::nextafter(2.0, 0.0)) == 127);
  CHECK_FALSE(compare_values<float>("float32", {1.25f}, {1}, tolerance));
  CHECK(compare_values<float>("float32", {1.2500001f}, {1}, tolerance));
  CHECK_FALSE(compare_values<float>("float32", {-last + 0.25f}, {-last}, tolerance));
  CHECK_FALSE(compare_values<float>("float32", {2.5f}, {2}, tolerance));
  CHECK(compare_values<float>("float32", {2.75f}, {2}, tolerance));
  CHECK(
      compare_values<float>("float32", {0.9f}, {std::nextafter(1.0f, 0.0f)}, tolerance));  // an octave without a bound
  CHECK(octave(tolerance, 0) == 0);
  CHECK(octave(tolerance, 1e-40) == 0);
  CHECK(octave(tolerance, 3.4e38) == 254);
  CHECK(octave(tolerance, 1e300) == 254);
  CHECK(octave(tolerance, 1e-300) == 0);
}

TEST_CASE("an ulp is the distance of neighbouring numbers of the output's own dtype") {
  for (const float value : {1.0f, 1.5f, 1024.0f, 3.0e38f, 1.1754944e-38f, 1e-42f, 0.0f}) {
    CAPTURE(value);
    const float next =
        std::nextafter(value, 0.0f) == value ? std::nextafter(value, 1.0f) : std::nextafter(value, 1e30f);
    const float gap = value < 1e38f ? next - value : value - next;
    CHECK(ulp(value, Format::f32) == static_cast<double>(gap));
    CHECK(ulp(-value, Format::f32) == ulp(value, Format::f32));
  }
  for (const double value : {1.0, 1e300, 2.2250738585072014e-308, 1e-310, 0.0}) {
    CAPTURE(value);
    CHECK(ulp(value, Format::f64) == std::nextafter(value, 1e308) - value);
  }
  CHECK(ulp(1, Format::f16) == std::ldexp(1.0, -10));
  CHECK(ulp(2047, Format::f16) == 1);
  CHECK(ulp(0, Format::f16) == std::ldexp(1.0, -24));
  CHECK(ulp(std::ldexp(1.0, -14), Format::f16) == std::ldexp(1.0, -24));
  CHECK(ulp(1, Format::bf16) == std::ldexp(1.0, -7));
  CHECK(ulp(3, Format::bf16) == std::ldexp(1.0, -6));
  CHECK(ulp(0, Format::bf16) == std::ldexp(1.0, -133));
}

TEST_CASE("so many ulps are right and one more is not, in every format") {
  const Tolerance two = table(2, 0), one = table(1, 0);
  float single = 3, near = single, far;
  for (int i = 0; i < 2; i++) {
    near = std::nextafter(near, 10.0f);
  }
  far = std::nextafter(near, 10.0f);
  CHECK_FALSE(compare_values<float>("float32", {near}, {single}, two));
  CHECK(compare_values<float>("float32", {far}, {single}, two));
  const double wide = 3, two_off = std::nextafter(std::nextafter(wide, 9.0), 9.0);
  CHECK_FALSE(compare_values<double>("float64", {two_off}, {wide}, two));
  CHECK(compare_values<double>("float64", {std::nextafter(two_off, 9.0)}, {wide}, two));
  CHECK_FALSE(compare_values<std::uint16_t>("float16", {0x3c01, 0x0001}, {0x3c00, 0x0000}, one));
  CHECK(compare_values<std::uint16_t>("float16", {0x3c02}, {0x3c00}, one));
  CHECK_FALSE(compare_values<std::uint16_t>("bfloat16", {0x3fee}, {0x3fed}, one));  // 1.859375 for 1.8515625
  CHECK(compare_values<std::uint16_t>("bfloat16", {0x3fef}, {0x3fed}, one));
}

TEST_CASE("a bound of float64 may be smaller than any float32") {
  const Tolerance tolerance = table(0, 1e-54);
  CHECK_FALSE(compare_values<double>("float64", {1.0000000000000002e-39}, {1e-39}, tolerance));
  CHECK(compare_values<double>("float64", {1.1e-39}, {1e-39}, tolerance));
}

TEST_CASE("the comparison of whole outputs decides as the rule does, element by element") {
  std::uint64_t state = 7;
  const auto draw = [&] {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<std::uint32_t>(state >> 32);
  };
  Tolerance tolerance = table(2, 0);
  for (double& bound : tolerance.bounds) {
    bound = std::ldexp(1.0f, static_cast<int>(draw() % 40) - 30);
  }
  int right = 0;
  for (int i = 0; i < 20000; i++) {
    const std::uint32_t bits = draw();
    float expected, got;
    std::memcpy(&expected, &bits, sizeof expected);
    got = i % 3 == 0 ? std::nextafter(std::nextafter(expected, 0.0f), 0.0f) : expected + std::ldexp(1.0f, -20);
    const bool accepted = !compare_values<float>("float32", {got}, {expected}, tolerance);
    CHECK(accepted == is_right(standing(tolerance, got, expected, Format::f32)));
    const auto half = static_cast<std::uint16_t>(bits), near = static_cast<std::uint16_t>(half + bits % 3);
    CHECK(!compare_values<std::uint16_t>("float16", {near}, {half}, tolerance) ==
          is_right(standing(tolerance, half_value(near), half_value(half), Format::f16)));
    CHECK(!compare_values<std::uint16_t>("bfloat16", {near}, {half}, tolerance) ==
          is_right(standing(tolerance, brain_value(near), brain_value(half), Format::bf16)));
    right += accepted ? 1 : 0;
  }
  CHECK(right > 2000);
  CHECK(right < 19500);
}

TEST_CASE("NaN is never equal, not even to NaN, and an infinity only to itself") {
  for (const Tolerance& tolerance : {Tolerance::flat(1e30, 1), table(2, 1e30f), Tolerance()}) {
    CHECK(compare_values<float>("float32", {NAN}, {1}, tolerance));
    CHECK(compare_values<float>("float32", {NAN}, {NAN}, tolerance));
    CHECK(compare_values<float>("float32", {1}, {NAN}, tolerance));
    CHECK(compare_values<float>("float32", {INFINITY}, {1e38f}, tolerance));
    CHECK(compare_values<float>("float32", {1e38f}, {INFINITY}, tolerance));
    CHECK(compare_values<float>("float32", {-INFINITY}, {INFINITY}, tolerance));
    CHECK_FALSE(compare_values<float>("float32", {INFINITY, -INFINITY}, {INFINITY, -INFINITY}, tolerance));
    CHECK_FALSE(compare_values<float>("float32", {0.0f}, {-0.0f}, tolerance));
    CHECK(compare_values<double>("float64", {kNone}, {0}, tolerance));
  }
}

TEST_CASE("beyond a pole infinities of either sign and numbers stand for each other, and NaN for nothing") {
  Tolerance tolerance = table(2, 1e-6f);
  tolerance.pole = 1e6;
  for (const float infinity : {INFINITY, -INFINITY}) {
    for (const float size : {1e6f, -1e6f, 3e38f}) {
      CHECK_FALSE(compare_values<float>("float32", {infinity}, {size}, tolerance));
      CHECK_FALSE(compare_values<float>("float32", {size}, {infinity}, tolerance));
    }
    CHECK(compare_values<float>("float32", {infinity}, {9e5f}, tolerance));
    CHECK(compare_values<float>("float32", {0}, {infinity}, tolerance));
    CHECK(compare_values<float>("float32", {NAN}, {infinity}, tolerance));
    CHECK(compare_values<float>("float32", {infinity}, {NAN}, tolerance));
    CHECK_FALSE(compare_values<float>("float32", {-infinity}, {infinity}, tolerance));
  }
  CHECK(compare_values<float>("float32", {2e6f}, {1e6f}, tolerance));
}

TEST_CASE("integers are exact, whatever the bounds are, and a boolean byte is 0 or 1") {
  CHECK_FALSE(compare_values<std::int64_t>("int64", {4000, -1}, {4000, -1}, Tolerance()));
  CHECK(compare_values<std::int64_t>("int64", {4001}, {4000}, table(8, 1e3f)));
  CHECK_FALSE(compare_values<std::uint8_t>("bool", {1, 0}, {1, 0}, Tolerance()));
  CHECK(compare_values<std::uint8_t>("bool", {2}, {1}, Tolerance()));
  CHECK(compare_values<std::uint8_t>("bool", {0xff}, {1}, Tolerance()));
}

TEST_CASE("a share of the elements may lie beyond, rounded down, and one more is wrong") {
  const std::vector<std::int64_t> expected(150, 7);
  std::vector<std::int64_t> got = expected;
  got[3] = 8;
  CHECK(compare_values("int64", got, expected, Tolerance()));
  CHECK_FALSE(compare_values("int64", got, expected, with_share(Tolerance(), 0.01)));  // 1.5 of 150
  got[149] = 8;
  const auto wrong = compare_values("int64", got, expected, with_share(Tolerance(), 0.01));
  REQUIRE(wrong);
  CHECK(wrong->count == 2);
  CHECK(wrong->beyond == 1);
  CHECK(wrong->text() ==
        "output[3] is 8, expected 7; |difference| 1, allowed 0; 2 of 150 elements are wrong, where 1 may be");
  std::vector<float> floats(150, 1), steps(150, 1);
  steps[7] = 2;
  CHECK(compare_values("float32", steps, floats, table(2, 0)));
  CHECK_FALSE(compare_values("float32", steps, floats, with_share(table(2, 0), 0.01)));
}

TEST_CASE("what a share excuses is never farther off than the cap, and never NaN") {
  Tolerance integers = with_share(Tolerance(), 0.1), floats = with_share(table(2, 0), 0.1);
  integers.cap = floats.cap = 2;
  const std::vector<std::int8_t> levels(100, 127);
  std::vector<std::int8_t> rounded = levels, wrapped = levels;
  rounded[5] = 126;
  wrapped[5] = -128;
  CHECK_FALSE(compare_values("int8", rounded, levels, integers));
  const auto wrong = compare_values("int8", wrapped, levels, integers);
  REQUIRE(wrong);
  CHECK(wrong->text() ==
        "output[5] is -128, expected 127; |difference| 255, allowed 2; 1 of 100 elements are farther off than a jump "
        "of the reference's");
  const std::vector<float> steps(100, 1);
  for (const auto& [value, excused] : {std::pair(3.0f, true), {3.5f, false}, {-INFINITY, false}, {NAN, false}}) {
    CAPTURE(value);
    std::vector<float> got = steps;
    got[99] = value;
    CHECK(!compare_values("float32", got, steps, floats) == excused);
    CHECK(standing(floats, value, 1, Format::f32) == (excused ? Standing::beyond : Standing::out));
  }
  floats.cap = std::numeric_limits<double>::infinity();
  CHECK(standing(floats, INFINITY, 1, Format::f32) == Standing::beyond);
  CHECK(standing(floats, NAN, 1, Format::f32) == Standing::out);
}

TEST_CASE("of elements that are right only a share may lie beyond what is typical of their octave") {
  for (const auto& [dtype, step] : {std::pair("float32", -127), {"float64", -400}}) {
    CAPTURE(dtype);
    Tolerance tolerance = table(2, 0.5);
    tolerance.first = step;
    tolerance.typical_share = 0.5;
    tolerance.typical[octave(tolerance, 1)] = 0.125;
    const std::vector<double> expected(100, 1);
    std::vector<double> got = expected;
    std::fill(got.begin(), got.begin() + 50, 1.25);
    std::fill(got.begin() + 50, got.end(), 1.125);
    const auto look = [&] {
      return dtype == std::string("float64")
                 ? compare_values(dtype, got, expected, tolerance)
                 : compare_values(dtype, std::vector<float>(got.begin(), got.end()),
                                  std::vector<float>(expected.begin(), expected.end()), tolerance);
    };
    CHECK_FALSE(look());
    got[99] = 0.75;
    const auto wrong = look();
    REQUIRE(wrong);
    CHECK(wrong->count == 51);
    CHECK(wrong->text().find("51 of 100 elements are less exact than is typical of the reference, where 50 may be") !=
          std::string::npos);
  }
}

TEST_CASE("rows of float64 begin where they are told to, several exponents a row") {
  Tolerance tolerance = table(0, 0);
  tolerance.first = -900;
  tolerance.step = 4;
  CHECK(octave(tolerance, 0) == 0);
  CHECK(octave(tolerance, std::ldexp(1.0, -901)) == 0);
  CHECK(octave(tolerance, std::ldexp(1.9, -897)) == 0);
  CHECK(octave(tolerance, std::ldexp(-1.0, -896)) == 1);
  CHECK(octave(tolerance, 1e300) == 254);
  tolerance.bounds[1] = 1e-269;
  CHECK(compare_values<double>("float64", {0}, {std::ldexp(1.0, -897)}, tolerance));
  CHECK_FALSE(compare_values<double>("float64", {0}, {std::ldexp(1.0, -896)}, tolerance));
}

TEST_CASE("an element of a small output has a bound of its own, and a part of its size") {
  Tolerance tolerance = table(0, 0);
  tolerance.row = Tolerance::Row::element;
  tolerance.bounds[1] = 0.5;
  tolerance.rtol = 0.125;
  CHECK_FALSE(compare_values<float>("float32", {1.125f, 1.5f}, {1, 1}, tolerance));
  const auto wrong = compare_values<float>("float32", {1.25f, 1.5f}, {1, 1}, tolerance);
  REQUIRE(wrong);
  CHECK(wrong->count == 1);
  CHECK(wrong->examples[0].allowed == 0.125);
}

TEST_CASE("samples of an output with a share leave room for chance, and none of what is wrong everywhere") {
  CHECK(wrong_samples(0.2) >= 12);
  CHECK(wrong_samples(164) > 164 + 8 * 12);
  CHECK(wrong_samples(164) < 16384 / 4);
}

TEST_CASE("half precision is read with its subnormals") {
  CHECK_FALSE(compare_values<std::uint16_t>("float16", {0x3c00, 0x0001}, {0x3c00, 0x0001}, Tolerance()));
  CHECK(compare_values<std::uint16_t>("float16", {0x0001}, {0x0400}, Tolerance::flat(1e-6, 0)));  // 6e-8 against 6e-5
  CHECK(compare_values<std::uint16_t>("bfloat16", {0x3f81}, {0x3f80}, Tolerance::flat(1e-4, 1e-4)));  // a step is 0.8 %
  CHECK_FALSE(compare_values<std::uint16_t>("bfloat16", {0x3f81}, {0x3f80}, Tolerance::flat(1e-2, 0)));
}

TEST_CASE("a mismatch names the first place, what was allowed there, all that are wrong and the largest difference") {
  const Manifest manifest = one_tensor("float32", {2, 3}, {3, 1}, 24);
  const float expected[] = {0, 1, 2, 3, 4, 5};
  const float got[] = {0, 1, 2, 3, 4.5f, 15};
  const auto wrong = compare(manifest, reinterpret_cast<const std::byte*>(got), manifest,
                             reinterpret_cast<const std::byte*>(expected), {table(0, 1.2e-6f)});
  REQUIRE(wrong);
  CHECK(wrong->count == 2);
  CHECK(wrong->total == 6);
  CHECK(wrong->largest == 10);
  REQUIRE(wrong->examples.size() == 2);
  CHECK(wrong->examples[0].at == std::vector<std::int64_t>{1, 1});
  CHECK(wrong->examples[1].at == std::vector<std::int64_t>{1, 2});
  CHECK(wrong->text() ==
        "output[1, 1] is 4.5, expected 4; |difference| 0.5, allowed 1.2e-06; 2 of 6 elements are wrong");
}

TEST_CASE("a mismatch says which inputs are not contiguous") {
  Manifest inputs = one_tensor("float32", {3, 2}, {1, 3}, 24);
  inputs.tensors[0].name = "x";
  const Manifest plain = one_tensor("float32", {2, 3}, {3, 1}, 24);
  Mismatch mismatch;
  mismatch.examples.push_back({{0}, 1, 2, 0.5});
  mismatch.count = mismatch.total = 1;
  CHECK(text_of(mismatch, plain, plain) == mismatch.text());
  CHECK(text_of(mismatch, inputs, plain) ==
        mismatch.text() + "; inputs: x (size [3,2], stride [1,3]) is not contiguous");
}

TEST_CASE("a candidate's output may lie in memory in another order") {
  const Manifest rows = one_tensor("float32", {2, 3}, {3, 1}, 24);
  const Manifest columns = one_tensor("float32", {2, 3}, {1, 2}, 28, 1);
  const float expected[] = {0, 1, 2, 3, 4, 5};
  float got[] = {-1, 0, 3, 1, 4, 2, 5};
  const auto look = [&] {
    return compare(columns, reinterpret_cast<const std::byte*>(got), rows, reinterpret_cast<const std::byte*>(expected),
                   {Tolerance()});
  };
  CHECK_FALSE(look());
  got[4] = 7;
  const auto wrong = look();
  REQUIRE(wrong);
  CHECK(wrong->examples[0].at == std::vector<std::int64_t>{1, 1});
}

TEST_CASE("any single wrong element of a large output is found") {
  constexpr std::size_t kCount = 100003;
  std::vector<float> expected(kCount, 1), got(kCount, 1);
  for (const std::size_t place : {std::size_t{0}, std::size_t{1}, kCount / 2, kCount - 1}) {
    got[place] = 2;
    const auto wrong = compare_values<float>("float32", got, expected, Tolerance());
    REQUIRE(wrong);
    CHECK(wrong->examples[0].at[0] == static_cast<std::int64_t>(place));
    got[place] = 1;
  }
}

TEST_CASE("poison is never right: it differs from call to call and booleans are neither 0 nor 1") {
  const Manifest manifest = one_tensor("bool", {64}, {1}, 64);
  std::byte one[64], two[64];
  poison(manifest, one, sizeof one, 1);
  poison(manifest, two, sizeof two, 2);
  CHECK(std::memcmp(one, two, sizeof one) != 0);
  for (const std::byte value : one) {
    CHECK(static_cast<int>(value) > 1);
  }
}

}  // namespace
}  // namespace khost::judge
