// A plan: which launchers of a candidate's library to call, in order, with which memory. It comes out of the
// recorder (untrusted: model_new.py ran in that process) or out of derive.h, is parsed with limits, bound to
// the signatures in the library and the regions of the task, and then played by khost-subject. Values; any
// thread.
//
//   {"launches": [{"symbol": "scale", "arguments": [
//      {"role": "r", "slot": "input", "index": 0, "offset": 0},    pointer: storage `index` of the region, byte offset
//      {"role": "w", "slot": "output", "index": 0, "offset": 0},
//      {"role": "r", "slot": "null"},                              a pointer that is None in model_new.py
//      {"role": "s", "dtype": "l", "value": 1024},
//      {"role": "W", "index": 0}, {"role": "T"}]}],                W without index: no scratch memory
//    "workspace": [4096], "outputs": tree, "output_storages": [4096]}
//
// By the rule set `mixed` there may be torch operators beside the launches: "operators" (recorder_operators.py), and
// "values", the bytes of each storage that one of them makes, which a pointer names by the slot "value". What stands in
// an operator is read by mixed_player.py alone; such a plan is no plan for khost-subject.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "host/base/json.h"
#include "host/base/result.h"
#include "sandbox/abi/manifest.h"
#include "sandbox/abi/signature.h"

namespace khost::sandbox {

enum class Slot { none, null, input, state, workspace, output, value };

struct PlanArgument {
  char role = 's';
  char type = '-';  // of a scalar; bind() fills it in for pointers
  Slot slot = Slot::none;
  std::size_t index = 0;
  std::size_t offset = 0;  // bytes
  std::uint64_t bits = 0;  // of a scalar, as the machine passes it, in the low bytes
};

struct Launch {
  std::string symbol;
  std::vector<PlanArgument> arguments;
};

// Where the storages of the three shared regions lie; bind() fills it in, the player needs it.
struct Regions {
  std::vector<Storage> inputs;
  std::vector<Storage> state;
  std::vector<Storage> outputs;
};

struct Plan {
  std::vector<Launch> launches;
  std::vector<std::size_t> workspace;  // bytes of each piece of scratch memory
  Json operators = Json::array();      // of torch, in order
  std::vector<std::size_t> values;     // bytes of each storage that an operator makes
  Manifest outputs;                    // the tree that forward returns, laid out by lay_out()
  Regions regions;

  static Result<Plan> parse(const Json& json);
  Json to_json() const;
  bool wants_handles() const;  // whether a launcher is given cuBLAS and cuDNN handles
  bool uses_torch() const { return !operators.empty(); }
  // Bytes of a region that holds what each launch writes, behind a header of 64: for each pointer that is written
  // through, in order, the rest of its storage, rounded up to 64. Of a plan that is bound.
  std::size_t own_bytes() const;

  // Checks every argument against the signatures and every slot against its region. bad_input names the
  // launch.
  Status bind(const Signatures& signatures, const Manifest& inputs, const Manifest& state);

 private:
  std::size_t count_of(Slot slot) const;
  std::size_t bytes_of(Slot slot, std::size_t index) const;  // of one storage; 0 where there is none
};

// The scalar as a launcher's argument of this type; bad_input when it does not fit. "inf", "-inf" and "nan"
// are floats.
Result<std::uint64_t> scalar_bits(char type, const Json& value);

// Whether outputs have the structure, dtypes and sizes of the reference's. Strides may differ, but no element
// may share memory with another one. Dicts are equal in any order of their keys; afterwards `outputs` has them, and so
// its tensors, in the order of `expected`.
Status match_outputs(Manifest& outputs, const Manifest& expected);

// Whether outputs take little enough memory to be made by the judge, which is in no jail: at most twice what the
// reference's outputs take, or kSpareOutputs more than they do, for results that are views of a buffer. Sizes in bytes;
// code limit.
inline constexpr std::size_t kSpareOutputs = std::size_t{2} << 20;
Status bound_outputs(const Manifest& outputs, const Manifest& expected);

}  // namespace khost::sandbox
