// The bounds of a task's outputs for each kind of set, and what else is known of the task once they were measured
// (sandbox/python/khost/values/tolerance.py, docs/tolerance.md). Values; any thread.
#pragma once

#include <string>
#include <vector>

#include "host/base/json.h"
#include "host/base/result.h"
#include "sandbox/abi/manifest.h"
#include "sandbox/judge/task/sets.h"
#include "sandbox/judge/values/tolerance.h"

namespace khost::judge {

// One for each output tensor, in the order of the outputs' manifest.
struct Tolerances {
  std::vector<Tolerance> drawn;
  std::vector<Tolerance> planted;  // empty where the task is given no planted sets
  const std::vector<Tolerance>& of(const Set& set) const { return set.planted ? planted : drawn; }
};

// Measured once for each task.
struct Calibration {
  Tolerances tolerances;
  std::string given_up;       // why no set is planted; empty where some are
  Json planted_kinds;         // what may stand in planted sets (planting.py), a list of words
  bool constant = false;      // inputs and state hold nothing random: each set is as the one before
  std::string uninformative;  // the answer without work that passes at every bound; empty: none does
  std::string oracle_error;   // why the reference does not run in fp64; empty when it does
  Json evidence;              // of each kind and output: rule, K, precision class, share

  bool plants() const { return !tolerances.planted.empty(); }
  // Of the answer to `calibrate`. Fails, with a text for whoever wrote the task, where nothing can be judged:
  // equal_sets, ambiguous (integers that the reference itself does not decide), or bad_task for an answer that is none.
  static Result<Calibration> parse(const Json& answer, const sandbox::Manifest& outputs);
};

// By the name of a class: calibrated, the only one that pays a reward, or for published comparisons paper (1e-2 + 1e-2
// |expected|) and strict (1e-4 + 1e-4 |expected|). bad_input for another name.
Result<Tolerances> tolerances(const std::string& name, const Calibration& calibration, std::size_t outputs);

// Fails as `trivial` where answers without work are right by that class, so that a verdict would say nothing.
Status tells_apart(const std::string& name, const Calibration& calibration);

// Writes into a verdict's evidence what it was judged by: the class, for `calibrated` the rule, K, precision class and
// share of each output and kind of set, and what kinds of sets there are.
void describe(const std::string& name, const Calibration& calibration, Json& evidence);

}  // namespace khost::judge
