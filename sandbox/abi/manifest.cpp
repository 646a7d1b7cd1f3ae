#include "sandbox/abi/manifest.h"

#include <algorithm>
#include <map>
#include <set>

namespace khost::sandbox {
namespace {

constexpr std::size_t kMostStorages = 65536;
constexpr std::size_t kMostNodes = 100000;
constexpr int kMostDepth = 32;
constexpr std::size_t kMostDimensions = 32;
constexpr std::int64_t kMostBytes = std::int64_t{1} << 46;

Failure bad(const std::string& what) {
  return {"manifest: " + what, "bad_input"};
}

bool whole(const Json& object, const char* key, std::int64_t& value) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_integer()) {
    return false;
  }
  value = found->is_number_unsigned() && found->get<std::uint64_t>() > static_cast<std::uint64_t>(kMostBytes)
              ? -1
              : found->get<std::int64_t>();
  return value >= 0 && value <= kMostBytes;
}

bool whole_list(const Json& object, const char* key, std::vector<std::int64_t>& values) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_array() || found->size() > kMostDimensions) {
    return false;
  }
  for (const Json& element : *found) {
    std::int64_t value = 0;
    if (!whole(Json{{"v", element}}, "v", value)) {
      return false;
    }
    values.push_back(value);
  }
  return true;
}

class TreeReader {
 public:
  explicit TreeReader(Manifest& manifest) : manifest_(manifest) {}

  Status read(const Json& node, const std::string& path, const std::string& key, int depth) {
    if (depth > kMostDepth || ++nodes_ > kMostNodes) {
      return bad("the tree is too deep or too large");
    }
    if (!node.is_object() || !node.contains("kind") || !node["kind"].is_string()) {
      return bad("node '" + path + "' has no kind");
    }
    const std::string kind = node["kind"].get<std::string>();
    if (kind == "tensor") {
      return read_tensor(node, path, key);
    }
    if (kind == "scalar") {
      if (!node.contains("value") || !node["value"].is_primitive()) {
        return bad("scalar '" + path + "' has no value");
      }
      manifest_.scalars.push_back({path, name_of(node, key), node["value"]});
      return ok();
    }
    if (kind == "none") {
      return ok();
    }
    const bool list = kind == "tuple" || kind == "list";
    if ((!list && kind != "dict") || !node.contains("items") || !node["items"].is_array()) {
      return bad("node '" + path + "' has unknown kind '" + kind.substr(0, 20) + "' or no list of items");
    }
    std::set<std::string> keys;
    std::size_t position = 0;
    for (const Json& item : node["items"]) {
      if (!list && (!item.is_object() || !item.contains("name") || !item["name"].is_string() ||
                    !keys.insert(item["name"].get<std::string>()).second)) {
        return bad("an item of the dict '" + path + "' has no name, or one that stands twice");
      }
      const std::string step = list ? std::to_string(position++) : item["name"].get<std::string>();
      const Status status = read(item, path.empty() ? step : path + "." + step, list ? "" : step, depth + 1);
      if (!status) {
        return status;
      }
    }
    return ok();
  }

 private:
  static std::string name_of(const Json& node, const std::string& key) {
    return node.contains("name") && node["name"].is_string() ? node["name"].get<std::string>() : key;
  }

  Status read_tensor(const Json& node, const std::string& path, const std::string& key) {
    TensorLeaf leaf;
    leaf.path = path;
    leaf.name = name_of(node, key);
    std::int64_t storage = 0;
    if (!node.contains("dtype") || !node["dtype"].is_string() || !whole(node, "storage", storage) ||
        !whole(node, "offset", leaf.offset) || !whole_list(node, "size", leaf.size) ||
        !whole_list(node, "stride", leaf.stride) || leaf.size.size() != leaf.stride.size()) {
      return bad("tensor '" + path + "' lacks dtype, storage, offset, size or stride, or one is out of range");
    }
    leaf.dtype = node["dtype"].get<std::string>();
    leaf.storage = static_cast<std::size_t>(storage);
    const std::size_t element = dtype_bytes(leaf.dtype);
    if (element == 0 || leaf.storage >= manifest_.storages.size()) {
      return bad("tensor '" + path + "' has an unknown dtype or storage");
    }
    std::int64_t last = leaf.offset;
    bool empty = false;
    for (std::size_t i = 0; i < leaf.size.size(); i++) {
      std::int64_t step = 0;
      empty = empty || leaf.size[i] == 0;
      if (__builtin_mul_overflow(std::max<std::int64_t>(leaf.size[i] - 1, 0), leaf.stride[i], &step) ||
          __builtin_add_overflow(last, step, &last) || last > kMostBytes) {
        return bad("tensor '" + path + "' is too large");
      }
    }
    const std::int64_t bytes = static_cast<std::int64_t>(manifest_.storages[leaf.storage].bytes);
    if (!empty && (last + 1) > bytes / static_cast<std::int64_t>(element)) {
      return bad("tensor '" + path + "' leaves its storage");
    }
    std::int64_t elements = 1;
    for (const std::int64_t size : leaf.size) {  // an expanded tensor has more elements than its storage
      if (__builtin_mul_overflow(elements, size, &elements) || elements > kMostBytes) {
        return bad("tensor '" + path + "' has too many elements");
      }
    }
    manifest_.tensors.push_back(std::move(leaf));
    return ok();
  }

  Manifest& manifest_;
  std::size_t nodes_ = 0;
};

}  // namespace

std::int64_t TensorLeaf::count() const {
  std::int64_t result = 1;
  for (const std::int64_t n : size) {
    result *= n;
  }
  return result;
}

std::string strides_note(const Manifest& manifest) {
  std::string note;
  for (const TensorLeaf& leaf : manifest.tensors) {
    std::int64_t step = 1;
    bool dense = true;
    for (std::size_t i = leaf.size.size(); i-- > 0;) {
      dense = dense && (leaf.size[i] <= 1 || leaf.stride[i] == step);
      step *= leaf.size[i];
    }
    if (!dense && step > 0) {
      note += (note.empty() ? "" : "; ") + (leaf.name.empty() ? leaf.path : leaf.name) + " (size " +
              Json(leaf.size).dump() + ", stride " + Json(leaf.stride).dump() + ") is not contiguous";
    }
  }
  return note;
}

std::size_t dtype_bytes(const std::string& dtype) {
  static const std::map<std::string, std::size_t> sizes = {
      {"float32", 4}, {"float64", 8},   {"float16", 2},     {"bfloat16", 2},  {"bool", 1},          {"int8", 1},
      {"uint8", 1},   {"int16", 2},     {"uint16", 2},      {"int32", 4},     {"uint32", 4},        {"int64", 8},
      {"uint64", 8},  {"complex64", 8}, {"complex128", 16}, {"complex32", 4}, {"float8_e4m3fn", 1}, {"float8_e5m2", 1}};
  const auto found = sizes.find(dtype);
  return found == sizes.end() ? 0 : found->second;
}

std::vector<Storage> lay_out(const std::vector<std::size_t>& bytes) {
  std::vector<Storage> result;
  std::size_t offset = 0;
  for (const std::size_t size : bytes) {
    result.push_back({size, offset});
    offset = (offset + size + kLayoutAlignment - 1) / kLayoutAlignment * kLayoutAlignment;
  }
  return result;
}

Result<Manifest> Manifest::parse(const Json& json) {
  if (!json.is_object() || !json.contains("storages") || !json["storages"].is_array() || !json.contains("tree")) {
    return bad("storages and tree are required");
  }
  if (json["storages"].size() > kMostStorages) {
    return bad("too many storages");
  }
  Manifest result;
  for (const Json& storage : json["storages"]) {
    std::int64_t bytes = 0;
    std::int64_t offset = 0;
    if (!storage.is_object() || !whole(storage, "bytes", bytes) || !whole(storage, "offset", offset) ||
        offset % static_cast<std::int64_t>(kStorageAlignment) != 0) {
      return bad("a storage has bytes and an offset that is a multiple of 64");
    }
    result.storages.push_back({static_cast<std::size_t>(bytes), static_cast<std::size_t>(offset)});
    const std::size_t end = static_cast<std::size_t>(bytes + offset);
    result.region_bytes =
        std::max(result.region_bytes, (end + kLayoutAlignment - 1) / kLayoutAlignment * kLayoutAlignment);
  }
  result.tree = json["tree"];
  const Status status = TreeReader(result).read(result.tree, "", "", 0);
  if (!status) {
    return status.failure();
  }
  return result;
}

Json Manifest::to_json() const {
  Json list = Json::array();
  for (const Storage& storage : storages) {
    list.push_back({{"bytes", storage.bytes}, {"offset", storage.offset}});
  }
  return {{"storages", std::move(list)}, {"tree", tree}};
}

}  // namespace khost::sandbox
