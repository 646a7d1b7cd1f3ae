#include "trainer/model/gguf.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <stdexcept>

#include "trainer/model/gguf_blocks.h"

namespace khost::trainer {
namespace {

constexpr uint64_t kMostTensors = 1 << 16;
constexpr uint64_t kMostKeys = 1 << 16;
constexpr uint64_t kMostElements = 1 << 24;  // of all arrays of the metadata; vocabularies have less than 2^19
constexpr uint64_t kLongestName = 65535;     // the format's own limit
constexpr int64_t kLargestSize = int64_t{1} << 40;
constexpr uint32_t kArray = 9;

std::runtime_error damaged(const std::string& what) {
  return std::runtime_error(what + "; the file is damaged or cut off: fetch it again");
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

  std::string name() {
    const auto length = number<uint64_t>();
    if (length == 0 || length > kLongestName) {
      throw damaged("has a name of " + std::to_string(length) + " bytes, expected 1 to 65535");
    }
    return std::string(take(length));
  }

  std::string_view take(uint64_t count) {
    if (count > left()) {
      throw damaged("ends in the middle of its header");
    }
    const std::string_view part = bytes_.substr(at_, count);
    at_ += count;
    return part;
  }

  // Counts the elements of arrays, each of which becomes a value of its own in memory.
  void count_elements(uint64_t count) {
    if (count > left() || count > kMostElements - elements_) {
      throw damaged("has an array of " + std::to_string(count) + " elements, more than its metadata can hold");
    }
    elements_ += count;
  }

  size_t position() const { return at_; }
  uint64_t left() const { return bytes_.size() - at_; }

 private:
  std::string_view bytes_;
  size_t at_ = 0;
  uint64_t elements_ = 0;
};

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
      throw damaged("has a value of unknown type " + std::to_string(type));
  }
  const auto element = in.number<uint32_t>();
  const auto count = in.number<uint64_t>();
  if (element == kArray && depth > 2) {
    throw damaged("has arrays nested more than 3 deep");
  }
  in.count_elements(count);
  Json list = Json::array();
  for (uint64_t i = 0; i < count; ++i) {
    list.push_back(read_value(in, element, depth + 1));
  }
  return list;
}

std::map<std::string, Json> read_metadata(Reader& in, uint64_t keys) {
  std::map<std::string, Json> metadata;
  for (uint64_t i = 0; i < keys; ++i) {
    const std::string key = in.name();
    const auto type = in.number<uint32_t>();
    try {
      if (!metadata.emplace(key, read_value(in, type, 0)).second) {
        throw damaged("appears twice");
      }
    } catch (const std::runtime_error& error) {
      throw std::runtime_error("key " + key + ": " + error.what());
    }
  }
  return metadata;
}

struct Placed {
  std::string name;
  GgufTensor tensor;
  uint64_t offset = 0;
  uint64_t length = 0;
};

std::runtime_error bad_tensor(const Placed& placed, const std::string& what) {
  return damaged("tensor " + placed.name + " " + what);
}

Placed read_tensor(Reader& in) {
  Placed placed;
  placed.name = in.name();
  const auto dimensions = in.number<uint32_t>();
  if (dimensions < 1 || dimensions > 4) {
    throw bad_tensor(placed, "has " + std::to_string(dimensions) + " dimensions, expected 1 to 4");
  }
  for (uint32_t i = 0; i < dimensions; ++i) {
    const auto size = in.number<int64_t>();
    if (size < 1 || size > kLargestSize) {
      throw bad_tensor(placed, "has a dimension of " + std::to_string(size));
    }
    placed.tensor.shape.insert(placed.tensor.shape.begin(), size);
  }
  placed.tensor.type = in.number<uint32_t>();
  placed.offset = in.number<uint64_t>();
  return placed;
}

// Formats that are not read stay in the list without bytes: they fail only when they are asked for.
void set_bytes(Placed& placed, std::string_view data, uint64_t alignment) {
  unsigned __int128 count = 1;
  for (const int64_t size : placed.tensor.shape) {
    count *= static_cast<uint64_t>(size);
    if (count > static_cast<uint64_t>(kLargestSize)) {
      throw bad_tensor(placed, "has more than 2^40 elements");
    }
  }
  const GgufFormat* format = gguf_format(placed.tensor.type);
  if (format == nullptr) {
    return;
  }
  if (placed.tensor.shape.back() % format->elements != 0) {
    throw bad_tensor(placed, "has rows of " + std::to_string(placed.tensor.shape.back()) + " elements, which is no " +
                                 "whole number of " + format->name + " blocks");
  }
  placed.length =
      static_cast<uint64_t>(count) / static_cast<uint64_t>(format->elements) * static_cast<uint64_t>(format->bytes);
  if (placed.offset % alignment != 0) {
    throw bad_tensor(placed, "begins at " + std::to_string(placed.offset) + ", which is not aligned to " +
                                 std::to_string(alignment) + " bytes");
  }
  if (placed.offset > data.size() || placed.length > data.size() - placed.offset) {
    throw bad_tensor(placed, "lies outside the file: " + std::to_string(placed.length) + " bytes at " +
                                 std::to_string(placed.offset) + " of " + std::to_string(data.size()));
  }
  placed.tensor.bytes = data.substr(placed.offset, placed.length);
}

void refuse_overlaps(const std::vector<Placed>& placed) {
  std::vector<const Placed*> order;
  for (const Placed& one : placed) {
    if (one.length > 0) {
      order.push_back(&one);
    }
  }
  std::sort(order.begin(), order.end(), [](const Placed* a, const Placed* b) { return a->offset < b->offset; });
  for (size_t i = 1; i < order.size(); ++i) {
    if (order[i - 1]->offset + order[i - 1]->length > order[i]->offset) {
      throw bad_tensor(*order[i], "shares bytes with tensor " + order[i - 1]->name);
    }
  }
}

uint64_t alignment_of(const std::map<std::string, Json>& metadata) {
  const auto given = metadata.find("general.alignment");
  if (given == metadata.end()) {
    return 32;
  }
  const uint64_t alignment = given->second.is_number_unsigned() ? given->second.get<uint64_t>() : 0;
  if (alignment > 65536 || !std::has_single_bit(alignment)) {
    throw damaged("general.alignment is " + given->second.dump() + ", expected a power of two up to 65536");
  }
  return alignment;
}

}  // namespace

int64_t GgufTensor::elements() const {
  int64_t count = 1;
  for (const int64_t size : shape) {
    count *= size;
  }
  return count;
}

Result<Gguf> Gguf::open(const std::string& path) {
  Result<MappedFile> mapped = MappedFile::open(path);
  if (!mapped) {
    return mapped.failure();
  }
  Gguf file;
  file.file_ = std::move(mapped).value();
  const std::string_view all = file.file_.bytes();
  try {
    Reader in(all);
    if (in.left() < 24 || in.take(4) != "GGUF") {
      throw std::runtime_error("is no GGUF file, expected one that begins with the letters GGUF");
    }
    const auto version = in.number<uint32_t>();
    if (version != 2 && version != 3) {
      throw std::runtime_error("has GGUF version " + std::to_string(version) +
                               ", expected 2 or 3 in little-endian order: convert it with llama.cpp's current tools");
    }
    const auto tensors = in.number<uint64_t>();
    const auto keys = in.number<uint64_t>();
    if (tensors > kMostTensors || keys > kMostKeys) {
      throw damaged("says that it has " + std::to_string(tensors) + " tensors and " + std::to_string(keys) +
                    " keys, expected at most 65536 of each");
    }
    file.metadata_ = read_metadata(in, keys);
    std::vector<Placed> placed;
    for (uint64_t i = 0; i < tensors; ++i) {
      placed.push_back(read_tensor(in));
    }
    const uint64_t alignment = alignment_of(file.metadata_);
    const uint64_t begin = (in.position() + alignment - 1) / alignment * alignment;
    const std::string_view data = begin < all.size() ? all.substr(begin) : std::string_view();
    for (Placed& one : placed) {
      set_bytes(one, data, alignment);
    }
    refuse_overlaps(placed);
    for (Placed& one : placed) {
      if (!file.tensors_.emplace(one.name, one.tensor).second) {
        throw bad_tensor(one, "appears twice");
      }
    }
  } catch (const std::exception& error) {
    return Failure{path + ": " + error.what(), "bad_input"};
  }
  return file;
}

Status dequantize(const GgufTensor& tensor, std::span<float> out) {
  return dequantize_rows(tensor, 0, out);
}

Status dequantize_rows(const GgufTensor& tensor, int64_t row, std::span<float> out) {
  const GgufFormat* format = gguf_format(tensor.type);
  if (format == nullptr) {
    return Failure{"is stored as " + gguf_type_name(tensor.type) +
                       ", which is not read here, expected F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K or "
                       "Q6_K: take a file of the model in one of these, such as its Q4_K_M, Q8_0 or F16",
                   "bad_input"};
  }
  const auto elements = static_cast<int64_t>(out.size());
  const int64_t columns = tensor.shape.back();
  if (row < 0 || elements % columns != 0 || row * columns + elements > tensor.elements()) {
    return Failure{"has no such rows", "bad_input"};
  }
  const int64_t begin = row * columns / format->elements * format->bytes;
  const int64_t length = elements / format->elements * format->bytes;
  read_blocks(*format, tensor.bytes.substr(static_cast<size_t>(begin), static_cast<size_t>(length)), out);
  return ok();
}

}  // namespace khost::trainer
