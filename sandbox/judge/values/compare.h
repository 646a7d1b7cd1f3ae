// Whether outputs are what the reference returned, on the host. An element is right within its output's tolerance
// (tolerance.h); integers and booleans are compared by their bytes, so that a boolean byte other than 0 and 1 is wrong.
// Of
// an output's elements a share may lie beyond, where the reference itself does not decide them. Pure functions, any
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "sandbox/abi/manifest.h"
#include "sandbox/judge/evaluation/repeated.h"
#include "sandbox/judge/values/mismatch.h"
#include "sandbox/judge/values/tolerance.h"

namespace khost::judge {

// Of a dtype's elements; nothing for those that are compared by their bytes.
std::optional<Format> format_of(const std::string& dtype);

// Both manifests were matched (sandbox/abi/plan.h: match_outputs); the memory is the regions'. One tolerance for each
// output in the order of `expected`.
std::optional<Mismatch> compare(const sandbox::Manifest& got, const std::byte* got_memory,
                                const sandbox::Manifest& expected, const std::byte* expected_memory,
                                const std::vector<Tolerance>& tolerance);

// The same for every output that is wrong, in order. `excused`, where it is wanted, becomes what shares excuse.
std::vector<Mismatch> compare_all(const sandbox::Manifest& got, const std::byte* got_memory,
                                  const sandbox::Manifest& expected, const std::byte* expected_memory,
                                  const std::vector<Tolerance>& tolerance, Excused* excused = nullptr);

// Overwrites an output region with noise that knows nothing of the expected values; bytes of booleans become neither
// 0 nor 1.
void poison(const sandbox::Manifest& outputs, std::byte* memory, std::size_t bytes, std::uint64_t seed);

}  // namespace khost::judge
