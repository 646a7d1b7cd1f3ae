#include "trainer/model/gguf.h"

#include <cstring>
#include <stdexcept>

#include "trainer/model/halves.h"

namespace khost::trainer {
namespace {

constexpr uint64_t kMostTensors = 1 << 20;
constexpr int64_t kLargestSize = int64_t{1} << 40;

// ggml's block formats: how many elements share how many bytes.
struct Format {
  uint32_t type;
  int64_t elements, bytes;
};
constexpr Format kFormats[] = {{0, 1, 4},   {1, 1, 2},   {2, 32, 18}, {3, 32, 20},
                               {6, 32, 22}, {7, 32, 24}, {8, 32, 34}, {30, 1, 2}};

const Format* format_of(uint32_t type) {
  for (const Format& format : kFormats) {
    if (format.type == type) {
      return &format;
    }
  }
  return nullptr;
}

// A cursor that throws instead of running over the end.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  template <class T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }

  std::string text() { return std::string(take(number<uint64_t>())); }

  std::string_view take(uint64_t count) {
    if (count > bytes_.size() - at_) {
      throw std::runtime_error("ends in the middle of its header");
    }
    const std::string_view part = bytes_.substr(at_, count);
    at_ += count;
    return part;
  }

  size_t position() const { return at_; }
  uint64_t left() const { return bytes_.size() - at_; }

 private:
  std::string_view bytes_;
  size_t at_ = 0;
};

constexpr uint32_t kArray = 9;

Json read_value(Reader& in, uint32_t type, int depth) {
  switch (type) {
    case 0:
      return in.number<uint8_t>();
    case 1:
      return in.number<int8_t>();
    case 2:
      return in.number<uint16_t>();
    case 3:
      return in.number<int16_t>();
    case 4:
      return in.number<uint32_t>();
    case 5:
      return in.number<int32_t>();
    case 6:
      return in.number<float>();
    case 7:
      return in.number<uint8_t>() != 0;
    case 8:
      return in.text();
    case 10:
      return in.number<uint64_t>();
    case 11:
      return in.number<int64_t>();
    case 12:
      return in.number<double>();
    case kArray:
      break;
    default:
      throw std::runtime_error("has a value of unknown type " + std::to_string(type));
  }
  const auto element = in.number<uint32_t>();
  const auto count = in.number<uint64_t>();
  if (element == kArray && depth > 2) {
    throw std::runtime_error("has arrays nested too deep");
  }
  if (count > in.left()) {  // every element takes a byte at least
    throw std::runtime_error("has an array of " + std::to_string(count) + " elements, longer than the file");
  }
  Json list = Json::array();
  for (uint64_t i = 0; i < count; ++i) {
    list.push_back(read_value(in, element, depth + 1));
  }
  return list;
}

struct Placed {
  std::string name;
  GgufTensor tensor;
  uint64_t offset;
};

Placed read_tensor(Reader& in) {
  Placed placed;
  placed.name = in.text();
  const auto dimensions = in.number<uint32_t>();
  if (dimensions > 4) {
    throw std::runtime_error("tensor " + placed.name + " has " + std::to_string(dimensions) + " dimensions");
  }
  for (uint32_t i = 0; i < dimensions; ++i) {
    const auto size = in.number<int64_t>();
    if (size < 0 || size > kLargestSize) {
      throw std::runtime_error("tensor " + placed.name + " has an impossible shape");
    }
    placed.tensor.shape.insert(placed.tensor.shape.begin(), size);
  }
  placed.tensor.type = in.number<uint32_t>();
  placed.offset = in.number<uint64_t>();
  return placed;
}

// Formats that are not read stay in the list without bytes: they only fail when they are asked for.
void set_bytes(Placed& placed, std::string_view data) {
  const Format* format = format_of(placed.tensor.type);
  if (format == nullptr) {
    return;
  }
  unsigned __int128 count = 1;
  for (const int64_t size : placed.tensor.shape) {
    count *= static_cast<uint64_t>(size);
    if (count > static_cast<uint64_t>(kLargestSize)) {
      throw std::runtime_error("tensor " + placed.name + " has an impossible shape");
    }
  }
  const int64_t row = placed.tensor.shape.empty() ? 1 : placed.tensor.shape.back();
  if (row % format->elements != 0) {
    throw std::runtime_error("tensor " + placed.name + " has rows that are no whole number of blocks");
  }
  const auto bytes =
      static_cast<uint64_t>(count) / static_cast<uint64_t>(format->elements) * static_cast<uint64_t>(format->bytes);
  if (placed.offset > data.size() || bytes > data.size() - placed.offset) {
    throw std::runtime_error("tensor " + placed.name + " lies outside the file");
  }
  placed.tensor.bytes = data.substr(placed.offset, bytes);
}

uint16_t bits16(const char* at) {
  uint16_t bits;
  std::memcpy(&bits, at, 2);
  return bits;
}

// 32 four-bit numbers in 16 bytes, the first 16 in the low halves; five-bit formats add a fifth from a bit field.
void unpack(const char* nibbles, const char* fifth, int* out) {
  uint32_t high = 0;
  if (fifth != nullptr) {
    std::memcpy(&high, fifth, 4);
  }
  for (int i = 0; i < 16; ++i) {
    const auto byte = static_cast<unsigned char>(nibbles[i]);
    out[i] = (byte & 15) | static_cast<int>((high >> i & 1) << 4);
    out[i + 16] = (byte >> 4) | static_cast<int>((high >> (i + 16) & 1) << 4);
  }
}

void read_block(uint32_t type, const char* block, float* out) {
  const float scale = half_to_float(bits16(block));
  if (type == 8) {
    for (int i = 0; i < 32; ++i) {
      out[i] = scale * static_cast<float>(static_cast<signed char>(block[2 + i]));
    }
    return;
  }
  const bool has_minimum = type == 3 || type == 7;
  const bool five = type == 6 || type == 7;
  const char* next = block + (has_minimum ? 4 : 2);
  int numbers[32];
  unpack(next + (five ? 4 : 0), five ? next : nullptr, numbers);
  const float minimum = has_minimum ? half_to_float(bits16(block + 2)) : 0;
  const int zero = has_minimum ? 0 : (five ? 16 : 8);
  for (int i = 0; i < 32; ++i) {
    out[i] = scale * static_cast<float>(numbers[i] - zero) + minimum;
  }
}

}  // namespace

Result<Gguf> Gguf::open(const std::string& path) {
  Result<MappedFile> mapped = MappedFile::open(path);
  if (!mapped) {
    return mapped.failure();
  }
  Gguf file;
  file.file_ = std::move(mapped).value();
  try {
    Reader in(file.file_.bytes());
    if (in.left() < 24 || in.take(4) != "GGUF") {
      throw std::runtime_error("is no GGUF file");
    }
    const auto version = in.number<uint32_t>();
    if (version != 2 && version != 3) {
      throw std::runtime_error("has GGUF version " + std::to_string(version) + ", expected 2 or 3");
    }
    const auto tensors = in.number<uint64_t>();
    const auto keys = in.number<uint64_t>();
    if (tensors > kMostTensors || keys > in.left()) {
      throw std::runtime_error("has an impossible number of tensors or keys");
    }
    for (uint64_t i = 0; i < keys; ++i) {
      const std::string key = in.text();
      const auto type = in.number<uint32_t>();
      file.metadata_[key] = read_value(in, type, 0);
    }
    std::vector<Placed> placed;
    for (uint64_t i = 0; i < tensors; ++i) {
      placed.push_back(read_tensor(in));
    }
    uint64_t alignment = 32;
    if (const auto given = file.metadata_.find("general.alignment"); given != file.metadata_.end()) {
      alignment = given->second.is_number_unsigned() ? given->second.get<uint64_t>() : 0;
      if (alignment == 0 || alignment > 65536) {
        throw std::runtime_error("general.alignment is impossible");
      }
    }
    const uint64_t begin = (in.position() + alignment - 1) / alignment * alignment;
    const std::string_view all = file.file_.bytes();
    const std::string_view data = begin < all.size() ? all.substr(begin) : std::string_view();
    for (Placed& one : placed) {
      set_bytes(one, data);
      file.tensors_[one.name] = std::move(one.tensor);
    }
  } catch (const std::exception& error) {
    return Failure{path + ": " + error.what(), "bad_input"};
  }
  return file;
}

Status dequantize(const GgufTensor& tensor, std::span<float> out) {
  const Format* format = format_of(tensor.type);
  if (format == nullptr) {
    return Failure{"ggml type " + std::to_string(tensor.type) +
                       " is not read here, expected F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1 or Q8_0",
                   "bad_input"};
  }
  const char* block = tensor.bytes.data();
  if (tensor.type == 0) {
    std::memcpy(out.data(), block, out.size_bytes());
    return ok();
  }
  for (size_t i = 0; i < out.size(); i += static_cast<size_t>(format->elements), block += format->bytes) {
    if (tensor.type == 1) {
      out[i] = half_to_float(bits16(block));
    } else if (tensor.type == 30) {
      out[i] = brain_to_float(bits16(block));
    } else {
      read_block(tensor.type, block, &out[i]);
    }
  }
  return ok();
}

}  // namespace khost::trainer
