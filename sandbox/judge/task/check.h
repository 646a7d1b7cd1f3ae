// Questions about a task that come in stages: what an earlier stage found stays when a later one hangs or dies.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>

#include "host/base/result.h"
#include "sandbox/judge/task/zygote.h"

namespace khost::judge {

// Memory of a device that tasks share, in bytes: who wants more than is left waits. Any thread.
class Room {
 public:
  explicit Room(std::size_t bytes) : all_(bytes), left_(bytes) {}
  // What is held is given back with the handle; its bytes are at most all there are.
  std::shared_ptr<const std::size_t> take(std::size_t bytes);

 private:
  std::size_t all_, left_;
  std::mutex mutex_;
  std::condition_variable changed_;
};

struct CheckPlaces {
  Zygote* zygote = nullptr;
  std::function<Result<Zygote*>()> apart;  // one that was started separately, for the stage "again"
  std::shared_ptr<Room> room;              // of the device; null for the CPU
};

// {"kind": "check", "task": {"source"}, "target"?: "cpu" | "cuda", "stages": ["structure", "run", "compile" | "again"],
// "limits": {"memory_bytes", "most_bytes", "most_flops", "most_elements"}, "timeout_s"?, "seed"?: integer that other
// inputs are drawn by, "worth_s"?: [least, most] of an eager call, far beyond which run ends at once with "cut_short",
// "cache"?: whether compile gives what the compiler made} gives {stage: facts…} and, when one failed, "failure":
// {"stage", "code": "bad_task" | "timeout" | "died", "message"}. Structure and run share a child that can start neither
// process nor thread; each later stage has one of its own. Waiting for room on a device is not counted. Fails only with
// `gone`, when the zygote itself is lost.
Result<Json> check(const CheckPlaces& places, const Json& request);

// {"kind": "crawl", "request": {…}, "timeout_s"}: one question to a fresh child (python/crawl.py), without a task.
Result<Json> crawl(Zygote& zygote, const Json& request);

}  // namespace khost::judge
