#include "sandbox/judge/compare.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>

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

template <class T>
std::optional<Mismatch> compare_values(const char* dtype, const std::vector<T>& got, const std::vector<T>& expected,
                                       Tolerance tolerance = {}) {
  const auto count = static_cast<std::int64_t>(got.size());
  const Manifest manifest = one_tensor(dtype, {count}, {1}, got.size() * sizeof(T));
  return compare(manifest, reinterpret_cast<const std::byte*>(got.data()), manifest,
                 reinterpret_cast<const std::byte*>(expected.data()), {tolerance});
}

TEST_CASE("an element is right up to atol plus rtol of the expected value and wrong beyond") {
  const Tolerance tolerance{1e-3, 1e-2};
  CHECK_FALSE(compare_values<double>("float64", {100.999}, {100}, tolerance));
  CHECK(compare_values<double>("float64", {101.002}, {100}, tolerance));
  // the expected value carries rtol, not the candidate's
  CHECK(compare_values<double>("float64", {1000}, {900}, tolerance));
  CHECK(compare_values<double>("float64", {1e9}, {0}, tolerance));
}

TEST_CASE("NaN is never equal, not even to NaN, and an infinity only to itself") {
  CHECK(compare_values<float>("float32", {NAN}, {1}));
  CHECK(compare_values<float>("float32", {NAN}, {NAN}));
  CHECK(compare_values<float>("float32", {1}, {NAN}));
  CHECK(compare_values<float>("float32", {INFINITY}, {1e38f}, {1e30, 1}));
  CHECK(compare_values<float>("float32", {-INFINITY}, {INFINITY}));
  CHECK_FALSE(compare_values<float>("float32", {INFINITY}, {INFINITY}));
  CHECK(compare_values<double>("float64", {kNone}, {0}, {1e300, 1}));
}

TEST_CASE("integers are exact and a boolean byte is 0 or 1") {
  CHECK_FALSE(compare_values<std::int64_t>("int64", {4000, -1}, {4000, -1}));
  CHECK(compare_values<std::int64_t>("int64", {4001}, {4000}, {1e3, 1}));
  CHECK_FALSE(compare_values<std::uint8_t>("bool", {1, 0}, {1, 0}));
  CHECK(compare_values<std::uint8_t>("bool", {2}, {1}));
  CHECK(compare_values<std::uint8_t>("bool", {0xff}, {1}));
}

TEST_CASE("half precision is read with its subnormals") {
  CHECK_FALSE(compare_values<std::uint16_t>("float16", {0x3c00, 0x0001}, {0x3c00, 0x0001}));
  CHECK(compare_values<std::uint16_t>("float16", {0x0001}, {0x0400}, {1e-6, 0}));  // 6e-8 against 6e-5
  CHECK(compare_values<std::uint16_t>("bfloat16", {0x3f81}, {0x3f80}));            // one step is 0.8 %
  CHECK_FALSE(compare_values<std::uint16_t>("bfloat16", {0x3f81}, {0x3f80}, {1e-2, 0}));
}

TEST_CASE("a mismatch names the first place, all that are wrong and the largest difference") {
  const Manifest manifest = one_tensor("float32", {2, 3}, {3, 1}, 24);
  const float expected[] = {0, 1, 2, 3, 4, 5};
  const float got[] = {0, 1, 2, 3, 4.5f, 15};
  const auto wrong = compare(manifest, reinterpret_cast<const std::byte*>(got), manifest,
                             reinterpret_cast<const std::byte*>(expected), {Tolerance{}});
  REQUIRE(wrong);
  CHECK(wrong->at == std::vector<std::int64_t>{1, 1});
  CHECK(wrong->count == 2);
  CHECK(wrong->total == 6);
  CHECK(wrong->largest == 10);
  REQUIRE(wrong->examples.size() == 2);
  CHECK(wrong->examples[1].at == std::vector<std::int64_t>{1, 2});
  CHECK(wrong->text() == "output[1, 1] is 4.5, expected 4; 2 of 6 elements are wrong");
}

TEST_CASE("a candidate's output may lie in memory in another order") {
  const Manifest rows = one_tensor("float32", {2, 3}, {3, 1}, 24);
  const Manifest columns = one_tensor("float32", {2, 3}, {1, 2}, 28, 1);
  const float expected[] = {0, 1, 2, 3, 4, 5};
  float got[] = {-1, 0, 3, 1, 4, 2, 5};
  const auto look = [&] {
    return compare(columns, reinterpret_cast<const std::byte*>(got), rows, reinterpret_cast<const std::byte*>(expected),
                   {Tolerance{}});
  };
  CHECK_FALSE(look());
  got[4] = 7;
  const auto wrong = look();
  REQUIRE(wrong);
  CHECK(wrong->at == std::vector<std::int64_t>{1, 1});
}

TEST_CASE("any single wrong element of a large output is found") {
  constexpr std::size_t kCount = 100003;
  std::vector<float> expected(kCount, 1), got(kCount, 1);
  for (const std::size_t place : {std::size_t{0}, std::size_t{1}, kCount / 2, kCount - 1}) {
    got[place] = 2;
    const auto wrong = compare_values<float>("float32", got, expected);
    REQUIRE(wrong);
    CHECK(wrong->at[0] == static_cast<std::int64_t>(place));
    got[place] = 1;
  }
}

TEST_CASE("calibrated tolerance knows outputs that vary little, and unknown classes are refused") {
  const auto calibrated = tolerances("calibrated", 2, {{1e-6, 1e-3}, {1e-2, 1}});
  REQUIRE(calibrated);
  CHECK((*calibrated)[0].atol == doctest::Approx(4e-6));
  CHECK((*calibrated)[1].atol == doctest::Approx(4e-2));
  CHECK(tolerances("calibrated", 1, {})->front().atol == 1e-4);  // no oracle: strict
  CHECK(tolerances("paper", 1, {})->front().rtol == 1e-2);
  CHECK(tolerances("generous", 1, {}).failure().code == "bad_input");
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
