// Questions about a task that come in stages: what an earlier stage found stays when a later one hangs or dies.
#pragma once

#include "host/base/result.h"
#include "sandbox/judge/zygote.h"

namespace khost::judge {

// {"kind": "check", "task": {"source"}, "stages": ["structure", "run", "compile"], "limits": {"memory_bytes",
// "most_bytes", "most_flops", "most_elements"}, "timeout_s"} gives {stage: facts…} and, when one failed, "failure":
// {"stage", "code": "bad_task" | "timeout" | "died", "message"}. Structure and run share a child that can start neither
// process nor thread; each later stage has one of its own. Fails only with `gone`, when the zygote itself is lost.
Result<Json> check(Zygote& zygote, const Json& request);

// {"kind": "crawl", "request": {…}, "timeout_s"}: one question to a fresh child (python/crawl.py), without a task.
Result<Json> crawl(Zygote& zygote, const Json& request);

}  // namespace khost::judge
