// The judge's clock on a GPU, time-sliced. Everything of a call stands in queues beforehand: the subject's device waits
// for `go`, the subject's threads are stopped, the judge's stream holds open - event A - wait for `ack` - close - event
// B. So no code of the candidate runs on the host between open and close, and the time is B - A on the judge's events.
// One thread at a time, which holds the device lock.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sandbox/judge/cpu/clock.h"
#include "sandbox/judge/cuda/device.h"
#include "sandbox/judge/cuda/kernels.h"
#include "sandbox/judge/task/zygote.h"
#include "sandbox/subject/cuda_turn.h"

namespace khost::judge::gpu {

// A process that plays turns: a candidate in its own jail, or a child of the zygote.
struct Runner {
  pid_t pid = 0;
  sandbox::ControlPage* page = nullptr;
  std::function<void()> freeze;
  std::function<void()> thaw;
  std::function<std::optional<sandbox::Exit>()> ended;  // the exit once it is gone
};

// Of a zygote's child, which must outlive the runner, and the control page it was lent.
inline Runner runner_of(Child* child, std::byte* page) {
  return {child->pid(), reinterpret_cast<sandbox::ControlPage*>(page), [child] { child->freeze(); },
          [child] { child->thaw(); }, [child] { return child->ended(); }};
}

struct Turn {
  Window window;       // end, seconds (B - A), status, message, exit
  double open_s = 0;   // from launching open until the host saw that it was over, without waiting for a core: long when
                       // somebody is resident
  unsigned wrong = 0;  // samples that did not hold, of outputs of which no element may be wrong
  unsigned loose = 0;  // the same of the others
  bool busy = false;   // a barrier did not pass
  bool woke = false;   // the subject did not stand when the call was closed
  bool lost = false;   // the device itself failed
};

// What is revealed at the opening and what is looked at when closing; device memory.
struct Call {
  Span spans[kMostSpans] = {};
  int span_count = 0;
  Compared outputs;
  std::uint64_t seed = 0;
};

class GpuClock {
 public:
  static Result<std::unique_ptr<GpuClock>> make(Device& device, Runner runner);
  ~GpuClock();
  GpuClock(const GpuClock&) = delete;
  GpuClock& operator=(const GpuClock&) = delete;

  // The steps of a set-up (cuda_turn.h), each waited for; then the subject stands. Nothing of the candidate runs in the
  // first two, which may be left out.
  Window opened(double timeout_s) { return run(sandbox::kOpened, timeout_s, false); }
  Window prepared(double timeout_s) { return run(sandbox::kPrepared, timeout_s, true); }
  // Lets it load the candidate, and waits for the set-up's acknowledgement; then the subject stands.
  Window ready(double timeout_s) { return run(sandbox::kReady, timeout_s, true); }
  void stop();
  // One call at once: checked, not timed. The subject stands before and after.
  Window direct(double timeout_s);
  // One timed call. A subject that does not answer is released from the judge's stream, and then must be ended.
  // `enqueued` looks at what the subject left on the host once all of the call is on the device, before it is opened,
  // and may complete the call; with a status in the window it is not opened.
  using Enqueued = std::function<void(Window&, Call&)>;
  Turn queued(const Call& call, double timeout_s, const Enqueued& enqueued = {});

 private:
  GpuClock(Device& device, Runner runner) : device_(device), runner_(std::move(runner)), page_(runner_.page) {}
  Window run(std::uint32_t seq, double timeout_s, bool thaw);
  bool stand_still();
  bool stands() const;
  void set_form(std::uint32_t form);
  Device& device_;
  Runner runner_;
  sandbox::ControlPage* page_;
  std::uint32_t seq_ = sandbox::kReady;
  void* page_on_device_ = nullptr;
  unsigned* seen_ = nullptr;  // host memory of the judge alone
  unsigned* seen_on_device_ = nullptr;
  TurnState* states_ = nullptr;  // device, open and close
  TurnState* found_ = nullptr;   // host
  cudaEvent_t a_ = nullptr, b_ = nullptr;
  const unsigned resets_ = device_resets();
};

// Host time from launching open to seeing it over, with nobody else on the device: the measure for Turn::open_s.
double idle_open_s(Device& device, const Call& call);

}  // namespace khost::judge::gpu
