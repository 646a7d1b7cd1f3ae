#include "trainer/model/gguf_model.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <stdexcept>

#include "trainer/learn/checkpoint.h"
#include "trainer/model/gguf.h"
#include "trainer/model/gguf_blocks.h"
#include "trainer/model/gguf_metadata.h"
#include "trainer/model/gguf_names.h"
#include "trainer/model/safetensors.h"
#include "trainer/model/tokenizer.h"
#include "trainer/model/weights.h"

namespace khost::trainer {
namespace {

constexpr const char* kEmbedding = "token_embd.weight";
constexpr const char* kOutput = "output.weight";

void read_rows(const std::string& name, const GgufTensor& tensor, int64_t row, std::span<float> out) {
  if (const Status read = dequantize_rows(tensor, row, out); !read) {
    throw std::runtime_error("tensor " + name + " " + read.failure().message);
  }
}

// How far two stored forms of one matrix may stand apart, relative to its size: three times what each format rounds.
double rounding(const GgufTensor& tensor) {
  const GgufFormat* format = gguf_format(tensor.type);
  return format == nullptr ? 0 : 3 * std::exp2(-format->bits);
}

// Whether the output matrix is the embedding again. Compared by the root mean square of all elements.
bool same_matrix(const GgufTensor& embedding, const GgufTensor& output) {
  if (embedding.shape != output.shape) {
    return false;
  }
  const int64_t columns = output.shape.back();
  const int64_t rows = output.elements() / columns;
  const int64_t most = std::max<int64_t>(1, (int64_t{1} << 20) / columns);
  std::vector<float> a;
  std::vector<float> b;
  double apart = 0;
  double size = 0;
  for (int64_t row = 0; row < rows; row += most) {
    const auto count = static_cast<size_t>(std::min(most, rows - row) * columns);
    a.resize(count);
    b.resize(count);
    read_rows(kEmbedding, embedding, row, a);
    read_rows(kOutput, output, row, b);
    for (size_t i = 0; i < count; ++i) {
      const double gap = static_cast<double>(a[i]) - b[i];
      apart += gap * gap;
      size += static_cast<double>(b[i]) * b[i];
    }
  }
  return std::sqrt(apart) <= (rounding(embedding) + rounding(output)) * std::sqrt(size);
}

// Files of the llama family hold the rows of a q or k head interleaved: row 2i + s stands for row s*half + i.
void restore_rows(std::span<float> values, int64_t head_width, int64_t columns) {
  const auto head_size = static_cast<size_t>(head_width * columns);
  std::vector<float> head(head_size);
  const int64_t half = head_width / 2;
  for (size_t begin = 0; begin + head_size <= values.size(); begin += head_size) {
    for (int64_t row = 0; row < head_width; ++row) {
      const int64_t from = 2 * (row % half) + row / half;
      std::copy_n(values.data() + begin + static_cast<size_t>(from * columns), columns,
                  head.data() + static_cast<size_t>(row * columns));
    }
    std::copy(head.begin(), head.end(), values.data() + begin);
  }
}

// A file that is being made into a folder.
class Conversion {
 public:
  explicit Conversion(const Gguf& file) : file_(file), tensors_(file.tensors()) {
    const auto embedding = tensors_.find(kEmbedding);
    const auto output = tensors_.find(kOutput);
    const bool both = embedding != tensors_.end() && output != tensors_.end();
    tied_ = output == tensors_.end() || (both && same_matrix(embedding->second, output->second));
    config_ = gguf_config(file, tied_);
    if (both && tied_ && rounding(output->second) < rounding(embedding->second)) {
      embedding_name_ = kOutput;
    }
    if (config_.layers > static_cast<int64_t>(tensors_.size())) {
      throw std::runtime_error("key " + config_.family + ".block_count is " + std::to_string(config_.layers) +
                               ", but the file has only " + std::to_string(tensors_.size()) + " tensors");
    }
    shapes_ = weight_shapes(config_, Head::vocabulary);
    check_tensors();
    tokenizer_ = gguf_tokenizer(file);
    Result<Tokenizer> opened = Tokenizer::from_json(tokenizer_);
    if (!opened) {
      throw std::runtime_error(opened.failure().message);
    }
    if (opened->size() > config_.vocabulary) {
      throw std::runtime_error("the tokenizer has " + std::to_string(opened->size()) + " tokens, tensor " + kEmbedding +
                               " only " + std::to_string(config_.vocabulary) + " rows");
    }
  }

  Status write(const std::string& place) const {
    const std::pair<const char*, Json> files[] = {{"config.json", write_config(config_)},
                                                  {"generation_config.json", gguf_generation_config(file_)},
                                                  {"tokenizer.json", tokenizer_},
                                                  {"tokenizer_config.json", gguf_tokenizer_config(file_)},
                                                  {"special_tokens_map.json", gguf_special_tokens(file_)}};
    for (const auto& [name, json] : files) {
      if (const Status done = write_json(place + "/" + name, json); !done) {
        return done;
      }
    }
    return write_safetensors(place + "/model.safetensors", shapes_, {{"format", "pt"}},
                             [this](size_t index, std::span<float> out) { return fill(shapes_[index].name, out); });
  }

 private:
  std::string stored_name(const std::string& hugging_face) const {
    const std::string name = gguf_name(hugging_face);
    return name == kEmbedding ? embedding_name_ : name;
  }

  // Every tensor of the model is there, in its shape and in a format that is read, and nothing else is.
  void check_tensors() const {
    std::set<std::string> known = {kEmbedding, kOutput};
    for (const TensorShape& wanted : shapes_) {
      const std::string name = stored_name(wanted.name);
      known.insert(name);
      const auto found = tensors_.find(name);
      if (found == tensors_.end()) {
        throw std::runtime_error("tensor " + name + " is missing: the file is no whole model of this shape");
      }
      if (found->second.shape != wanted.shape) {
        throw std::runtime_error("tensor " + name + " has shape " + Json(found->second.shape).dump() + ", expected " +
                                 Json(wanted.shape).dump() + " by the file's own keys");
      }
      if (gguf_format(found->second.type) == nullptr) {
        read_rows(name, found->second, 0, {});
      }
    }
    for (const auto& [name, tensor] : tensors_) {
      if (!known.contains(name)) {
        throw std::runtime_error("tensor " + name + " is not part of a " + config_.family +
                                 " model as khost computes it");
      }
    }
  }

  Status fill(const std::string& name, std::span<float> out) const {
    const std::string stored = stored_name(name);
    const GgufTensor& tensor = tensors_.at(stored);
    if (const Status read = dequantize(tensor, out); !read) {
      return Failure{"tensor " + stored + " " + read.failure().message, read.failure().code};
    }
    if (!std::all_of(out.begin(), out.end(), [](float x) { return std::isfinite(x); })) {
      return Failure{"tensor " + stored + " holds numbers that are not finite: the file is damaged, fetch it again",
                     "bad_input"};
    }
    if (config_.family == "llama" && (stored.ends_with(".attn_q.weight") || stored.ends_with(".attn_k.weight"))) {
      restore_rows(out, config_.head_width, tensor.shape.back());
    }
    return ok();
  }

  const Gguf& file_;
  const std::map<std::string, GgufTensor>& tensors_;
  bool tied_ = false;
  ModelConfig config_;
  std::string embedding_name_ = kEmbedding;
  std::vector<TensorShape> shapes_;
  Json tokenizer_;
};

}  // namespace

Status convert_gguf(const std::string& path, const std::string& directory) {
  const Result<Gguf> file = Gguf::open(path);
  if (!file) {
    return file.failure();
  }
  try {
    const Conversion conversion(file.value());
    const Status made = write_checkpoint(directory, [&](const std::string& place) { return conversion.write(place); });
    return made || made.failure().code == "io" ? made : Failure{path + ": " + made.failure().message, "bad_input"};
  } catch (const std::exception& error) {
    return Failure{path + ": " + error.what(), "bad_input"};
  }
}

}  // namespace khost::trainer
