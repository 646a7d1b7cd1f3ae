#include "sandbox/judge/evaluation/blame.h"

#include <signal.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "sandbox/build/compiler.h"
#include "sandbox/judge/task/zygote.h"

namespace khost::judge {
namespace {

constexpr std::array<std::string_view, 6> kOurs{"gone", "host", "io", "busy", "lease", "device"};
constexpr std::array<std::string_view, 8> kOfTask{"bad_task",   "ended",      "timeout",   "limit",
                                                  "not_finite", "equal_sets", "ambiguous", "trivial"};

constexpr int kOutOfMemory = 12;  // exit status of a subject whose allocation failed
constexpr const char* kKilledForMemory = "the candidate's process ran out of memory";
// How a set-up says that it lacks memory, on the host and on a device.
constexpr std::array<std::string_view, 3> kLackOfMemory{"Cannot allocate memory", "out of memory", "the device has no"};

template <std::size_t n>
bool among(const std::array<std::string_view, n>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// The code as a reason where it is one of that status, else `other`.
Reason reason_for(Outcome status, Stage stage, std::string_view code, Reason other) {
  const std::optional<Reason> reason = reason_of(code);
  return reason && allowed(status, stage, *reason) ? *reason : other;
}

// Only the kernel sends SIGKILL to a subject that the judge waits for: for want of memory. It cannot do so itself
// (sandbox/subject/narrow.cpp).
bool ran_out_of_memory(const Window& window) {
  return window.exit && (window.exit->code == kOutOfMemory || window.exit->signal == SIGKILL);
}

Finding host_failure(const Failure& why) {
  return {Outcome::void_, reason_for(Outcome::void_, Stage::task, why.code, Reason::host), why.message};
}

}  // namespace

std::optional<Reason> refusal_of(std::string_view text, Stage stage) {
  if (text.substr(0, kRefusal.size()) != kRefusal) {
    return std::nullopt;
  }
  text.remove_prefix(kRefusal.size());
  return reason_for(Outcome::violation, stage, text.substr(0, text.find(':')), Reason::forbidden);
}

bool is_ours(const Failure& why) {
  return among(kOurs, why.code);
}

bool blames_task(const Failure& why) {
  return among(kOfTask, why.code);
}

bool may_have_been_killed(const Json& verdict) {
  const std::string status = verdict.value("status", ""), reason = verdict.value("reason", "");
  const std::string detail = verdict.value("detail", "");
  return (status == "bad_task" && reason == "ended") ||
         (status == "oom" && reason == "memory" && detail == kKilledForMemory) ||
         (status == "build_failed" && reason == "plan" && detail == kChildEnded) ||
         (status == "build_failed" && reason == "build" && sandbox::tells_of_a_kill(detail));
}

Finding blame_build(const Failure& why) {
  if (const std::optional<Reason> refused = refusal_of(why.code, Stage::build)) {
    return {Outcome::violation, *refused, why.message};
  }
  if (why.code == "violation") {
    return {Outcome::violation, Reason::linkage, why.message};
  }
  if (is_ours(why)) {
    return host_failure(why);
  }
  return {Outcome::build_failed, reason_for(Outcome::build_failed, Stage::build, why.code, Reason::build), why.message};
}

Finding blame_plan(const Failure& why) {
  if (const std::optional<Reason> refused = refusal_of(why.code, Stage::plan)) {
    return {Outcome::violation, *refused, why.message};
  }
  if (why.code == "shape") {
    return {Outcome::wrong, Reason::shape, why.message};
  }
  if (is_ours(why)) {
    return host_failure(why);
  }
  return {Outcome::build_failed, reason_for(Outcome::build_failed, Stage::plan, why.code, Reason::error), why.message};
}

Finding blame_task(const Failure& why) {
  if (why.code == "trivial") {
    return {Outcome::uninformative, Reason::trivial, why.message};
  }
  if (blames_task(why)) {
    return {Outcome::bad_task, reason_for(Outcome::bad_task, Stage::task, why.code, Reason::bad_task), why.message};
  }
  return host_failure(why);
}

Finding blame_host(const Failure& why) {
  // A step that waits for the device or its memory can be late or short of it through others.
  const bool told = why.code != "timeout" && why.code != "limit";
  return told && blames_task(why) ? blame_task(why) : host_failure(why);
}

Finding blame_python(const std::string& message) {
  const std::size_t colon = message.find(": ");
  if (colon == std::string::npos) {
    return {Outcome::crash, Reason::error, message};
  }
  const std::string word = message.substr(0, colon), text = message.substr(colon + 2);
  if (const std::optional<Reason> refused = refusal_of(word, Stage::verify)) {
    return {Outcome::violation, *refused, text};
  }
  return {Outcome::crash, reason_for(Outcome::crash, Stage::verify, word, Reason::error), text};
}

Finding blame_window(const Window& window) {
  switch (window.end) {
    case Window::End::timeout:
      return {Outcome::timeout, Reason::call, "a call did not come back"};
    case Window::End::stuck:
      return {Outcome::timeout, Reason::stop, "the process could not be stopped after its call"};
    case Window::End::ran:
      return {Outcome::violation, Reason::ran_while_frozen,
              "the process ran for " + std::to_string(std::llround(window.ran_s * 1e9)) + " ns between its calls"};
    case Window::End::escaped:
      return {Outcome::violation, Reason::affinity, "a thread left the cores that it was given"};
    case Window::End::gone: {
      if (ran_out_of_memory(window)) {
        const bool killed = window.exit->signal == SIGKILL;
        return {Outcome::oom, Reason::memory, killed ? kKilledForMemory : "an allocation of the candidate failed"};
      }
      const int number = window.exit ? window.exit->signal : 0;
      return number != 0 ? Finding{Outcome::crash, Reason::signal,
                                   "the candidate's process died of signal " + std::to_string(number)}
                         : Finding{Outcome::crash, Reason::exit, "the candidate ended its process"};
    }
    case Window::End::done:
      break;
  }
  return {Outcome::crash, Reason::status, window.message};
}

Finding blame_set_up(const Window& window) {
  const bool memory =
      ran_out_of_memory(window) || std::any_of(kLackOfMemory.begin(), kLackOfMemory.end(), [&](std::string_view words) {
        return window.message.find(words) != std::string::npos;
      });
  const Outcome status = window.end == Window::End::timeout ? Outcome::timeout : memory ? Outcome::oom : Outcome::crash;
  return {status, Reason::set_up, window.message.empty() ? "the candidate did not get ready" : window.message};
}

std::optional<Finding> blame_unopened(const DeviceTurn& turn) {
  if (turn.lost) {
    return Finding{Outcome::crash, Reason::device, "the GPU did not come back while the candidate ran"};
  }
  if (!turn.opened) {
    return Finding{Outcome::violation, Reason::synchronises,
                   "the candidate did not return before its inputs were there: it waits for the device, allocates or "
                   "loads something in every call"};
  }
  return std::nullopt;
}

std::optional<Finding> blame_acknowledged(const DeviceTurn& turn) {
  if (turn.woke) {
    return Finding{Outcome::violation, Reason::ran_while_frozen, "the process woke up while it was to stand"};
  }
  if (turn.wrong > 0 || turn.loose > turn.most_loose) {
    return Finding{Outcome::wrong, Reason::early_acknowledgement,
                   std::to_string(turn.wrong + turn.loose) + " of " + std::to_string(turn.sampled) +
                       " sampled elements were not there when the call was acknowledged"};
  }
  return std::nullopt;
}

Finding blame_busy(double extra_s) {
  return {Outcome::violation, Reason::device_busy,
          "something of the candidate stays on the device between its calls: opening one took " +
              std::to_string(std::lround(extra_s * 1e6)) + " us longer than alone"};
}

}  // namespace khost::judge
