#include "sandbox/judge/cuda/views.h"

#include <cmath>
#include <optional>

namespace khost::judge::gpu {
namespace {

using sandbox::Manifest;
using sandbox::TensorLeaf;

Element element_of(const std::string& dtype) {
  if (const std::optional<Format> format = format_of(dtype)) {
    switch (*format) {
      case Format::f32:
        return Element::f32;
      case Format::f64:
        return Element::f64;
      case Format::f16:
        return Element::f16;
      case Format::bf16:
        return Element::bf16;
    }
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
    view.is_signed = theirs.dtype.compare(0, 3, "int") == 0;
    view.count = theirs.count();
    view.beyond = tolerance[i].beyond(view.count);
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

unsigned most_loose(const std::vector<View>& views) {
  bool any = false;
  double wrong = 0;
  for (const View& view : views) {
    if (view.beyond > 0) {
      any = true;
      wrong += std::ceil(static_cast<double>(kSamples) / static_cast<double>(views.size())) *
               static_cast<double>(view.beyond) / static_cast<double>(view.count);
    }
  }
  return any ? wrong_samples(wrong) : 0;
}

}  // namespace khost::judge::gpu
