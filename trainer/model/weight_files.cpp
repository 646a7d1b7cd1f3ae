#include "trainer/model/weight_files.h"

#include <filesystem>
#include <map>

#include "trainer/learn/checkpoint.h"
#include "trainer/model/safetensors.h"

namespace khost::trainer {
namespace {

constexpr const char* kSingle = "/model.safetensors";
constexpr const char* kIndex = "/model.safetensors.index.json";

// The files of a model, opened when their first tensor is asked for.
class TensorFiles {
 public:
  static Result<TensorFiles> open(const std::string& directory) {
    TensorFiles made;
    made.directory_ = directory;
    const std::string index = directory + kIndex;
    if (std::filesystem::exists(directory + kSingle) || !std::filesystem::exists(index)) {
      made.single_ = true;
      return made;
    }
    const Result<Json> read = read_json(index);
    if (!read) {
      return read.failure();
    }
    const Json& json = read.value();
    if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object()) {
      return Failure{index + ": weight_map is missing or no object", "bad_input"};
    }
    for (const auto& [name, file] : json["weight_map"].items()) {
      if (!file.is_string() || file.get_ref<const std::string&>().find('/') != std::string::npos) {
        return Failure{index + ": weight_map." + name + " is no file name", "bad_input"};
      }
      made.places_[name] = file.get<std::string>();
    }
    return made;
  }

  // Null when no file has the tensor.
  Result<const SafeTensors*> file_of(const std::string& name) {
    std::string file = kSingle + 1;
    if (!single_) {
      const auto found = places_.find(name);
      if (found == places_.end()) {
        return static_cast<const SafeTensors*>(nullptr);
      }
      file = found->second;
    }
    auto open = open_.find(file);
    if (open == open_.end()) {
      Result<SafeTensors> opened = SafeTensors::open(directory_ + "/" + file);
      if (!opened) {
        return opened.failure();
      }
      open = open_.emplace(file, std::move(opened).value()).first;
    }
    return open->second.tensors().contains(name) ? &open->second : nullptr;
  }

  std::string where(const std::string& name) const {
    const auto found = places_.find(name);
    return directory_ + (single_ ? kSingle : found == places_.end() ? kIndex : "/" + found->second);
  }

 private:
  bool single_ = false;
  std::string directory_;
  std::map<std::string, std::string> places_;
  std::map<std::string, SafeTensors> open_;
};

}  // namespace

Status save_weights(const Weights& weights, const std::string& path) {
  const at::Tensor host = weights.flat.cpu();
  std::vector<FloatTensor> tensors;
  for (const WeightEntry& entry : weight_entries(weights, host.data_ptr<float>())) {
    tensors.push_back({entry.name, entry.shape, entry.data});
  }
  return write_safetensors(path, tensors, {{"format", "pt"}});
}

Status load_weights(Weights& weights, const std::string& directory) {
  Result<TensorFiles> files = TensorFiles::open(directory);
  if (!files) {
    return files.failure();
  }
  const at::NoGradGuard no_grad;
  const at::Tensor host = weights.flat.cpu();  // the weights themselves where they are the host's
  for (const WeightEntry& entry : weight_entries(weights, host.data_ptr<float>())) {
    const Result<const SafeTensors*> file = files->file_of(entry.name);
    if (!file) {
      return file.failure();
    }
    if (*file == nullptr) {
      if (entry.name.starts_with("value_head.")) {
        continue;
      }
      return Failure{files->where(entry.name) + ": tensor " + entry.name + " is missing", "bad_input"};
    }
    int64_t count = 1;
    for (const int64_t size : entry.shape) {
      count *= size;
    }
    if (const Status read = (*file)->read_floats(entry.name, entry.shape, {entry.data, static_cast<size_t>(count)});
        !read) {
      return Failure{files->where(entry.name) + ": " + read.failure().message, read.failure().code};
    }
  }
  if (weights.on_device()) {
    weights.flat.copy_(host);
  }
  round_weights(weights);
  return ok();
}

}  // namespace khost::trainer
