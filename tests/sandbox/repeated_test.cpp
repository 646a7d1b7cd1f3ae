#include "sandbox/judge/evaluation/repeated.h"

#include <doctest/doctest.h>

namespace khost::judge {
namespace {

const std::vector<Tolerance> kPlain(2);  // of outputs without anything that is undecided in every set

// `count` places from `first` on.
std::vector<std::int64_t> places(std::int64_t first, std::size_t count) {
  std::vector<std::int64_t> result(count);
  for (std::size_t i = 0; i < count; i++) {
    result[i] = first + static_cast<std::int64_t>(i);
  }
  return result;
}

TEST_CASE("elements that are excused in every set are found from the fourth set on") {
  Repeated repeated({1 << 20, 64});
  for (std::size_t set = 0; set < 3; set++) {
    CHECK_FALSE(repeated.add(set, {places(100, 40), {}}, kPlain));
  }
  CHECK_FALSE(repeated.add(2, {places(100, 40), {}}, kPlain));  // the same set once more
  const auto found = repeated.add(3, {places(100, 40), {}}, kPlain);
  REQUIRE(found);
  CHECK(found->output == 0);
  CHECK(found->elements == 40);
  CHECK(found->sets == 4);
  CHECK(found->text().find("40 elements of output 0") != std::string::npos);
}

TEST_CASE("excused elements that lie elsewhere in each set are none") {
  Repeated repeated({1 << 20});
  for (std::size_t set = 0; set < 24; set++) {
    CHECK_FALSE(repeated.add(set, {places(static_cast<std::int64_t>(set) * 1000, 900)}, kPlain));
  }
}

TEST_CASE("a dozen elements, and as many as a large share brings about by chance, are no finding") {
  Repeated few({1 << 20});
  for (std::size_t set = 0; set < 24; set++) {
    CHECK_FALSE(few.add(set, {places(700, 12)}, kPlain));
  }
  // Half of the elements in each set, of which a sixteenth is expected in all of four.
  Repeated chance({1024});
  for (std::size_t set = 0; set < 4; set++) {
    std::vector<std::int64_t> excused;
    for (std::int64_t i = 0; i < 1024; i++) {
      if ((i >> set & 1) != 0) {
        excused.push_back(i);
      }
    }
    CHECK_FALSE(chance.add(set, {excused}, kPlain));
  }
}

TEST_CASE("a rest of a vector loop that is off in half of the sets is found, elements that chance puts there are not") {
  const std::int64_t count = 1 << 20;
  Repeated rest({count});
  bool found = false;
  for (std::size_t set = 0; set < 12; set++) {
    std::vector<std::int64_t> excused = places(static_cast<std::int64_t>(set) * 5000, 40);
    for (std::int64_t i = 0; i < 7; i++) {
      if (((static_cast<std::int64_t>(set) + i) & 1) != 0) {
        excused.push_back(count - 7 + i);
      }
    }
    const auto seen = rest.add(set, {excused}, kPlain);
    found = found || seen;
    CHECK((!seen || seen->text().find("some of the last 16 elements of output 0") != std::string::npos));
  }
  CHECK(found);
  Repeated chance({count});  // a tenth of all elements, everywhere
  for (std::size_t set = 0; set < 24; set++) {
    std::vector<std::int64_t> excused;
    for (std::int64_t i = static_cast<std::int64_t>(set % 10); i < count; i += 10) {
      excused.push_back(i);
    }
    CHECK_FALSE(chance.add(set, {excused}, kPlain));
  }
}

TEST_CASE("a set without excused elements ends it") {
  Repeated repeated({4096});
  for (std::size_t set = 0; set < 12; set++) {
    CHECK_FALSE(repeated.add(set, {set == 2 ? std::vector<std::int64_t>() : places(1000, 100)}, kPlain));
  }
}

TEST_CASE("elements that lie beyond in more sets than the reference jumps in are found, seldom ones are not") {
  std::vector<Tolerance> seldom(1);
  seldom[0].jumps = 0.05;
  Repeated skips({1 << 12}), meets({1 << 12});
  std::optional<Repeated::Found> found;
  for (std::size_t set = 0; set < 20; set++) {
    const auto from = static_cast<std::int64_t>(600 + 100 * set);
    const auto seen = skips.add(set, {places(from, 32)}, seldom);
    found = found ? found : seen;
    CHECK_FALSE(meets.add(set, {set % 8 == 3 ? places(from, 32) : std::vector<std::int64_t>()}, seldom));
  }
  REQUIRE(found);
  CHECK(found->often);
  CHECK(found->text().find("in far fewer") != std::string::npos);
}

TEST_CASE("elements that the reference leaves undecided in every set may be excused in every set") {
  std::vector<Tolerance> resize(1);
  resize[0].always = 40;
  Repeated honest({1 << 20}), wrong({1 << 20});
  std::optional<Repeated::Found> found;
  for (std::size_t set = 0; set < 8; set++) {
    CHECK_FALSE(honest.add(set, {places(5000, 40)}, resize));
    const auto seen = wrong.add(set, {places(5000, 200)}, resize);
    found = found ? found : seen;
  }
  CHECK(found);
}

}  // namespace
}  // namespace khost::judge
