// What is wrong with an output, and the texts about it. Values; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sandbox/abi/manifest.h"

namespace khost::judge {

struct Mismatch {
  struct Example {
    std::vector<std::int64_t> at;
    double got = 0, expected = 0;
    double allowed = 0;  // difference; 0 where only the expected value is right
  };
  std::string output;             // path in the tree, may be empty
  std::vector<Example> examples;  // the first few wrong elements, at least one
  std::int64_t count = 0;         // wrong elements of this output
  std::int64_t total = 0;
  std::int64_t beyond = 0;     // so many elements could be wrong
  double largest = 0;          // difference among the wrong elements; NaN when one is none
  std::string text() const;    // one line
  std::string report() const;  // several, for whoever wrote the kernel
};

// Which inputs and weights are not contiguous, in a line; empty when all are.
std::string strided_tensors(const sandbox::Manifest& inputs, const sandbox::Manifest& state);

// The mismatch in one line, and behind it which tensors are not contiguous: a kernel that reads such a tensor as dense
// is wrong, and its author wants to be told.
std::string text_of(const Mismatch& mismatch, const sandbox::Manifest& inputs, const sandbox::Manifest& state);

}  // namespace khost::judge
