// The judge: answers requests about tasks and candidates. It owns sessions, zygotes and the lease; handle() may be
// called from several threads, builds and verification overlap, timing is one at a time.
//
//   {"kind": "evaluate", "task": {"source"}, "files": {path: text}, "measure": bool?, "compile": bool?,
//    "tolerance": "calibrated"?, "threads": 1?}   -> a verdict (sandbox/verdict.h)
//   {"kind": "trace" | "admit", "task": {"source"}}   -> what the task's process says (sandbox/judge/python/)
#pragma once

#include <condition_variable>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "host/base/lease.h"
#include "sandbox/judge/session.h"
#include "sandbox/verdict.h"

namespace khost::judge {

struct JudgeOptions {
  std::string python;
  std::string root;
  std::string lease_path;
  std::size_t session_bytes = std::size_t{6} << 30;  // of input sets kept over all tasks
};

class Judge {
 public:
  explicit Judge(JudgeOptions options);
  Result<Json> handle(const Json& request);

 private:
  Result<Json> evaluate(const Json& request);
  Result<Json> ask(const Json& request, const char* op);
  Result<std::shared_ptr<Session>> session(const std::string& source);
  Result<sandbox::Plan> plan(const Json& request, Session& session, const sandbox::Built& built);

  JudgeOptions options_;
  Zygote tasks_;
  Zygote recorders_;
  std::mutex mutex_;                 // of the sessions
  std::mutex timing_;                // one block at a time, before the lease is asked for
  std::list<std::pair<std::string, std::shared_ptr<Session>>> sessions_;  // most recent first
};

}  // namespace khost::judge
