// What is wrong with an output, and the texts about it. Values; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sandbox/abi/manifest.h"
#include "sandbox/judge/values/tolerance.h"

namespace khost::judge {

// What an output is found wrong for: elements beyond their bounds, single ones that are farther off than any share
// excuses, or too many that are farther off than is typical.
enum class Reproach { none, wrong, out, untypical };

struct Found {
  std::int64_t wrong = 0, out = 0, untypical = 0;  // `out` ones are wrong, and wrong ones untypical
};

// What is said of an output of so many elements.
Reproach reproach_of(const Tolerance& tolerance, std::int64_t elements, const Found& counts);

struct Mismatch {
  struct Example {
    std::vector<std::int64_t> at;
    double got = 0, expected = 0;
    double allowed = 0;  // difference; 0 where only the expected value is right
  };
  std::string output;             // path in the tree, may be empty
  std::vector<Example> examples;  // the first few wrong elements, at least one
  Reproach reproach = Reproach::wrong;
  std::int64_t count = 0;  // elements of this output of which that is said
  std::int64_t total = 0;
  std::int64_t beyond = 0;     // of how many it may be said
  double largest = 0;          // difference among the wrong elements; NaN when one is none
  std::string text() const;    // one line
  std::string report() const;  // several, for whoever wrote the kernel
};

// Without examples.
Mismatch mismatch_of(const Tolerance& tolerance, std::int64_t elements, Reproach reproach, std::int64_t count);

// The difference that an element could have had without that reproach.
double allowed_by(const Tolerance& tolerance, Reproach reproach, double expected, std::optional<Format> format,
                  std::int64_t flat);

// Which inputs and weights are not contiguous, in a line; empty when all are.
std::string strided_tensors(const sandbox::Manifest& inputs, const sandbox::Manifest& state);

// The mismatch in one line, and behind it which tensors are not contiguous: a kernel that reads such a tensor as dense
// is wrong, and its author wants to be told.
std::string text_of(const Mismatch& mismatch, const sandbox::Manifest& inputs, const sandbox::Manifest& state);

}  // namespace khost::judge
