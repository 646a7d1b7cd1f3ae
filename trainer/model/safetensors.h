// Reads and writes safetensors files: 8 bytes of header length, a JSON header, raw little-endian data. Nothing in a
// file is executed; lengths and offsets are checked against the file before anything is allocated.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "host/base/result.h"
#include "trainer/model/mapped_file.h"

namespace khost::trainer {

struct StoredTensor {
  std::string dtype;  // F32, F16, BF16, I64, ...
  std::vector<int64_t> shape;
  std::string_view bytes;
};

// A file mapped for reading; the views in `tensors` live as long as the object.
class SafeTensors {
 public:
  static Result<SafeTensors> open(const std::string& path);

  const std::map<std::string, StoredTensor>& tensors() const { return tensors_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

  // The named tensor as fp32 (from F32, F16 or BF16) when its shape is `shape`.
  Result<std::vector<float>> read_floats(const std::string& name, const std::vector<int64_t>& shape) const;
  // The same into `out`, which holds as many numbers as the shape.
  Status read_floats(const std::string& name, const std::vector<int64_t>& shape, std::span<float> out) const;

 private:
  SafeTensors() = default;
  MappedFile file_;
  std::map<std::string, StoredTensor> tensors_;
  std::map<std::string, std::string> metadata_;
};

struct FloatTensor {
  std::string name;
  std::vector<int64_t> shape;
  const float* data;
};

// Writes fp32 tensors in the given order. The caller renames; nothing is visible under another name before.
Status write_safetensors(const std::string& path, const std::vector<FloatTensor>& tensors,
                         const std::map<std::string, std::string>& metadata);

// The same one tensor after the other, for models that do not fit into memory beside their source: `fill` gets the
// index of a tensor and a place for its numbers. Its first failure is the answer.
struct TensorShape {
  std::string name;
  std::vector<int64_t> shape;
};
Status write_safetensors(const std::string& path, const std::vector<TensorShape>& tensors,
                         const std::map<std::string, std::string>& metadata,
                         const std::function<Status(size_t, std::span<float>)>& fill);

}  // namespace khost::trainer
