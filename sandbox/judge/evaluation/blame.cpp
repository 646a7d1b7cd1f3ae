#include "sandbox/judge/evaluation/blame.h"

#include <algorithm>
#include <array>

namespace khost::judge {
namespace {

constexpr std::array<std::string_view, 6> kOurs{"gone", "host", "io", "busy", "lease", "device"};
constexpr std::array<std::string_view, 7> kOfTask{"bad_task",   "timeout",   "limit",  "not_finite",
                                                  "equal_sets", "ambiguous", "trivial"};

template <std::size_t n>
bool among(const std::array<std::string_view, n>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// The code as a reason where it is one of that status, else `other`.
Reason reason_for(Outcome status, Stage stage, std::string_view code, Reason other) {
  const std::optional<Reason> reason = reason_of(code);
  return reason && allowed(status, stage, *reason) ? *reason : other;
}

Finding host_failure(const Failure& why) {
  return {Outcome::void_, reason_for(Outcome::void_, Stage::task, why.code, Reason::host), why.message};
}

}  // namespace

std::optional<Reason> refusal_of(std::string_view text) {
  if (text.substr(0, kRefusal.size()) != kRefusal) {
    return std::nullopt;
  }
  text.remove_prefix(kRefusal.size());
  return reason_for(Outcome::violation, Stage::verify, text.substr(0, text.find(':')), Reason::forbidden);
}

bool is_ours(const Failure& why) {
  return among(kOurs, why.code);
}

bool blames_task(const Failure& why) {
  return among(kOfTask, why.code);
}

Finding blame_build(const Failure& why) {
  if (const std::optional<Reason> refused = refusal_of(why.code)) {
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
  if (const std::optional<Reason> refused = refusal_of(why.code)) {
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
  if (const std::optional<Reason> refused = refusal_of(word)) {
    return {Outcome::violation, *refused, text};
  }
  return {Outcome::crash, reason_for(Outcome::crash, Stage::verify, word, Reason::error), text};
}

}  // namespace khost::judge
