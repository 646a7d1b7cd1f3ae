// The judge's clock on the CPU. A subject runs only inside a window: while it is frozen the judge writes inputs and
// state and poisons the outputs; the thaw is t0, the acknowledgement t1, then it is frozen again and stands before
// anything is read. The judge sleeps in futex(2) and never spins. One thread at a time.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>

#include "sandbox/jail/jail.h"
#include "sandbox/judge/region.h"
#include "sandbox/subject/turn.h"

namespace khost::judge {

// A process that plays turns: a candidate in its own jail, or a child of the zygote.
struct Player {
  pid_t pid = 0;
  sandbox::ControlPage* page = nullptr;
  std::function<void()> freeze;
  std::function<void()> thaw;
  std::function<std::optional<sandbox::Exit>()> ended;  // the exit once it is gone
};

struct Window {
  enum class End { done, timeout, gone, stuck };
  End end = End::done;
  double seconds = 0;
  double waited_s = 0;        // time on the run queue of all its threads: the core was not free
  double freeze_s = 0;        // from the acknowledgement until every thread stood
  std::uint32_t status = 0;   // what the launcher returned, by its own account
  std::string message;
  std::optional<sandbox::Exit> exit;
};

class Clock {
 public:
  explicit Clock(Player player) : player_(std::move(player)) {}

  // Waits for the set-up's acknowledgement, then freezes.
  Window ready(double timeout_s);
  // Freezes a subject that is ready.
  void stop();
  // One call. The subject stands before and after.
  Window call(double timeout_s);

 private:
  Window run(std::uint32_t seq, double timeout_s, bool thaw);
  bool stand_still();
  Player player_;
  std::uint32_t seq_ = sandbox::kReady;
};

// Keeps this process (0) or another one on some of the cores that this process was given when it started, counted from
// the first of them; without effect where there is only one.
void pin(pid_t pid, int first_core, int cores);
int core_count();

// Whether a window's time is the subject's own: less than 1 % of it (and 20 us) was spent waiting for a core.
bool undisturbed(const Window& window);

}  // namespace khost::judge
