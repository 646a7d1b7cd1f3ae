// Output tensors as the comparison on the device takes them, and what it found as a text for a person.
#pragma once

#include <string>
#include <vector>

#include "host/base/result.h"
#include "sandbox/abi/manifest.h"
#include "sandbox/judge/compare.h"
#include "sandbox/judge/cuda/kernels.h"

namespace khost::judge::gpu {

// `got` and `expected` are the two regions on the device; the manifests were matched before.
std::vector<View> views_of(const sandbox::Manifest& got_manifest, const std::byte* got,
                           const sandbox::Manifest& expected_manifest, const std::byte* expected,
                           const std::vector<Tolerance>& tolerance);

// Element offset of the flat index in row-major order.
std::int64_t element_offset(const View& view, std::int64_t flat);

// The number behind the bytes of one element.
double number_of(const std::string& dtype, const std::byte* element);

std::vector<std::int64_t> position_of(const std::vector<std::int64_t>& size, std::int64_t flat);

}  // namespace khost::judge::gpu
