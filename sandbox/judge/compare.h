// Whether an output is what the reference returned. Classes of tolerance, per element |got - expected| <= atol + rtol
// * |expected|:
//   paper       1e-2, 1e-2
//   strict      1e-4, 1e-4
//   calibrated  atol = max(4 E, 1e-4 S), rtol = 1e-4, where E is the reference's own largest distance from itself in
//               fp64 and S the spread (standard deviation) of the output: an output near a constant must be right in
//               what varies. Without an fp64 oracle: strict. A reduced-precision reference has a large E by itself.
// Integers and booleans are exact (a boolean byte other than 0 and 1 is wrong). NaN is never equal to anything;
// an infinity only to itself. Pure functions, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "host/base/result.h"
#include "sandbox/abi/manifest.h"

namespace khost::judge {

struct Tolerance {
  double atol = 1e-4;
  double rtol = 1e-4;
};

struct OutputScale {
  double error = 0;   // E
  double spread = 0;  // S
};

// One for each output tensor. `scales` empty: no oracle. bad_input for an unknown class.
Result<std::vector<Tolerance>> tolerances(const std::string& name, std::size_t outputs,
                                          const std::vector<OutputScale>& scales);

struct Mismatch {
  std::string output;  // path in the tree, may be empty
  std::vector<std::int64_t> at;
  double got = 0;
  double expected = 0;
  std::int64_t count = 0;  // wrong elements of this output
  std::int64_t total = 0;
  struct Example {
    std::vector<std::int64_t> at;
    double got = 0, expected = 0;
  };
  std::vector<Example> examples;  // the first few; the first of them is `at`, `got`, `expected`
  double largest = 0;             // difference among the wrong elements; NaN when one is none
  std::string text() const;       // one line
  std::string report() const;     // several, for whoever wrote the kernel
};

// Both manifests were matched (sandbox/abi/plan.h: match_outputs); the memory is the regions'.
std::optional<Mismatch> compare(const sandbox::Manifest& got, const std::byte* got_memory,
                                const sandbox::Manifest& expected, const std::byte* expected_memory,
                                const std::vector<Tolerance>& tolerance);

// The same for every output that is wrong, in order.
std::vector<Mismatch> compare_all(const sandbox::Manifest& got, const std::byte* got_memory,
                                  const sandbox::Manifest& expected, const std::byte* expected_memory,
                                  const std::vector<Tolerance>& tolerance);

// Overwrites an output region with noise that knows nothing of the expected values; bytes of booleans become neither
// 0 nor 1.
void poison(const sandbox::Manifest& outputs, std::byte* memory, std::size_t bytes, std::uint64_t seed);

}  // namespace khost::judge
