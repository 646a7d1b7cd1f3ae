// A subject process before it is given a candidate: khost-subject-cuda in its single-use jail, with a context on the
// device and nothing of a candidate or a task. Creating the context takes half a second, so a pool keeps some ready.
// One thread at a time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sandbox/jail/fd.h"
#include "sandbox/jail/jail.h"
#include "sandbox/judge/cuda/clock.h"
#include "sandbox/judge/cuda/device.h"
#include "sandbox/judge/task/region.h"

namespace khost::judge::gpu {

// A profiler taken into a subject (sandbox/profiler/inject.h): the page that it fills, and libraries as the jail sees
// them.
struct Profiling {
  int page_fd = -1;
  std::string library, cupti;
  std::string loaded;  // CUPTI's name where torch has loaded it
};

// How many queues for kernels the driver makes with a context. As it comes there are eight, which streams need that run
// beside each other; with two the driver takes less than half of the time (tests/manual/probes/README.md).
enum class Queues { all, few };

struct IdleSubject {
  Device* device = nullptr;
  Region control;
  sandbox::Fd orders;  // a socket: the rest of its command line, and descriptors (sandbox/subject/fd_message.h)
  std::unique_ptr<sandbox::Jail> jail;
  std::unique_ptr<GpuClock> clock;

  // Blocks until the context exists; the process is then stopped. With `profiling` its calls cannot be timed.
  // device, with the driver's message, when the context could not be created.
  static Result<IdleSubject> open(Device& device, Queues queues, const Profiling* profiling = nullptr);
};

}  // namespace khost::judge::gpu
