// A manifest: how nested Python values lie in a region of shared memory. A region holds storages; the tree
// has a leaf for every tensor, with the storage it views. The items of a tuple, a list and a dict are arrays, those of
// a dict with their keys as "name", so that the order is the task's own. Manifests come from untrusted processes:
// parse() checks every number against the storages, so that what passed can be indexed without further thought.
// Values; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "host/base/json.h"
#include "host/base/result.h"

namespace khost::sandbox {

inline constexpr std::size_t kStorageAlignment = 64;  // what every storage has
// What layouts made here give: on a GPU a launcher may count on 256 bytes (khost.h).
inline constexpr std::size_t kLayoutAlignment = 256;

struct Storage {
  std::size_t bytes = 0;
  std::size_t offset = 0;  // in the region
};

struct TensorLeaf {
  std::string path;  // "1.weight": keys and positions from the root, joined by dots
  std::string name;  // of forward's argument or of the state-dict entry; may be empty
  std::string dtype;
  std::size_t storage = 0;
  std::vector<std::int64_t> size;
  std::vector<std::int64_t> stride;  // in elements
  std::int64_t offset = 0;           // in elements
  std::int64_t count() const;        // elements
};

struct ScalarLeaf {
  std::string path;
  std::string name;
  Json value;
};

struct Manifest {
  std::vector<Storage> storages;
  std::vector<TensorLeaf> tensors;  // in tree order
  std::vector<ScalarLeaf> scalars;
  Json tree;
  std::size_t region_bytes = 0;  // end of the last storage, rounded up to the alignment

  static Result<Manifest> parse(const Json& json);
  Json to_json() const;
};

// Offsets one behind the other, each on the alignment.
std::vector<Storage> lay_out(const std::vector<std::size_t>& bytes);

// "x (size [512,768], stride [1,512]) is not contiguous" for each tensor that a kernel which reads it as dense
// misreads;
// empty when all are contiguous. For whoever is told that a kernel is wrong.
std::string strides_note(const Manifest& manifest);

// Bytes of an element, 0 for a dtype that does not exist.
std::size_t dtype_bytes(const std::string& dtype);

}  // namespace khost::sandbox
