// What forward returns, compared with what the reference returns.
#include <algorithm>
#include <numeric>
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

std::pair<std::int64_t, std::int64_t> byte_range(const TensorLeaf& leaf) {
  const std::int64_t element = static_cast<std::int64_t>(dtype_bytes(leaf.dtype));
  std::int64_t last = leaf.offset;
  for (std::size_t i = 0; i < leaf.size.size(); i++) {
    if (leaf.size[i] == 0) {
      return {0, 0};
    }
    last += (leaf.size[i] - 1) * leaf.stride[i];
  }
  return {leaf.offset * element, (last + 1) * element};
}

// Calls `see` with the place of each element, in elements from the storage's begin.
template <class See>
void each_element(const TensorLeaf& leaf, std::size_t dimension, std::int64_t place, const See& see) {
  if (dimension == leaf.size.size()) {
    see(place);
    return;
  }
  for (std::int64_t i = 0; i < leaf.size[dimension]; i++) {
    each_element(leaf, dimension + 1, place + i * leaf.stride[dimension], see);
  }
}

// Whether two tensors of one storage have a byte in common. Parts of one projection (`qkv.chunk(3, -1)`) lie in each
// other's range and have none.
bool share_memory(const TensorLeaf& one, const TensorLeaf& other) {
  const auto mine = byte_range(one), theirs = byte_range(other);
  if (mine.first >= theirs.second || theirs.first >= mine.second) {
    return false;
  }
  const auto wide = static_cast<std::int64_t>(dtype_bytes(one.dtype));
  const auto its_width = static_cast<std::int64_t>(dtype_bytes(other.dtype));
  const std::int64_t unit = std::gcd(wide, its_width), begin = mine.first / unit;
  std::vector<bool> taken(static_cast<std::size_t>((mine.second - mine.first) / unit));
  const auto end = static_cast<std::int64_t>(taken.size());
  const auto units = [&](std::int64_t place, std::int64_t width, const auto& see) {
    for (std::int64_t i = place * width / unit; i < (place + 1) * width / unit; i++) {
      if (i >= begin && i < begin + end) {
        see(static_cast<std::size_t>(i - begin));
      }
    }
  };
  each_element(one, 0, one.offset,
               [&](std::int64_t place) { units(place, wide, [&](std::size_t i) { taken[i] = true; }); });
  bool shared = false;
  each_element(other, 0, other.offset, [&](std::int64_t place) {
    units(place, its_width, [&](std::size_t i) { shared = shared || taken[i]; });
  });
  return shared;
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
    for (std::size_t k = 0; k < i; k++) {
      if (outputs.tensors[k].storage == leaf.storage && share_memory(outputs.tensors[k], leaf)) {
        return bad(name + " shares memory with another output");
      }
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
