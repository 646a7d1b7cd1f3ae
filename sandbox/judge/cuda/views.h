// Output tensors as the comparison on the device takes them, and what it found as a text for a person.
#pragma once

#include <string>
#include <vector>

#include "host/base/result.h"
#include "sandbox/abi/manifest.h"
#include "sandbox/judge/cuda/kernels.h"
#include "sandbox/judge/values/compare.h"

namespace khost::judge::gpu {

// `got` and `expected` are the two regions on the device; the manifests were matched before.
std::vector<View> views_of(const sandbox::Manifest& got_manifest, const std::byte* got,
                           const sandbox::Manifest& expected_manifest, const std::byte* expected,
                           const std::vector<Tolerance>& tolerance);

// Element offset of the flat index in row-major order.
std::int64_t element_offset(const View& view, std::int64_t flat);

// How many of a call's samples may be wrong in outputs of which a share of the elements may be (tolerance.h:
// wrong_samples); the samples are spread evenly over the views.
unsigned most_loose(const std::vector<View>& views);

}  // namespace khost::judge::gpu
