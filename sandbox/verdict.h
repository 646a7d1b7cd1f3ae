// The outcome of judging one candidate: status x stage x reason, the first failure wins. A plain value.
#pragma once

#include <map>
#include <string>

#include "host/base/json.h"

namespace khost::sandbox {

struct Verdict {
  // ok, build_failed, wrong, crash, timeout, oom, policy, suspect, void, bad_task
  std::string status = "void";
  std::string stage = "task";  // task, build, plan, verify, time
  std::string reason;          // one word for programs: mismatch, stale_output, signal, torch_compute, ...
  std::string detail;          // for a person; names lines, elements, signals
  bool correct = false;
  std::map<std::string, double> times;    // candidate_s, eager_s, compile_s
  std::map<std::string, double> speedup;  // eager, compile
  std::map<std::string, bool> faster;     // by more than 5 %, at the stated error rate
  double slack_s = 0;
  Json evidence = Json::object();
  std::map<std::string, double>
      wall_s;  // task, build, plan, verify, time, …; on a GPU "wait" for it is a part of its own

  bool failed() const { return status != "ok"; }
  void fail(std::string with, std::string at, std::string why, std::string text);
  Json to_json() const;
};

}  // namespace khost::sandbox
