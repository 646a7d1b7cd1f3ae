#include "trainer/model/safetensors.h"

#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <stdexcept>

#include "host/base/json.h"
#include "host/base/json_text.h"
#include "trainer/model/halves.h"

namespace khost::trainer {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr uint64_t kLongestHeader = 100'000'000;  // the format's own limit

size_t item_size(const std::string& dtype) {
  static const std::map<std::string, size_t> sizes = {{"F64", 8}, {"F32", 4}, {"F16", 2}, {"BF16", 2}, {"I64", 8},
                                                      {"I32", 4}, {"I16", 2}, {"I8", 1},  {"U8", 1},   {"BOOL", 1},
                                                      {"U16", 2}, {"U32", 4}, {"U64", 8}};
  const auto found = sizes.find(dtype);
  return found == sizes.end() ? 0 : found->second;
}

// Throws Json::exception or std::runtime_error with what is wrong in the header.
StoredTensor read_entry(const std::string& name, const Json& entry, std::string_view data) {
  StoredTensor tensor;
  tensor.dtype = entry.at("dtype").get<std::string>();
  tensor.shape = entry.at("shape").get<std::vector<int64_t>>();
  const auto offsets = entry.at("data_offsets").get<std::vector<uint64_t>>();
  const size_t item = item_size(tensor.dtype);
  if (item == 0) {
    throw std::runtime_error(name + " has unknown dtype " + tensor.dtype);
  }
  unsigned __int128 bytes = item;
  for (const int64_t size : tensor.shape) {
    if (size < 0 || bytes > data.size()) {
      throw std::runtime_error(name + " has an impossible shape");
    }
    bytes *= static_cast<uint64_t>(size);
  }
  if (offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] > data.size() || offsets[1] - offsets[0] != bytes) {
    throw std::runtime_error(name + " lies outside the file or has the wrong length");
  }
  tensor.bytes = data.substr(offsets[0], offsets[1] - offsets[0]);
  return tensor;
}

size_t element_count(const std::vector<int64_t>& shape) {
  size_t count = 1;
  for (const int64_t size : shape) {
    count *= static_cast<size_t>(size);
  }
  return count;
}

// The length of the header, then the header, so long that the data begin at a multiple of 8.
std::string header_of(const std::vector<TensorShape>& tensors, const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header;
  if (!metadata.empty()) {
    header["__metadata__"] = metadata;
  }
  uint64_t offset = 0;
  for (const TensorShape& tensor : tensors) {
    const uint64_t bytes = sizeof(float) * element_count(tensor.shape);
    header[tensor.name] = {{"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {offset, offset + bytes}}};
    offset += bytes;
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  const uint64_t length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + text;
}

void put_numbers(std::ofstream& out, std::span<const float> numbers) {
  out.write(reinterpret_cast<const char*>(numbers.data()), static_cast<std::streamsize>(numbers.size_bytes()));
}

Status close_file(std::ofstream& out, const std::string& path) {
  out.close();
  return out ? ok() : Status(Failure{"write " + path + ": " + std::strerror(errno), "io"});
}

}  // namespace

Result<SafeTensors> SafeTensors::open(const std::string& path) {
  Result<MappedFile> mapped = MappedFile::open(path);
  if (!mapped) {
    return mapped.failure();
  }
  SafeTensors file;
  file.file_ = std::move(mapped).value();
  const std::string_view all = file.file_.bytes();
  if (all.size() < 8) {
    return Failure{path + " is too short for a safetensors file", "bad_input"};
  }
  uint64_t header = 0;
  std::memcpy(&header, all.data(), 8);
  if (header > kLongestHeader || header > all.size() - 8) {
    return Failure{path + " has a header longer than the file", "bad_input"};
  }
  try {
    const Result<Json> parsed = parse_json(all.substr(8, header));
    if (!parsed) {
      throw std::runtime_error("the header: " + parsed.failure().message);
    }
    const Json& json = parsed.value();
    const std::string_view data = all.substr(8 + header);
    if (!json.is_object()) {
      throw std::runtime_error("the header is no JSON object");
    }
    for (const auto& [name, entry] : json.items()) {
      if (name == "__metadata__") {
        file.metadata_ = entry.get<std::map<std::string, std::string>>();
      } else {
        file.tensors_[name] = read_entry(name, entry, data);
      }
    }
  } catch (const std::exception& error) {
    return Failure{path + ": " + error.what(), "bad_input"};
  }
  return file;
}

Result<std::vector<float>> SafeTensors::read_floats(const std::string& name, const std::vector<int64_t>& shape) const {
  const auto found = tensors_.find(name);
  std::vector<float> out(found == tensors_.end() ? 0 : found->second.bytes.size() / item_size(found->second.dtype));
  if (const Status read = read_floats(name, shape, out); !read) {
    return read.failure();
  }
  return out;
}

Status SafeTensors::read_floats(const std::string& name, const std::vector<int64_t>& shape,
                                std::span<float> out) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) {
    return Failure{"tensor " + name + " is missing", "bad_input"};
  }
  const StoredTensor& tensor = found->second;
  if (tensor.shape != shape) {
    return Failure{"tensor " + name + " has shape " + Json(tensor.shape).dump() + ", expected " + Json(shape).dump(),
                   "bad_input"};
  }
  if (tensor.dtype == "F32") {
    std::memcpy(out.data(), tensor.bytes.data(), tensor.bytes.size());
    return ok();
  }
  if (tensor.dtype != "F16" && tensor.dtype != "BF16") {
    return Failure{"tensor " + name + " has dtype " + tensor.dtype + ", expected F32, F16 or BF16", "bad_input"};
  }
  for (size_t i = 0; i < out.size(); ++i) {
    uint16_t bits;
    std::memcpy(&bits, tensor.bytes.data() + 2 * i, 2);
    out[i] = tensor.dtype == "F16" ? half_to_float(bits) : brain_to_float(bits);
  }
  return ok();
}

Status write_safetensors(const std::string& path, const std::vector<FloatTensor>& tensors,
                         const std::map<std::string, std::string>& metadata) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  std::vector<TensorShape> shapes;
  for (const FloatTensor& tensor : tensors) {
    shapes.push_back({tensor.name, tensor.shape});
  }
  out << header_of(shapes, metadata);
  for (const FloatTensor& tensor : tensors) {
    put_numbers(out, {tensor.data, element_count(tensor.shape)});
  }
  return close_file(out, path);
}

Status write_safetensors(const std::string& path, const std::vector<TensorShape>& tensors,
                         const std::map<std::string, std::string>& metadata,
                         const std::function<Status(size_t, std::span<float>)>& fill) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << header_of(tensors, metadata);
  std::vector<float> numbers;
  for (size_t i = 0; i < tensors.size() && out; ++i) {
    numbers.resize(element_count(tensors[i].shape));
    if (const Status filled = fill(i, numbers); !filled) {
      return filled;
    }
    put_numbers(out, numbers);
  }
  return close_file(out, path);
}

}  // namespace khost::trainer
