// What the jobs of a judge share: zygotes, sessions, the right to time. Any thread.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <string>

#include "host/base/lease.h"
#include "sandbox/judge/session.h"
#include "sandbox/judge/zygote.h"

namespace khost::judge {

// What a window costs by itself, measured with subjects that do nothing, while no candidate is alive.
struct Cost {
  bool known = false;
  double plan_s = 0, python_s = 0;
  double slack_s = 0;  // from an acknowledgement until every thread stands: the most that an early one can gain
};

class Service {
 public:
  Service(PythonPlace place, std::string lease_path) : place_(std::move(place)), lease_path_(std::move(lease_path)) {}
  Result<Zygote*> tasks() { return zygote(tasks_, "reference", true); }
  Result<Zygote*> recorders() { return zygote(recorders_, "recorder", false); }
  Result<std::shared_ptr<Session>> session(const std::string& source);
  // {"kind": "evaluate" | "trace" | "admit", "task": {"source"}, …}
  Result<Json> handle(const Json& request);

 private:
  friend class Evaluation;
  Result<Json> ask(const std::string& kind, const std::string& source);
  // Ends the resident baselines of all but the tasks asked for last. For whoever holds the right to time.
  void retire_residents();
  Result<Zygote*> zygote(std::unique_ptr<Zygote>& slot, const char* name, bool compilers);
  PythonPlace place_;
  std::string lease_path_;
  std::mutex zygotes_, sessions_mutex_, timing_;
  std::unique_ptr<Zygote> tasks_, recorders_;
  std::vector<std::unique_ptr<Zygote>> dead_;
  std::list<std::shared_ptr<Session>> sessions_;
  Cost cost_;  // under timing_
};

}  // namespace khost::judge
