#include "sandbox/judge/cuda/views.h"

#include <cmath>
#include <cstring>

namespace khost::judge::gpu {
namespace {

using sandbox::Manifest;
using sandbox::TensorLeaf;

Element element_of(const std::string& dtype) {
  if (dtype == "float32") {
    return Element::f32;
  }
  if (dtype == "float64") {
    return Element::f64;
  }
  if (dtype == "float16") {
    return Element::f16;
  }
  if (dtype == "bfloat16") {
    return Element::bf16;
  }
  switch (sandbox::dtype_bytes(dtype)) {
    case 1:
      return Element::exact1;
    case 2:
      return Element::exact2;
    case 4:
      return Element::exact4;
    case 8:
      return Element::exact8;
    default:
      return Element::exact16;
  }
}

// Drops dimensions of one element and merges those that follow each other in memory, so that few remain.
void set_layout(View& view, const TensorLeaf& leaf) {
  std::vector<std::int64_t> size, stride;
  for (std::size_t d = 0; d < leaf.size.size(); d++) {
    if (leaf.size[d] == 1) {
      continue;
    }
    if (!size.empty() && stride.back() == leaf.size[d] * leaf.stride[d]) {
      size.back() *= leaf.size[d];
      stride.back() = leaf.stride[d];
    } else {
      size.push_back(leaf.size[d]);
      stride.push_back(leaf.stride[d]);
    }
  }
  if (size.empty() || (size.size() == 1 && stride[0] == 1)) {
    view.dimensions = 0;
    return;
  }
  view.dimensions = static_cast<int>(size.size());
  for (std::size_t d = 0; d < size.size() && d < kMostDimensions; d++) {
    view.size[d] = size[d];
    view.stride[d] = stride[d];
  }
}

template <class T>
T read(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

double half_value(std::uint16_t bits) {
  const double sign = (bits & 0x8000u) != 0 ? -1 : 1;
  const int exponent = (bits >> 10) & 31;
  const int fraction = bits & 1023;
  if (exponent == 31) {
    return fraction != 0 ? std::nan("") : sign * INFINITY;
  }
  return exponent == 0 ? sign * std::ldexp(fraction, -24) : sign * std::ldexp(1024 + fraction, exponent - 25);
}

}  // namespace

std::vector<View> views_of(const Manifest& got_manifest, const std::byte* got, const Manifest& expected_manifest,
                           const std::byte* expected, const std::vector<Tolerance>& tolerance) {
  std::vector<View> result;
  for (std::size_t i = 0; i < expected_manifest.tensors.size(); i++) {
    const TensorLeaf& mine = got_manifest.tensors[i];
    const TensorLeaf& theirs = expected_manifest.tensors[i];
    const auto bytes = static_cast<std::int64_t>(sandbox::dtype_bytes(theirs.dtype));
    View view{};
    view.got = got + got_manifest.storages[mine.storage].offset + mine.offset * bytes;
    view.expected = expected + expected_manifest.storages[theirs.storage].offset + theirs.offset * bytes;
    view.element = element_of(theirs.dtype);
    view.count = theirs.count();
    view.atol = tolerance[i].atol;
    view.rtol = tolerance[i].rtol;
    set_layout(view, mine);
    result.push_back(view);
  }
  return result;
}

std::int64_t element_offset(const View& view, std::int64_t flat) {
  if (view.dimensions == 0) {
    return flat;
  }
  std::int64_t at = 0;
  for (int d = view.dimensions - 1; d >= 0; d--) {
    at += flat % view.size[d] * view.stride[d];
    flat /= view.size[d];
  }
  return at;
}

double number_of(const std::string& dtype, const std::byte* element) {
  if (dtype == "float32") {
    return read<float>(element);
  }
  if (dtype == "float64") {
    return read<double>(element);
  }
  if (dtype == "float16") {
    return half_value(read<std::uint16_t>(element));
  }
  if (dtype == "bfloat16") {
    const std::uint32_t bits = static_cast<std::uint32_t>(read<std::uint16_t>(element)) << 16;
    return read<float>(reinterpret_cast<const std::byte*>(&bits));
  }
  const bool is_signed = dtype.rfind("int", 0) == 0;
  switch (sandbox::dtype_bytes(dtype)) {
    case 1:
      return is_signed ? read<std::int8_t>(element) : read<std::uint8_t>(element);
    case 2:
      return is_signed ? read<std::int16_t>(element) : read<std::uint16_t>(element);
    case 4:
      return is_signed ? read<std::int32_t>(element) : static_cast<double>(read<std::uint32_t>(element));
    default:
      return static_cast<double>(read<std::int64_t>(element));
  }
}

std::vector<std::int64_t> position_of(const std::vector<std::int64_t>& size, std::int64_t flat) {
  std::vector<std::int64_t> at(size.size());
  for (std::size_t d = size.size(); d-- > 0;) {
    at[d] = flat % size[d];
    flat /= size[d];
  }
  return at;
}

}  // namespace khost::judge::gpu
