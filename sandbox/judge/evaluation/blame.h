// Who is to blame, in one place for both targets: what a failure of a step, a refusal of the candidate's Python or the
// end of a window means as status and reason. Words that come from elsewhere, a candidate's process included, become
// words of the table here. Pure; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "host/base/json.h"
#include "host/base/result.h"
#include "sandbox/judge/cpu/clock.h"
#include "sandbox/judge/verdict/verdict.h"

namespace khost::judge {

// The code of a Failure, or the start of a message, by which a rule was broken: "violation/WORD".
inline constexpr std::string_view kRefusal = "violation/";
// The reason behind the prefix: `forbidden` for a word that is no reason of a violation at the stage where the verdict
// is written, since a candidate's Python may give any word. Nothing without the prefix.
std::optional<Reason> refusal_of(std::string_view text, Stage stage);

// Whether it is the machine's fault rather than that of a candidate or a task.
bool is_ours(const Failure& why);
// Whether a failure to open a task is the task's own, once it had the machine for itself: its error, its endless loop,
// its want of the device's memory.
bool blames_task(const Failure& why);

// Whether a verdict stands on the end of a process that something else on the machine may have killed: of the task's,
// of a part of the compiler, or of the candidate's by the signal that the kernel sends for want of memory. What ends by
// itself does so again.
bool may_have_been_killed(const Json& verdict);

// Of sandbox::build, build_extension and the recorder of a candidate in Python.
Finding blame_build(const Failure& why);
// Of plan_of.
Finding blame_plan(const Failure& why);
// Of opening a task or making its sets.
Finding blame_task(const Failure& why);
// Of a step in which nothing of the candidate runs: the task's where the failure says so, else the host's.
Finding blame_host(const Failure& why);
// What a candidate's Python wrote when it refused to go on: "REASON: text", with a refusal's prefix or without.
Finding blame_python(const std::string& message);

// A call whose window did not end as it should: not `done`, or with a status of the launcher other than 0.
Finding blame_window(const Window& window);
// The same of the step in which the candidate is loaded.
Finding blame_set_up(const Window& window);

// What a GPU's clock saw of a timed call beside its window.
struct DeviceTurn {
  bool lost = false;   // the device itself failed
  bool opened = true;  // the call returned, so that its inputs could be revealed
  bool woke = false;   // the process did not stand when the call was closed
  // Sampled elements that were not there when the call was acknowledged: none may be missing where the reference
  // decides every element, and of outputs with a share that it leaves undecided at most so many.
  unsigned wrong = 0, loose = 0, most_loose = 0;
  unsigned sampled = 0;
};
// Before the outputs are compared, and after they were found right.
std::optional<Finding> blame_unopened(const DeviceTurn& turn);
std::optional<Finding> blame_acknowledged(const DeviceTurn& turn);
// Openings that took longer than they may with nobody on the device: so much, in the median.
Finding blame_busy(double extra_s);

}  // namespace khost::judge
