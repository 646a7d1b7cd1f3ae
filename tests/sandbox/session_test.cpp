// Tasks opened by a real reference: which sets they get, what their bounds are, and which cannot be judged.
#include "sandbox/judge/task/session.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "sandbox/judge/values/compare.h"
#include "tests/sandbox/zygote_fixture.h"

namespace khost::judge {
namespace {

// One zygote for all cases: starting one takes seconds.
Zygote* shared() {
  static const std::unique_ptr<Zygote> zygote = tests::reference_zygote();
  return zygote.get();
}

std::string task(const std::string& forward, const std::string& inputs) {
  return "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return " + forward +
         "\ndef get_inputs():\n    return [" + inputs + "]\ndef get_init_inputs():\n    return []\n";
}

std::vector<float> floats_at(const std::byte* memory, std::size_t count) {
  std::vector<float> values(count);
  std::memcpy(values.data(), memory, count * sizeof(float));
  return values;
}

float largest(const std::vector<float>& values) {
  float result = 0;
  for (const float value : values) {
    result = std::max(result, std::abs(value));
  }
  return result;
}

std::string code_of(const std::string& source) {
  const Result<std::shared_ptr<Session>> session = Session::open(*shared(), source);
  return session ? "opened" : session.failure().code;
}

TEST_CASE("a task that is only verified has no sets to time on until a verdict with times wants them") {
  if (shared() == nullptr) {
    return;
  }
  SessionOptions options;
  options.audience = Audience::verification;
  Result<std::shared_ptr<Session>> opened = Session::open(*shared(), task("x * 2", "torch.randn(4096)"), options);
  REQUIRE_MESSAGE(opened, opened.failure().message);
  Session& session = **opened;
  const auto small = session.batch_at_hand("one", Audience::verification);
  REQUIRE(small);
  CHECK(small->sets.size() == small->verified);
  CHECK(small->verified == kVerificationSets);
  CHECK(std::count_if(small->sets.begin(), small->sets.end(), [](const Set& set) { return set.planted; }) ==
        kPlantedVerification);
  CHECK(session.batch_at_hand("one", Audience::verification) == nullptr);  // it has met them
  CHECK(session.batch_at_hand("two", Audience::verdict) == nullptr);
  const auto whole = session.batch_for(*shared(), "two", Audience::verdict);
  REQUIRE(whole);
  CHECK((*whole)->sets.size() == wanted_sets(Audience::verdict, true));
  CHECK(session.batch_at_hand("three", Audience::verification) == *whole);
  CHECK(session.batch_at_hand("two", Audience::verification) == nullptr);
  CHECK(*session.batch_for(*shared(), "two", Audience::verification) != *whole);
}

TEST_CASE("sets for one verdict are of no batch and of no other verdict, and it is known whether others met a batch") {
  if (shared() == nullptr) {
    return;
  }
  Result<std::shared_ptr<Session>> opened = Session::open(*shared(), task("torch.exp(x)", "torch.randn(4096)"));
  REQUIRE_MESSAGE(opened, opened.failure().message);
  Session& session = **opened;
  const auto batch = session.batch_at_hand("one");
  REQUIRE(batch);
  CHECK_FALSE(session.met_before(*batch));
  REQUIRE(session.batch_at_hand("two") == batch);
  CHECK(session.met_before(*batch));
  auto first = session.unseen(*shared(), 4), second = session.unseen(*shared(), 4);
  REQUIRE(first);
  REQUIRE(second);
  std::set<std::vector<float>> inputs;
  for (const auto* const one : {batch.get(), first->get(), second->get()}) {
    REQUIRE(one != nullptr);
    for (const Set& set : one->sets) {
      inputs.insert(floats_at(session.inputs_of(set), 4096));
    }
  }
  CHECK(inputs.size() == batch->sets.size() + 8);
  for (const Set& set : (*first)->sets) {
    CHECK_FALSE(set.planted);
    CHECK(floats_at(session.expected_of(set), 1).at(0) ==
          doctest::Approx(std::exp(floats_at(session.inputs_of(set), 1).at(0))));
  }
}

TEST_CASE("a batch holds drawn sets without outliers and planted ones with them, and the reference is right on both") {
  if (shared() == nullptr) {
    return;
  }
  constexpr std::size_t kElements = 20000;
  Result<std::shared_ptr<Session>> opened = Session::open(*shared(), task("torch.exp(x)", "torch.randn(20000)"));
  REQUIRE_MESSAGE(opened, opened.failure().message);
  Session& session = **opened;
  const Calibration& known = *session.calibration();
  CHECK_MESSAGE(known.plants(), known.given_up);
  CHECK(known.uninformative.empty());
  CHECK_FALSE(known.constant);
  const auto batch = session.batch_at_hand("one");
  REQUIRE(batch);
  CHECK(batch->sets.size() == 29);
  const sandbox::Manifest& outputs = session.layouts().outputs;
  for (const Set& set : batch->sets) {
    const std::vector<float> inputs = floats_at(session.inputs_of(set), kElements);
    CHECK((largest(inputs) > 6) == set.planted);
    std::vector<float> answer(inputs.size()), tails(inputs.size());
    for (std::size_t i = 0; i < inputs.size(); i++) {
      answer[i] = std::exp(inputs[i]);
      tails[i] = inputs[i] > 6 ? answer[i] : 0;
    }
    const auto wrong = [&](const std::vector<float>& values) {
      return compare(outputs, reinterpret_cast<const std::byte*>(values.data()), outputs, session.expected_of(set),
                     known.tolerances.of(set));
    };
    CHECK_FALSE(wrong(answer));
    const auto only_outliers = wrong(tails);
    REQUIRE(only_outliers);
    CHECK(only_outliers->count > static_cast<std::int64_t>(kElements) * 9 / 10);
  }
}

TEST_CASE("where outliers break what a task counts on, all sets are drawn and the reason is known") {
  if (shared() == nullptr) {
    return;
  }
  Result<std::shared_ptr<Session>> opened =
      Session::open(*shared(), task("torch.log1p(x)", "torch.rand(4096).cumsum(0)"));  // sorted
  REQUIRE_MESSAGE(opened, opened.failure().message);
  const auto batch = (*opened)->batch_at_hand("one");
  CHECK(batch->sets.size() == 25);
  CHECK(batch->drawn().size() == 25);
  CHECK_FALSE((*opened)->calibration()->given_up.empty());
  Json evidence = Json::object();
  describe("calibrated", *(*opened)->calibration(), evidence);
  CHECK(evidence["inputs"] == "drawn");
  CHECK(evidence["planting"] == (*opened)->calibration()->given_up);
  CHECK(evidence["bounds"]["drawn"][0]["k"] > 0);
}

TEST_CASE("a task that seeds its own generator cannot be judged, and one without anything random says so") {
  if (shared() == nullptr) {
    return;
  }
  CHECK(code_of(task("x * 2", "torch.manual_seed(1) and torch.randn(4096)")) == "equal_sets");
  Result<std::shared_ptr<Session>> constant = Session::open(*shared(), task("x * 2", "torch.arange(4096.0) / 7"));
  REQUIRE_MESSAGE(constant, constant.failure().message);
  CHECK((*constant)->calibration()->constant);
}

TEST_CASE("a reference that returns NaN is the task's fault, and one that returns infinities is judged") {
  if (shared() == nullptr) {
    return;
  }
  CHECK(code_of(task("torch.log(x)", "torch.randn(4096)")) == "bad_task");
  CHECK(code_of(task("torch.where(x > 0, x, -float('inf'))", "torch.randn(4096)")) == "opened");
}

TEST_CASE("the outputs of a dict have each their own bounds, in the task's order of keys") {
  if (shared() == nullptr) {
    return;
  }
  Result<std::shared_ptr<Session>> opened =
      Session::open(*shared(), task("{'z': x.sum(1) * 1e6, 'a': x, 'k': (x > 0).sum(1)}", "torch.randn(256, 256)"));
  REQUIRE_MESSAGE(opened, opened.failure().message);
  const sandbox::Manifest& outputs = (*opened)->layouts().outputs;
  REQUIRE(outputs.tensors.size() == 3);
  CHECK(outputs.tensors[0].path == "z");
  const std::vector<Tolerance>& bounds = (*opened)->calibration()->tolerances.drawn;
  CHECK(bounds[0].bounds[150] > 1e-2);  // sums of some millions
  CHECK(bounds[1].bounds[127] < 1e-4);
  CHECK(bounds[2].rule == Tolerance::Rule::exact);
}

TEST_CASE("a session of a task that was measured before measures nothing again") {
  if (shared() == nullptr) {
    return;
  }
  const std::string source = task("x * 2 + 1", "torch.randn(4096)");
  Result<std::shared_ptr<Session>> first = Session::open(*shared(), source);
  REQUIRE_MESSAGE(first, first.failure().message);
  SessionOptions options;
  options.calibration = (*first)->calibration();
  Result<std::shared_ptr<Session>> second = Session::open(*shared(), source, options);
  REQUIRE_MESSAGE(second, second.failure().message);
  CHECK((*second)->calibration() == (*first)->calibration());
}

}  // namespace
}  // namespace khost::judge
