// Which sets a verdict uses, in which order, and what the reference says about their bounds.
#include "sandbox/judge/task/sets.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "sandbox/judge/values/calibrated.h"

namespace khost::judge {
namespace {

std::size_t planted_in(const Kinds& kinds, std::size_t from, std::size_t to) {
  return static_cast<std::size_t>(std::count(kinds.planted.begin() + static_cast<std::ptrdiff_t>(from),
                                             kinds.planted.begin() + static_cast<std::ptrdiff_t>(to), true));
}

Batch batch_of(const Kinds& kinds) {
  Batch batch;
  batch.verified = kinds.verified;
  for (const bool planted : kinds.planted) {
    Set set;
    set.planted = planted;
    batch.sets.push_back(std::move(set));
  }
  return batch;
}

Json entry(const char* rule) {
  const std::vector<double> rows(256, 1e-6);
  return {{"rule", rule},         {"ulps", 2},      {"share", 0},     {"cap", nullptr}, {"k", 64},
          {"precision", "full"},  {"rtol", 0},      {"by", "octave"}, {"first", -127},  {"step", 1},
          {"typical_share", 0.5}, {"bounds", rows}, {"typical", rows}};
}

sandbox::Manifest outputs_of(std::size_t count) {
  sandbox::Manifest manifest;
  for (std::size_t i = 0; i < count; i++) {
    sandbox::TensorLeaf leaf;
    leaf.path = std::to_string(i);
    leaf.dtype = "float32";
    manifest.tensors.push_back(leaf);
  }
  return manifest;
}

TEST_CASE("a verdict verifies on both kinds of sets and has planted ones beside those whose time counts") {
  const Kinds kinds = kinds_of_sets(Audience::verdict, 1000, true);
  REQUIRE(kinds.planted.size() == 29);
  CHECK(kinds.verified == 5);
  CHECK(planted_in(kinds, 0, 5) == 2);
  CHECK(planted_in(kinds, 5, 29) == 4);
  const Kinds plain = kinds_of_sets(Audience::verdict, 1000, false);
  CHECK(plain.planted.size() == 25);
  CHECK(planted_in(plain, 0, 25) == 0);
}

TEST_CASE("sets keep to the memory that there is, and even the least has both kinds in both parts") {
  for (std::size_t affordable = kFewestSets; affordable < 40; affordable++) {
    CAPTURE(affordable);
    const Kinds kinds = kinds_of_sets(Audience::verdict, affordable, true);
    const std::size_t count = kinds.planted.size();
    CHECK(count == std::min<std::size_t>(affordable, 29));
    CHECK(planted_in(kinds, 0, kinds.verified) == 2);
    CHECK(kinds.verified >= 4);
    const std::size_t planted = planted_in(kinds, kinds.verified, count);
    CHECK(planted >= 1);
    CHECK(count - kinds.verified - planted >= 2);  // times of one set say nothing
  }
}

TEST_CASE("an agent's sets are of both kinds and its times are of drawn ones") {
  const Kinds kinds = kinds_of_sets(Audience::agent, 1000, true);
  REQUIRE(kinds.planted.size() == 6);
  CHECK(planted_in(kinds, 0, kinds.verified) == 1);
  CHECK(planted_in(kinds, kinds.verified, 6) == 0);
}

TEST_CASE("a block times each drawn set once, and planted ones stand at other places in each block") {
  const Batch batch = batch_of(kinds_of_sets(Audience::verdict, 1000, true));
  std::set<std::vector<bool>> patterns;
  std::set<std::size_t> places;
  for (int block = 0; block < 200; block++) {
    const std::vector<std::size_t> order = timed_order(batch, 0, 0);
    REQUIRE(order.size() == 24);
    CHECK(std::set<std::size_t>(order.begin(), order.end()).size() == 24);
    CHECK(*std::min_element(order.begin(), order.end()) == 5);
    std::vector<bool> pattern;
    for (std::size_t i = 0; i < order.size(); i++) {
      pattern.push_back(batch.sets[order[i]].planted);
      if (pattern.back()) {
        places.insert(i);
      }
    }
    patterns.insert(pattern);
  }
  CHECK(patterns.size() > 150);  // of 10,626
  CHECK(places.size() == 24);    // no place is safe
}

TEST_CASE("a bracket's block begins where it is told, goes round, and has its share of planted sets") {
  const Batch batch = batch_of(kinds_of_sets(Audience::verdict, 1000, true));
  const std::vector<std::size_t> order = timed_order(batch, 12, 12);
  CHECK(order.size() == 14);
  std::vector<std::size_t> drawn, all;
  std::copy_if(order.begin(), order.end(), std::back_inserter(drawn),
               [&](std::size_t i) { return !batch.sets[i].planted; });
  for (std::size_t i = batch.verified; i < batch.sets.size(); i++) {
    if (!batch.sets[i].planted) {
      all.push_back(i);
    }
  }
  REQUIRE(drawn.size() == 12);
  for (std::size_t i = 0; i < drawn.size(); i++) {
    CHECK(drawn[i] == all[(12 + i) % all.size()]);
  }
  CHECK(timed_order(batch_of(kinds_of_sets(Audience::verdict, 1000, false)), 0, 0).size() == 20);
}

TEST_CASE("baselines are timed on drawn sets alone") {
  const Batch batch = batch_of(kinds_of_sets(Audience::verdict, 1000, true));
  const std::vector<std::size_t> drawn = batch.drawn();
  CHECK(drawn.size() == 23);
  CHECK(std::none_of(drawn.begin(), drawn.end(), [&](std::size_t i) { return batch.sets[i].planted; }));
}

TEST_CASE("what the reference measured becomes a tolerance for each output and kind of set") {
  Json drawn = entry("table"), planted = entry("table"), whole = {{"rule", "exact"}, {"share", 0.005}, {"cap", 2}};
  drawn["bounds"][127] = 1e-3;
  planted["bounds"][127] = 2e-3;
  Result<Calibration> measured = Calibration::parse(
      {{"kinds", {{"drawn", {drawn, whole}}, {"planted", {planted, whole}}}}, {"planting", ""}, {"constant", false}},
      outputs_of(2));
  REQUIRE_MESSAGE(measured, measured.failure().message);
  Set set;
  CHECK(measured->tolerances.of(set)[0].bounds[127] == 1e-3);
  CHECK(measured->tolerances.of(set)[1].rule == Tolerance::Rule::exact);
  CHECK(measured->tolerances.of(set)[1].beyond(1000) == 5);
  CHECK(measured->tolerances.of(set)[1].cap == 2);
  CHECK(measured->tolerances.of(set)[0].untypical(1000) == 500);
  CHECK(measured->tolerances.of(set)[0].typical[3] == 1e-6);
  set.planted = true;
  CHECK(measured->tolerances.of(set)[0].bounds[127] == 2e-3);
  CHECK(measured->plants());
  CHECK(measured->evidence["planted"][0]["k"] == 64);
  CHECK_FALSE(measured->evidence["planted"][0].contains("bounds"));

  auto paper = tolerances("paper", *measured, 2);
  REQUIRE(paper);
  CHECK(paper->planted[1].atol == 1e-2);
  CHECK(tolerances("generous", *measured, 2).failure().code == "bad_input");
}

TEST_CASE("a task whose sets are equal, or whose integers are undecided, cannot be judged") {
  Json answer = {{"kinds", {{"drawn", {entry("table")}}, {"planted", nullptr}}}, {"planting", "the inputs are sorted"}};
  Result<Calibration> drawn_only = Calibration::parse(answer, outputs_of(1));
  REQUIRE(drawn_only);
  CHECK_FALSE(drawn_only->plants());
  CHECK(drawn_only->given_up == "the inputs are sorted");
  answer["ambiguous"] = "2 % of the elements of the output are ties";
  CHECK(Calibration::parse(answer, outputs_of(1)).failure().code == "ambiguous");
  answer["ambiguous"] = "";
  answer["equal_sets"] = true;
  CHECK(Calibration::parse(answer, outputs_of(1)).failure().code == "equal_sets");
}

TEST_CASE("bounds that are no numbers, too few, or of no rule are refused") {
  const auto code_of = [](const Json& one) {
    Result<Calibration> read =
        Calibration::parse({{"kinds", {{"drawn", Json::array({one})}, {"planted", nullptr}}}}, outputs_of(1));
    return read ? std::string("read") : read.failure().code;
  };
  Json broken = entry("table");
  CHECK(code_of(broken) == "read");
  broken["bounds"][3] = -1;
  CHECK(code_of(broken) == "bad_task");
  broken["bounds"] = std::vector<double>(255, 0);
  CHECK(code_of(broken) == "bad_task");
  CHECK(code_of(entry("flat")) == "bad_task");
  broken = entry("exact");
  broken["share"] = 1.5;
  CHECK(code_of(broken) == "bad_task");
  CHECK(Calibration::parse(Json::object(), outputs_of(1)).failure().code == "bad_task");
}

}  // namespace
}  // namespace khost::judge
