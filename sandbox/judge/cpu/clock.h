// The judge's clock on the CPU. A subject runs only inside a window: while it is frozen the judge writes inputs and
// state and poisons the outputs; the thaw is t0, the acknowledgement t1, then it is frozen again and stands before
// anything is read. The judge sleeps in futex(2) and never spins. One thread at a time.
//
// A stop can be put off by whoever wants to work on behind his acknowledgement (SIGCONT to itself, an idle main
// thread), and a stopped process can be woken by a signal that it ordered before. So the time that it still used after
// t1 is part of the window's result, and a window does not open on a process that used any while it was to stand.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>

#include "sandbox/jail/jail.h"
#include "sandbox/judge/task/region.h"
#include "sandbox/subject/turn.h"

namespace khost::judge {

// A process that plays turns: a candidate in its own jail, or a child of the zygote.
struct Player {
  pid_t pid = 0;
  sandbox::ControlPage* page = nullptr;
  std::function<void()> freeze;
  std::function<void()> thaw;
  std::function<std::optional<sandbox::Exit>()> ended;  // the exit once it is gone
  int first_core = 0, cores = 0;                        // where it may run, as for pin(); 0 cores: anywhere
};

struct Window {
  enum class End {
    done,
    timeout,
    gone,
    stuck,    // it cannot be stopped
    ran,      // it used the processor while it was to stand; the window did not open
    escaped,  // a thread of it left the cores that it was given
  };
  End end = End::done;
  double seconds = 0;
  double others_s = 0;       // time that others had its cores, and that the judge's thread waited for one of its own
  double freeze_s = 0;       // from the acknowledgement until every thread stood
  double ran_s = 0;          // processor time since it was found to stand
  double late_s = 0;         // processor time after the acknowledgement, at most freeze_s
  double reply_s = 0;        // from the stamp of the acknowledgement to t1; of use where the subject is trusted
  std::uint32_t status = 0;  // what the launcher returned, by its own account
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
  // From now on its threads go before those of other programs on their cores, where the judge may say so (as root).
  void raise_priority() { favoured_ = true; }

 private:
  Window run(std::uint32_t seq, double timeout_s, bool thaw);
  bool stand_still();
  std::optional<sandbox::Exit> ends_soon();
  bool in_place();
  double others_s() const;
  Player player_;
  std::optional<double> used_s_;  // processor time of the subject when it came to stand
  std::uint32_t seq_ = sandbox::kReady;
  bool favoured_ = false;
};

// Waits until every thread of a process stands, off its core, and its processor time grows no more: that time, of
// threads living and dead, in seconds. Nothing when it did not come to that within 5 s.
std::optional<double> stood_at_s(pid_t pid);
// Whether every thread of it is shown as stopped, now.
bool all_stand(pid_t pid);
// Seconds that the calling thread has waited for a core so far.
double waited_s();

// Keeps all threads of a process on some of the cores that this process was given when it started, counted from the
// first of them; without effect where there is only one.
void pin(pid_t pid, int first_core, int cores);
void pin_thread(int core);  // the calling one
int core_count();
// Where subjects run: all cores but the first, as many as they have threads; the only one where there is one.
int subject_core();
int judge_core();  // the system's number of the one that is left to the judge
int subject_cores(int threads);

// Keeps the threads of this process off the cores of a subject for as long as it lives, and lets the calling one go
// before those of other programs where that is allowed.
class OffTheCores {
 public:
  OffTheCores(int first_core, int cores);
  OffTheCores(const OffTheCores&) = delete;
  OffTheCores& operator=(const OffTheCores&) = delete;
  ~OffTheCores();

 private:
  int nice_ = 0;
  bool moved_ = false;
};

// What a window is charged with, in seconds: its length, and all of what the subject used behind its acknowledgement
// beyond `allowed_s`, on however many cores: one thread that works on may be all of them.
double charged_s(const Window& window, double allowed_s);
// What was the subject's own of so many seconds of a window on so many cores. Of one core, what others had of it is
// not; of several, what they had of one may have cost nothing.
double own_s(const Window& window, double seconds, int cores);
// Whether a window's time is the subject's own: others had less than 1 % of it (and 20 us). What its own threads do to
// each other is its own affair.
bool undisturbed(const Window& window);

}  // namespace khost::judge
