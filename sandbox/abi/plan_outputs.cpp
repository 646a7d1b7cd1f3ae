// What forward returns, compared with what the reference returns.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "sandbox/abi/plan.h"

namespace khost::sandbox {
namespace {

Failure bad(const std::string& what) {
  return {"plan: " + what, "bad_input"};
}

// Elements of one tensor are apart when, from the smallest stride up, each stride steps over all that lies
// below.
bool overlaps_itself(const TensorLeaf& leaf) {
  std::vector<std::pair<std::int64_t, std::int64_t>> steps;
  for (std::size_t i = 0; i < leaf.size.size(); i++) {
    if (leaf.size[i] == 0) {
      return false;
    }
    if (leaf.size[i] > 1) {
      steps.emplace_back(leaf.stride[i], leaf.size[i]);
    }
  }
  std::sort(steps.begin(), steps.end());
  std::int64_t reach = 0;
  for (const auto& [stride, size] : steps) {
    if (stride <= reach) {
      return true;
    }
    reach += stride * (size - 1);
  }
  return false;
}

// The item of a dict that has this key, or null.
const Json* item_named(const Json& items, const Json& name) {
  const auto found = std::find_if(items.begin(), items.end(), [&](const Json& item) { return item["name"] == name; });
  return found == items.end() ? nullptr : &*found;
}

// `node` with the items of its dicts in the order that `expected` has them; nothing where kinds, keys or numbers
// differ.
// Tuple and list count as one kind.
std::optional<Json> arranged(const Json& node, const Json& expected) {
  const auto kind = [](const Json& one) { return one["kind"] == "list" ? Json("tuple") : one["kind"]; };
  if (kind(node) != kind(expected)) {
    return std::nullopt;
  }
  if (!node.contains("items")) {
    return kind(node) != "scalar" || node["value"] == expected["value"] ? std::optional(node) : std::nullopt;
  }
  if (node["items"].size() != expected["items"].size()) {
    return std::nullopt;
  }
  Json result = node;
  for (std::size_t i = 0; i < expected["items"].size(); i++) {
    const Json& wanted = expected["items"][i];
    const Json* mine = kind(node) == "dict" ? item_named(node["items"], wanted["name"]) : &node["items"][i];
    std::optional<Json> item = mine == nullptr ? std::nullopt : arranged(*mine, wanted);
    if (!item) {
      return std::nullopt;
    }
    result["items"][i] = std::move(*item);
  }
  return result;
}

}  // namespace

Status match_outputs(Manifest& outputs, const Manifest& expected) {
  const std::optional<Json> tree = arranged(outputs.tree, expected.tree);
  if (!tree) {
    return bad("forward returns another structure than the reference's");
  }
  if (*tree != outputs.tree) {
    Json json = outputs.to_json();
    json["tree"] = *tree;
    Result<Manifest> again = Manifest::parse(json);
    if (!again) {
      return again.failure();
    }
    outputs = std::move(*again);
  }
  for (std::size_t i = 0; i < outputs.tensors.size(); i++) {
    const TensorLeaf& leaf = outputs.tensors[i];
    const TensorLeaf& wanted = expected.tensors[i];
    const std::string name = leaf.path.empty() ? "the output" : "output " + leaf.path;
    if (leaf.dtype != wanted.dtype) {
      return bad(name + " is " + leaf.dtype + ", the reference's is " + wanted.dtype);
    }
    if (leaf.size != wanted.size) {
      return bad(name + " has size " + Json(leaf.size).dump() + ", the reference's " + Json(wanted.size).dump());
    }
    if (overlaps_itself(leaf)) {
      return bad(name + " has elements that share memory");
    }
  }
  return ok();
}

Status bound_outputs(const Manifest& outputs, const Manifest& expected) {
  const std::size_t most = std::max(2 * expected.region_bytes, expected.region_bytes + kSpareOutputs);
  if (outputs.region_bytes <= most) {
    return ok();
  }
  return Failure{"plan: the tensors that forward returns lie in " + std::to_string(outputs.region_bytes) +
                     " bytes of memory; the reference's take " + std::to_string(expected.region_bytes) + ", and " +
                     std::to_string(most) + " are allowed: return tensors of their own instead of views of larger ones",
                 "limit"};
}

}  // namespace khost::sandbox
