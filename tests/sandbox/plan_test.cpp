#include "sandbox/abi/plan.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <functional>

#include "sandbox/abi/derive.h"

using namespace khost;
using namespace khost::sandbox;

namespace {

Json tensor(std::vector<int> size, std::vector<int> stride, int storage = 0, const char* name = "x") {
  return {{"kind", "tensor"}, {"dtype", "float32"}, {"storage", storage}, {"offset", 0},
          {"size", size},     {"stride", stride},   {"name", name}};
}

Manifest manifest(const Json& tree, const std::vector<int>& bytes) {
  Json storages = Json::array();
  int offset = 0;
  for (const int size : bytes) {
    storages.push_back({{"bytes", size}, {"offset", offset}});
    offset += (size + 63) / 64 * 64;
  }
  auto result = Manifest::parse({{"storages", storages}, {"tree", tree}});
  REQUIRE_MESSAGE(result, result.failure().message);
  return std::move(result).value();
}

Json list(std::vector<Json> items) {
  return {{"kind", "tuple"}, {"items", items}};
}

const Json kGood = Json::parse(R"({"launches": [{"symbol": "f", "arguments": [
    {"role": "r", "slot": "input", "index": 0, "offset": 8}, {"role": "r", "slot": "null"},
    {"role": "w", "slot": "output", "index": 0, "offset": 0}, {"role": "s", "dtype": "l", "value": -4},
    {"role": "s", "dtype": "f", "value": "-inf"}, {"role": "W", "index": 0}, {"role": "T"}]}],
  "workspace": [100], "output_storages": [128],
  "outputs": {"kind": "tensor", "storage": 0, "dtype": "float32", "size": [4, 8], "stride": [8, 1], "offset": 0}})");
const Signatures kSignatures = {{"f", "rfrfwfslsfW-T-"}};

Status bound(const Json& json) {
  Result<Plan> plan = Plan::parse(json);
  if (!plan) {
    return plan.failure();
  }
  return plan->bind(kSignatures, manifest(list({tensor({4, 8}, {8, 1})}), {128}), manifest(list({}), {}));
}

}  // namespace

TEST_CASE("a plan survives its way to the player") {
  Plan plan = Plan::parse(kGood).value();
  REQUIRE(plan.bind(kSignatures, manifest(list({tensor({4, 8}, {8, 1})}), {128}), manifest(list({}), {})));
  const Plan again = Plan::parse(Json::parse(plan.to_json().dump())).value();
  CHECK(again.to_json() == plan.to_json());
  CHECK(again.regions.inputs[0].bytes == 128);
  CHECK(static_cast<std::int64_t>(again.launches[0].arguments[3].bits) == -4);
  const auto bits = static_cast<std::uint32_t>(again.launches[0].arguments[4].bits);
  float value;
  std::memcpy(&value, &bits, sizeof value);
  CHECK(value == -INFINITY);
}

TEST_CASE("plans that do not fit their library or their regions are refused") {
  REQUIRE(bound(kGood));
  const auto broken = [](const std::function<void(Json&)>& change) {
    Json json = kGood;
    change(json);
    const Status status = bound(json);
    REQUIRE_FALSE(status);
    CHECK(status.failure().code == "bad_input");
    return status.failure().message;
  };
  const auto argument = [](Json& json, int i) -> Json& { return json["launches"][0]["arguments"][i]; };
  broken([&](Json& json) { json["launches"][0]["symbol"] = "g"; });
  broken([&](Json& json) { json["launches"][0]["arguments"].erase(0); });
  broken([&](Json& json) { argument(json, 0)["index"] = 1; });
  broken([&](Json& json) { argument(json, 0)["index"] = -1; });
  broken([&](Json& json) { argument(json, 0)["offset"] = 129; });
  broken([&](Json& json) { argument(json, 0)["offset"] = 1e30; });
  broken([&](Json& json) { argument(json, 0)["slot"] = "elsewhere"; });
  broken([&](Json& json) { argument(json, 0)["role"] = "w"; });
  CHECK(broken([&](Json& json) {
          argument(json, 2) = {{"role", "w"}, {"slot", "input"}, {"index", 0}, {"offset", 0}};
        }).find("writes into an input") != std::string::npos);
  broken([&](Json& json) { argument(json, 3)["dtype"] = "i"; });
  broken([&](Json& json) { argument(json, 3)["value"] = 1.5; });
  broken([&](Json& json) { argument(json, 3)["value"] = Json::array(); });
  broken([&](Json& json) { argument(json, 4)["value"] = "many"; });
  broken([&](Json& json) { argument(json, 5)["index"] = 1; });
  broken([&](Json& json) { json["workspace"][0] = -5; });
  broken([&](Json& json) { json["output_storages"][0] = 64; });
  broken([&](Json& json) { json["outputs"]["stride"] = {64, 1}; });
  broken([&](Json& json) { json["outputs"]["size"] = {std::int64_t{1} << 40, std::int64_t{1} << 40}; });
  broken([&](Json& json) { json["outputs"]["offset"] = -1; });
  broken([&](Json& json) { json["outputs"]["dtype"] = "float31"; });
  broken([&](Json& json) { json["outputs"] = nullptr; });
  broken([&](Json& json) { json["launches"] = "none"; });
  broken([&](Json& json) { json["launches"][0] = 7; });
  broken([&](Json& json) {
    for (int i = 0; i < 100; i++) {
      json["outputs"] = list({json["outputs"]});
    }
  });
}

TEST_CASE("numbers that do not fit their type are refused") {
  CHECK(scalar_bits('i', 2147483647));
  CHECK_FALSE(scalar_bits('i', 2147483648));
  CHECK_FALSE(scalar_bits('I', -1));
  CHECK_FALSE(scalar_bits('b', -129));
  CHECK(scalar_bits('b', -128).value() == 0x80);
  CHECK(scalar_bits('?', true).value() == 1);
  CHECK(scalar_bits('L', 18446744073709551615ull));
  CHECK_FALSE(scalar_bits('l', 18446744073709551615ull));
  CHECK_FALSE(scalar_bits('e', 1.0));
}

TEST_CASE("outputs are compared with the reference's structure, not with its strides") {
  const Manifest wanted = manifest(list({tensor({4, 8}, {8, 1}), tensor({4}, {1}, 1)}), {128, 16});
  const auto matches = [&](Manifest outputs) { return bool(match_outputs(outputs, wanted)); };
  CHECK(matches(manifest(list({tensor({4, 8}, {1, 4}), tensor({4}, {1}, 1)}), {128, 16})));
  CHECK_FALSE(matches(manifest(tensor({4, 8}, {8, 1}), {128})));
  CHECK_FALSE(matches(manifest(list({tensor({8, 4}, {4, 1}), tensor({4}, {1}, 1)}), {128, 16})));
  CHECK_FALSE(matches(manifest(list({tensor({4, 8}, {0, 1}), tensor({4}, {1}, 1)}), {128, 16})));
  // One may be a part of the other, as a model returns its hidden states and the first of them.
  CHECK(matches(manifest(list({tensor({4, 8}, {8, 1}), tensor({4}, {1}, 0)}), {128, 16})));
}

TEST_CASE("outputs lie in at most twice the memory of the reference's, or in a little more") {
  constexpr int large = 64 << 20, spare = static_cast<int>(kSpareOutputs);
  const auto lies_in = [](int bytes) { return manifest(tensor({4, 8}, {8, 1}), {bytes}); };
  CHECK(bound_outputs(lies_in(128), lies_in(128)));
  CHECK(bound_outputs(lies_in(spare), lies_in(128)));
  CHECK_FALSE(bound_outputs(lies_in(spare + 4096), lies_in(128)));
  CHECK(bound_outputs(lies_in(2 * large), lies_in(large)));
  const Status refused = bound_outputs(lies_in(2 * large + 4096), lies_in(large));
  REQUIRE_FALSE(refused);
  CHECK(refused.failure().code == "limit");
  const Manifest two = manifest(list({tensor({4}, {1}, 0), tensor({4}, {1}, 1)}), {large, 2 * large});
  CHECK_FALSE(bound_outputs(two, lies_in(large)));
}

TEST_CASE("the outputs of a dict are compared by their keys, in the order of the reference") {
  const auto dict = [](std::vector<Json> items) { return Json{{"kind", "dict"}, {"items", items}}; };
  const Json scaled = tensor({4, 8}, {8, 1}, 0, "scaled");
  const Json mean = tensor({4}, {1}, 1, "mean");
  const Manifest wanted = manifest(dict({scaled, mean}), {128, 16});
  CHECK(wanted.tensors[0].path == "scaled");
  CHECK(Manifest::parse(Json::parse(wanted.to_json().dump()))->tensors[1].path == "mean");

  Manifest turned = manifest(dict({mean, scaled}), {128, 16});
  REQUIRE(turned.tensors[0].path == "mean");
  REQUIRE(match_outputs(turned, wanted));
  CHECK(turned.tensors[0].path == "scaled");
  CHECK(turned.tensors[0].storage == 0);
  CHECK(turned.tree == wanted.tree);

  Manifest nested = manifest(list({dict({mean, scaled})}), {128, 16});
  const Manifest nested_wanted = manifest(list({dict({scaled, mean})}), {128, 16});
  REQUIRE(match_outputs(nested, nested_wanted));
  CHECK(nested.tensors[1].path == "0.mean");

  Manifest other = manifest(dict({scaled, tensor({4}, {1}, 1, "sum")}), {128, 16});
  CHECK_FALSE(match_outputs(other, wanted));
  const auto parsed = [](const Json& tree) {
    return Manifest::parse({{"storages", {{{"bytes", 256}, {"offset", 0}}}}, {"tree", tree}});
  };
  CHECK(parsed(dict({scaled})));
  CHECK_FALSE(parsed(dict({scaled, scaled})));
  CHECK_FALSE(parsed(dict({{{"kind", "none"}}})));
  CHECK_FALSE(parsed({{"kind", "dict"}, {"items", {{"scaled", scaled}}}}));
}

TEST_CASE("one launcher without model_new.py is planned from the names of its arguments") {
  const Manifest inputs =
      manifest(list({tensor({2, 3, 4}, {12, 4, 1}), {{"kind", "scalar"}, {"value", 1e-5}, {"name", "eps"}}}), {96});
  const Manifest state =
      manifest({{"kind", "dict"}, {"items", Json::array({tensor({4}, {1}, 0, "norm.weight")})}}, {16});
  const Manifest outputs = manifest(tensor({2, 4, 3}, {12, 1, 4}), {96});
  const auto derive = [&](const std::string& arguments, const std::string& signature) {
    return derive_plan({{"extern \"C\" int f(" + arguments + ") {"}, "f", signature, inputs, state, outputs});
  };
  Result<Plan> plan = derive(
      "const float* norm_weight, const float* x, float* y, int64_t n, int rows, int64_t cols, "
      "float eps, khost::workspace w, khost::threads t",
      "rfrfwfslsislsfW-T-");
  REQUIRE_MESSAGE(plan, plan.failure().message);
  REQUIRE(plan->bind({{"f", "rfrfwfslsislsfW-T-"}}, inputs, state));
  const auto& arguments = plan->launches[0].arguments;
  CHECK(arguments[0].slot == Slot::state);
  CHECK(arguments[1].slot == Slot::input);
  CHECK(arguments[2].slot == Slot::output);
  CHECK(arguments[3].bits == 24);
  CHECK(arguments[4].bits == 6);
  CHECK(arguments[5].bits == 4);
  CHECK(plan->workspace == std::vector<std::size_t>{kDerivedWorkspaceBytes});
  CHECK(plan->outputs.tensors[0].stride == std::vector<std::int64_t>{12, 3, 1});

  CHECK(derive("const float* weight, float* y", "rfwf").failure().message.find("'weight'") != std::string::npos);
  CHECK(derive("const float* weight, float* y", "rfwf").failure().message.find("norm_weight") != std::string::npos);
  CHECK(derive("const float* x, float* y, int depth", "rfwfsi").failure().message.find("'depth'") != std::string::npos);
  CHECK(derive("const int* x, float* y", "riwf").failure().message.find("'x'") != std::string::npos);
  CHECK_FALSE(derive("const float* x, float* y, float* z", "rfwfwf"));
  CHECK_FALSE(derive("const float* x", "rf"));
  CHECK(derive("const float*, float* y", "rfwf").failure().message.find("argument 1 of 'f' has no name") !=
        std::string::npos);
  CHECK(derive("const float* x, float*, khost::workspace", "rfwfW-"));
}
