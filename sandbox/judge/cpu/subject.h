// A candidate alive: khost-subject in its own single-use jail, with the regions lent to it. One thread at a time.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sandbox/abi/plan.h"
#include "sandbox/jail/jail.h"
#include "sandbox/judge/cpu/clock.h"
#include "sandbox/judge/task/session.h"

namespace khost::judge {

// AddressSanitizer reserves more addresses than any limit of memory leaves.
#ifdef __SANITIZE_ADDRESS__
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

// How a plan with torch operators is played, by a child of a confined zygote (mixed_player.py).
struct MixedSubject {
  Zygote& zygote;
  std::string library;  // a path; empty: the audit, in which nothing of the candidate's runs (mixed_audit.py)
  const sandbox::Signatures& signatures;
  const Region& own;  // sandbox/abi/plan.h: own_bytes
  int threads = 1;
  bool lends = false;  // whether the first call writes into `own` what launches wrote
};

class Subject {
 public:
  // `library` is a path, opened here; a name without a slash is looked up by the dynamic linker inside.
  static Result<std::unique_ptr<Subject>> start(const Session* session, const sandbox::Plan& plan,
                                                const std::string& library, int threads, const sandbox::Limits& limits);
  static Result<std::unique_ptr<Subject>> start_mixed(const Session& session, const sandbox::Plan& plan,
                                                      const MixedSubject& mixed);
  // What the audit says before its first call: {"computing"}, how many of the plan's operators compute.
  Result<Json> audit_counts(double timeout_s) { return child_.answer(timeout_s); }
  Clock& clock() { return *clock_; }
  pid_t pid() const { return jail_ ? jail_->pid() : child_.pid(); }
  const sandbox::Plan& plan() const { return plan_; }
  // Writes a set and poisons the outputs; the subject must stand.
  void write(const Session& session, const Set& set);
  // The sets that were written, in order, the one that stands there last.
  const std::vector<const Set*>& met() const { return met_; }
  const std::byte* outputs() const { return outputs_.data(); }
  // The first storage of the outputs behind whose end something was written since the last write(). Storages are
  // aligned, and what lies between two of them belongs to nobody.
  std::optional<std::size_t> written_beyond() const;

 private:
  Subject() = default;
  sandbox::Plan plan_;
  std::vector<const Set*> met_;
  Region control_, inputs_, state_, outputs_, text_;
  std::vector<std::byte> behind_;  // what lay behind each storage of the outputs when a set was written
  Region library_;
  std::unique_ptr<sandbox::Jail> jail_;
  Child child_;  // instead of a jail of its own, where it plays torch operators
  std::unique_ptr<Clock> clock_;
};

// Which baseline, and how it runs.
struct BaselineKind {
  std::string name;        // eager, compile or empty
  std::string cache = "";  // what a compiler made of the task before (Base64, python/check.py): only the child opens it
  int threads = 1;         // as many cores as a candidate with so many threads has
};

// A baseline alive: a child of the zygote on writable copies of the same regions.
class BaselineSubject {
 public:
  static Result<std::unique_ptr<BaselineSubject>> start(Zygote& zygote, const Session& session, const Set& first,
                                                        const BaselineKind& kind, double timeout_s);
  // Graphs that the cache spared from compiling; -1 when it was given none.
  int cache_hits() const { return cache_hits_; }
  Clock& clock() { return *clock_; }
  pid_t pid() const { return child_.pid(); }
  // Lets it drop the outputs of the call before and writes a set; the subject must stand.
  void write(const Session& session, const Set& set);

 private:
  BaselineSubject() = default;
  int cache_hits_ = -1;
  Region control_, inputs_, state_;
  Child child_;
  std::unique_ptr<Clock> clock_;
};

}  // namespace khost::judge
