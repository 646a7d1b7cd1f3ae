// The plan of a candidate that has one exported launcher and no model_new.py, from the names of the
// launcher's arguments. Names come from the source text, roles and types from the compiled signature.
//
//   read pointers     the forward argument or state-dict entry of that name (dots are underscores)
//   written pointers  the outputs, in order
//   n, numel          elements of the first output
//   rows, cols        of the first input: all but the last size, the last
//   other scalars     the scalar argument of forward of that name
//   workspace         kDerivedWorkspaceBytes of scratch memory
#pragma once

#include <string>
#include <vector>

#include "host/base/result.h"
#include "sandbox/abi/manifest.h"
#include "sandbox/abi/plan.h"

namespace khost::sandbox {

inline constexpr std::size_t kDerivedWorkspaceBytes = std::size_t{64} << 20;  // pages that nobody touches cost nothing

struct DeriveRequest {
  std::vector<std::string> sources;  // of the one kernel file, then headers beside it
  std::string symbol;
  std::string signature;
  const Manifest& inputs;
  const Manifest& state;
  const Manifest& outputs;  // the reference's
};

// bad_input names the argument that fits nothing. The outputs become contiguous. bind() is still to be
// called.
Result<Plan> derive_plan(const DeriveRequest& request);

}  // namespace khost::sandbox
