#include "sandbox/judge/values/elements.h"

namespace khost::judge {

double number_of(const std::string& dtype, const std::byte* element) {
  if (dtype == "float32") {
    return read_as<float>(element);
  }
  if (dtype == "float64") {
    return read_as<double>(element);
  }
  if (dtype == "float16") {
    return half_value(read_as<std::uint16_t>(element));
  }
  if (dtype == "bfloat16") {
    return brain_value(read_as<std::uint16_t>(element));
  }
  const bool is_signed = dtype.rfind("int", 0) == 0;
  switch (sandbox::dtype_bytes(dtype)) {
    case 1:
      return is_signed ? read_as<std::int8_t>(element) : read_as<std::uint8_t>(element);
    case 2:
      return is_signed ? read_as<std::int16_t>(element) : read_as<std::uint16_t>(element);
    case 4:
      return is_signed ? static_cast<double>(read_as<std::int32_t>(element)) : read_as<std::uint32_t>(element);
    default:
      return is_signed ? static_cast<double>(read_as<std::int64_t>(element))
                       : static_cast<double>(read_as<std::uint64_t>(element));
  }
}

bool dense(const sandbox::TensorLeaf& leaf) {
  std::int64_t step = 1;
  for (std::size_t d = leaf.size.size(); d-- > 0;) {
    if (leaf.size[d] != 1 && leaf.stride[d] != step) {
      return false;
    }
    step *= leaf.size[d];
  }
  return true;
}

std::vector<std::int64_t> position_of(const std::vector<std::int64_t>& size, std::int64_t flat) {
  std::vector<std::int64_t> at(size.size());
  for (std::size_t d = size.size(); d-- > 0;) {
    at[d] = flat % size[d];
    flat /= size[d];
  }
  return at;
}

}  // namespace khost::judge
