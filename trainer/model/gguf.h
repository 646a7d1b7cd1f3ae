// Reads GGUF files (versions 2 and 3): typed metadata, then tensors in block-quantised formats. Nothing in a file is
// executed; counts, lengths and offsets are checked against the file before anything is allocated.
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
  std::string_view bytes;
};

class Gguf {
 public:
  // Failures name the file and what is wrong in it.
  static Result<Gguf> open(const std::string& path);

  const std::map<std::string, Json>& metadata() const { return metadata_; }
  const std::map<std::string, GgufTensor>& tensors() const { return tensors_; }

 private:
  MappedFile file_;
  std::map<std::string, Json> metadata_;
  std::map<std::string, GgufTensor> tensors_;
};

// F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1 and Q8_0 as fp32; other formats fail with their number.
// `out` has one place for every element.
Status dequantize(const GgufTensor& tensor, std::span<float> out);

}  // namespace khost::trainer
