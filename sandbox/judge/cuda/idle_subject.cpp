#include "sandbox/judge/cuda/idle_subject.h"

#include <sys/socket.h>

#include "sandbox/judge/task/zygote.h"

namespace khost::judge::gpu {

using sandbox::Fd;
using sandbox::Jail;
using sandbox::JailSpec;

namespace {
constexpr double kOpenTimeout_s = 20;
constexpr const char* kFewQueues = "2";
}  // namespace

Result<IdleSubject> IdleSubject::open(Device& device, Queues queues, const Profiling* profiling) {
  IdleSubject blank;
  blank.device = &device;
  Result<Region> control = Region::make("control", sandbox::kControlBytes, Region::Others::write);
  if (!control) {
    return control.failure();
  }
  blank.control = std::move(*control);
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return sandbox::system_failure("socketpair", "host");
  }
  blank.orders = Fd(ends[0]);
  const Fd theirs(ends[1]);

  const std::string program = sandbox::self_directory() + "/khost-subject-cuda";
  const Access& access = device.access();
  JailSpec spec;
  spec.name = "subject";
  spec.argv = {program, "--control", "3", "--orders", "4"};
  spec.fds = {{blank.control.fd(), 3}, {theirs.get(), 4}};
  spec.readable_prefixes = access.prefixes;
  spec.readable_prefixes.push_back(program);
  if (profiling != nullptr) {
    spec.argv.insert(spec.argv.end(), {"--profile", "5", profiling->library, profiling->cupti});
    spec.fds.push_back({profiling->page_fd, 5});
    for (const std::string& path : {profiling->library, profiling->cupti}) {
      if (path.rfind("/usr/", 0) != 0) {
        spec.readable_prefixes.push_back(path);
      }
    }
  }
  spec.devices = access.nodes;
  spec.environment = {
      {"LD_LIBRARY_PATH", access.library_path}, {"CUDA_MODULE_LOADING", "LAZY"}, {"CUDA_CACHE_DISABLE", "1"}};
  spec.environment.insert(kDriverSettings.begin(), kDriverSettings.end());
  if (queues == Queues::few) {
    spec.environment["CUDA_DEVICE_MAX_CONNECTIONS"] = kFewQueues;
  }
  spec.threads_only = true;
  spec.limit_address_space = false;
  spec.limits.memory_bytes = std::size_t{16} << 30;
  spec.limits.cpu_s = 60;
  Result<Jail> jail = Jail::start(spec);
  if (!jail) {
    return jail.failure();
  }
  blank.jail = std::make_unique<Jail>(std::move(*jail));
  Jail* held = blank.jail.get();
  Result<std::unique_ptr<GpuClock>> clock = GpuClock::make(
      device, Runner{held->pid(), reinterpret_cast<sandbox::ControlPage*>(blank.control.data()),
                     [held] { held->freeze(); }, [held] { held->thaw(); }, [held] { return held->poll(); }});
  if (!clock) {
    return clock.failure();
  }
  blank.clock = std::move(*clock);
  const Window window = blank.clock->opened(kOpenTimeout_s);
  if (window.end != Window::End::done || window.status != 0) {
    return Failure{window.message.empty() ? "the subject did not start" : window.message, "device"};
  }
  return blank;
}

}  // namespace khost::judge::gpu
