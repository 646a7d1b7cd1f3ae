// What forward returns, compared with what the reference returns.
#include <algorithm>
#include <utility>

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

// Same kinds and keys at the same places; tuple and list are one.
bool same_shape(const Json& a, const Json& b) {
  const auto kind = [](const Json& node) {
    const std::string text = node["kind"].get<std::string>();
    return text == "list" ? std::string("tuple") : text;
  };
  if (kind(a) != kind(b)) {
    return false;
  }
  if (!a.contains("items")) {
    return kind(a) != "scalar" || a["value"] == b["value"];
  }
  if (a["items"].size() != b["items"].size()) {
    return false;
  }
  for (const auto& item : a["items"].items()) {
    const Json* other = nullptr;
    if (b["items"].is_array()) {
      other = &b["items"][static_cast<std::size_t>(std::stoul(item.key()))];
    } else if (b["items"].contains(item.key())) {
      other = &b["items"][item.key()];
    }
    if (other == nullptr || !same_shape(item.value(), *other)) {
      return false;
    }
  }
  return true;
}

}  // namespace

Status match_outputs(const Manifest& outputs, const Manifest& expected) {
  if (!same_shape(outputs.tree, expected.tree)) {
    return bad("forward returns another structure than the reference's");
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
    const auto range = byte_range(leaf);
    for (std::size_t k = 0; k < i; k++) {
      const auto other = byte_range(outputs.tensors[k]);
      if (outputs.tensors[k].storage == leaf.storage && range.first < other.second && other.first < range.second) {
        return bad(name + " shares memory with another output");
      }
    }
  }
  return ok();
}

}  // namespace khost::sandbox
