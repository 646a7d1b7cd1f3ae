// A jailed Python that has torch imported, and its children. start() blocks for the import (2 to 5 s); spawn() for a
// fork (about 20 ms). A child serves one job and is killed with its object. spawn() may be called from any thread, a
// Child belongs to one thread at a time.
#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "host/base/json.h"
#include "host/base/result.h"
#include "sandbox/jail/fd.h"
#include "sandbox/jail/jail.h"

namespace khost::judge {

struct PythonPlace {
  std::string python;  // interpreter with torch
  std::string root;    // holds sandbox/python
};

// The GPU as a zygote's jail sees it.
struct GpuView {
  std::vector<std::string> devices, prefixes;
  std::string library_path, driver_folder;
};

// The driver's settings for every process with a context that the judge starts: no MPS server, and one queue for copies
// between host and device. The driver makes the contexts of all processes one after the other, and the other queues
// take it half of that time (tests/manual/probes/contexts.cpp). Queues for kernels stay: streams need them.
inline const std::map<std::string, std::string> kDriverSettings = {{"CUDA_MPS_PIPE_DIRECTORY", "/nonexistent"},
                                                                   {"CUDA_DEVICE_MAX_COPY_CONNECTIONS", "1"}};

// What is said where one ended before it answered: by itself, or because somebody killed it.
inline constexpr const char* kChildEnded = "a Python child ended";

class Child {
 public:
  Child() = default;
  Child(Child&&) = default;
  Child& operator=(Child&&) = default;
  ~Child();
  // Sends a request with descriptors. An answer {"error": text} is a Failure of code bad_task; limit where it wants
  // memory of the device; io where what the jail's processes have together is used up, which others may have done.
  Result<Json> call(const Json& request, const std::vector<int>& fds, double timeout_s);
  // Sends a request to a child that answers in another way: a candidate's, of whom no answer is believed.
  Status tell(const Json& request, const std::vector<int>& fds) { return send(request, fds); }
  Result<Json> answer(double timeout_s);  // to what was told; as call() gives it
  // Answers that are longer are as good as none: for a child that runs a stranger's code, since a parsed answer takes
  // many times its length.
  void bound_answers(std::size_t bytes) { most_body_ = bytes; }
  pid_t pid() const { return pid_; }
  void freeze();
  void thaw();
  void kill();  // without waiting for its end
  std::optional<sandbox::Exit> ended();

 private:
  friend class Zygote;
  Status send(const Json& request, const std::vector<int>& fds);
  Result<Json> receive(double timeout_s);
  sandbox::Fd channel_;
  sandbox::Fd pidfd_;
  pid_t pid_ = 0;
  std::size_t most_body_ = std::size_t{64} << 20;
};

// Whose code the children run. tasks: of tasks. compilers: of tasks, and they begin with a warm compiler. recorders:
// of all candidates, each in a child that cannot start a process, and can do nothing to the zygote and its other
// children (confinement.py). device_recorders: the same of all candidates of target cuda, without a device; they build
// extensions too. candidate: of one candidate beside a GPU.
enum class Serves { tasks, compilers, recorders, device_recorders, candidate };

class Zygote {
 public:
  static Result<std::unique_ptr<Zygote>> start(const PythonPlace& place, const std::string& name, Serves serves,
                                               const GpuView* gpu = nullptr);
  // gone: the zygote has ended or was stopped by what runs in it, or its child has ended; io: the machine has no room
  // or too much to do now.
  Result<Child> spawn();
  bool alive();
  pid_t pid() const { return jail_.pid(); }

 private:
  Zygote(sandbox::Jail jail, sandbox::Fd socket) : jail_(std::move(jail)), socket_(std::move(socket)) {}
  // Of its jail, for good, and waits for that: who asks next must not take it for alive. Under mutex_.
  void end();
  std::mutex mutex_;
  sandbox::Jail jail_;
  sandbox::Fd socket_;
};

}  // namespace khost::judge
