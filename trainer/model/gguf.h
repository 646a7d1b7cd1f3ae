// Reads GGUF files (versions 2 and 3): typed metadata, then tensors in the formats of gguf_blocks.h. Nothing in a file
// is executed; counts, lengths and offsets are checked against the file before anything is allocated.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "host/base/json.h"
#include "host/base/result.h"
#include "trainer/model/mapped_file.h"

namespace khost::trainer {

struct GgufTensor {
  uint32_t type = 0;           // ggml's number
  std::vector<int64_t> shape;  // rows first, as PyTorch writes it; files hold it the other way round
  std::string_view bytes;      // empty where the format is not read

  int64_t elements() const;
};

// A file mapped for reading; the views in its tensors live as long as the object.
class Gguf {
 public:
  // Failures name the file, the tensor or key, what is wrong with it, and what to do. Tensors in a format that is not
  // read are no failure: they fail when they are asked for.
  static Result<Gguf> open(const std::string& path);

  const std::map<std::string, Json>& metadata() const { return metadata_; }
  const std::map<std::string, GgufTensor>& tensors() const { return tensors_; }

 private:
  MappedFile file_;
  std::map<std::string, Json> metadata_;
  std::map<std::string, GgufTensor> tensors_;
};

// As fp32; a failure names the format and those that are read. `out` has one place for every element.
Status dequantize(const GgufTensor& tensor, std::span<float> out);
// Only the rows from `row` on that `out` holds, of a tensor with rows.
Status dequantize_rows(const GgufTensor& tensor, int64_t row, std::span<float> out);

}  // namespace khost::trainer
