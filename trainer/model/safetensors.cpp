#include "trainer/model/safetensors.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <stdexcept>

#include "host/base/json.h"

namespace khost::trainer {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr uint64_t kLongestHeader = 100'000'000;  // the format's own limit

size_t item_size(const std::string& dtype) {
  static const std::map<std::string, size_t> sizes = {{"F64", 8}, {"F32", 4}, {"F16", 2},     {"BF16", 2}, {"I64", 8},
                                                      {"I32", 4}, {"I16", 2}, {"I8", 1},      {"U8", 1},   {"BOOL", 1},
                                                      {"U16", 2}, {"U32", 4}, {"U64", 8}};
  const auto found = sizes.find(dtype);
  return found == sizes.end() ? 0 : found->second;
}

float half_to_float(uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000) << 16;
  const uint32_t exponent = (h >> 10) & 0x1f;
  uint32_t mantissa = h & 0x3ff;
  if (exponent == 0) {
    const float value = std::ldexp(static_cast<float>(mantissa), -24);
    return sign ? -value : value;
  }
  const uint32_t bits = exponent == 31 ? (sign | 0x7f800000 | (mantissa << 13))
                                       : (sign | ((exponent + 112) << 23) | (mantissa << 13));
  return std::bit_cast<float>(bits);
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

}  // namespace

SafeTensors::SafeTensors(SafeTensors&& other) noexcept
    : map_(std::exchange(other.map_, nullptr)),
      length_(other.length_),
      tensors_(std::move(other.tensors_)),
      metadata_(std::move(other.metadata_)) {}

SafeTensors::~SafeTensors() {
  if (map_ != nullptr) {
    munmap(map_, length_);
  }
}

Result<SafeTensors> SafeTensors::open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return Failure{"open " + path + ": " + std::strerror(errno), "io"};
  }
  struct stat info = {};
  fstat(fd, &info);
  SafeTensors file;
  file.length_ = static_cast<size_t>(info.st_size);
  if (file.length_ < 8) {
    ::close(fd);
    return Failure{path + " is too short for a safetensors file", "bad_input"};
  }
  void* map = mmap(nullptr, file.length_, PROT_READ, MAP_PRIVATE, fd, 0);
  ::close(fd);
  if (map == MAP_FAILED) {
    return Failure{"mmap " + path + ": " + std::strerror(errno), "io"};
  }
  file.map_ = map;
  const std::string_view all(static_cast<const char*>(map), file.length_);
  uint64_t header = 0;
  std::memcpy(&header, all.data(), 8);
  if (header > kLongestHeader || header > all.size() - 8) {
    return Failure{path + " has a header longer than the file", "bad_input"};
  }
  try {
    const Json json = Json::parse(all.substr(8, header));
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
  if (found == tensors_.end()) {
    return Failure{"tensor " + name + " is missing", "bad_input"};
  }
  const StoredTensor& tensor = found->second;
  if (tensor.shape != shape) {
    return Failure{"tensor " + name + " has another shape than the config says", "bad_input"};
  }
  const size_t count = tensor.bytes.size() / item_size(tensor.dtype);
  std::vector<float> out(count);
  if (tensor.dtype == "F32") {
    std::memcpy(out.data(), tensor.bytes.data(), tensor.bytes.size());
    return out;
  }
  if (tensor.dtype != "F16" && tensor.dtype != "BF16") {
    return Failure{"tensor " + name + " has dtype " + tensor.dtype + ", expected F32, F16 or BF16", "bad_input"};
  }
  for (size_t i = 0; i < count; ++i) {
    uint16_t bits;
    std::memcpy(&bits, tensor.bytes.data() + 2 * i, 2);
    out[i] = tensor.dtype == "F16" ? half_to_float(bits) : std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  }
  return out;
}

Status write_safetensors(const std::string& path, const std::vector<FloatTensor>& tensors,
                         const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header;
  if (!metadata.empty()) {
    header["__metadata__"] = metadata;
  }
  uint64_t offset = 0;
  std::vector<uint64_t> lengths;
  for (const FloatTensor& tensor : tensors) {
    uint64_t bytes = sizeof(float);
    for (const int64_t size : tensor.shape) {
      bytes *= static_cast<uint64_t>(size);
    }
    header[tensor.name] = {{"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {offset, offset + bytes}}};
    lengths.push_back(bytes);
    offset += bytes;
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');  // data begins at a multiple of 8
  const uint64_t length = text.size();
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(reinterpret_cast<const char*>(&length), 8);
  out << text;
  for (size_t i = 0; i < tensors.size(); ++i) {
    out.write(reinterpret_cast<const char*>(tensors[i].data), static_cast<std::streamsize>(lengths[i]));
  }
  out.close();
  if (!out) {
    return Failure{"write " + path + ": " + std::strerror(errno), "io"};
  }
  return ok();
}

}  // namespace khost::trainer
