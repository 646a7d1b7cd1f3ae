// A candidate alive: khost-subject in its own single-use jail, with the regions lent to it. One thread at a time.
#pragma once

#include <memory>
#include <string>

#include "sandbox/abi/plan.h"
#include "sandbox/jail/jail.h"
#include "sandbox/judge/clock.h"
#include "sandbox/judge/session.h"

namespace khost::judge {

// AddressSanitizer reserves more addresses than any limit of memory leaves.
#ifdef __SANITIZE_ADDRESS__
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

class Subject {
 public:
  // `library` is a path, opened here; a name without a slash is looked up by the dynamic linker inside.
  static Result<std::unique_ptr<Subject>> start(const Session* session, const sandbox::Plan& plan,
                                                const std::string& library, int threads, const sandbox::Limits& limits);
  Clock& clock() { return *clock_; }
  pid_t pid() const { return jail_->pid(); }
  const sandbox::Plan& plan() const { return plan_; }
  // Writes a set and poisons the outputs; the subject must stand.
  void write(const Session& session, const Set& set);
  // The sets that were written, in order, the one that stands there last.
  const std::vector<const Set*>& met() const { return met_; }
  const std::byte* outputs() const { return outputs_.data(); }

 private:
  Subject() = default;
  sandbox::Plan plan_;
  std::vector<const Set*> met_;
  Region control_, inputs_, state_, outputs_, text_;
  Region library_;
  std::unique_ptr<sandbox::Jail> jail_;
  std::unique_ptr<Clock> clock_;
};

// A baseline alive: a child of the zygote on writable copies of the same regions.
class BaselineSubject {
 public:
  // `cache`: what a compiler made of the task before (Base64, python/check.py), opened by the child and nowhere else.
  static Result<std::unique_ptr<BaselineSubject>> start(Zygote& zygote, const Session& session, const Set& first,
                                                        const std::string& kind, const std::string& cache,
                                                        double timeout_s);
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
