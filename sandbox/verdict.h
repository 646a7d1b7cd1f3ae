// The outcome of judging one candidate: status × stage × reason, and what it rests on. Outcomes are values; the
// first failure wins. Plain data, any thread.
#pragma once

#include <string>

#include "host/base/json.h"

namespace khost::sandbox {

struct Verdict {
  // ok            correct; timed unless measuring was off
  // build_failed  the compiler refused the kernels
  // wrong         an output differs
  // crash, timeout, oom   the candidate's process ended, hung, or ran out of memory
  // policy        it does what candidates may not
  // suspect       faster than its bytes could be moved
  // bad_task      the task itself cannot be judged
  // void          our fault; never scored
  std::string status = "ok";
  std::string stage = "task";  // task, build, plan, verify, time: how far it came
  std::string reason;          // a short stable word, for metrics
  std::string detail;          // for a reader
  bool correct = false;
  Json times = Json::object();     // candidate_s, eager_s, compile_s: medians of a window
  Json speedup = Json::object();   // eager, compile: geometric mean over brackets
  Json faster = Json::object();    // eager, compile: by more than 5 %, decided at 99 %
  Json evidence = Json::object();
  Json wall_s = Json::object();    // build, plan, verify, time

  Json to_json() const;
};

}  // namespace khost::sandbox
