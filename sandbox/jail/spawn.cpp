#include "sandbox/jail/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <mutex>
#include <thread>

#include "host/base/defer.h"

namespace khost::sandbox {
namespace {

constexpr int kHigh = 500;  // our copies lie above every number asked for, so that no dup2 overwrites a source

class Keeper {
 public:
  Keeper() {
    std::thread([this] { serve(); }).detach();
  }

  Result<pid_t> call(std::function<Result<pid_t>()> work) {
    std::packaged_task<Result<pid_t>()> task(std::move(work));
    std::future<Result<pid_t>> answer = task.get_future();
    {
      const std::lock_guard lock(mutex_);
      queue_.push_back(std::move(task));
    }
    wake_.notify_one();
    return answer.get();
  }

 private:
  void serve() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, nullptr);
    for (;;) {
      std::packaged_task<Result<pid_t>()> task;
      {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [this] { return !queue_.empty(); });
        task = std::move(queue_.front());
        queue_.pop_front();
      }
      task();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::packaged_task<Result<pid_t>()>> queue_;
};

Result<pid_t> spawn_here(const std::string& program, const std::vector<std::string>& argv,
                         const std::vector<std::pair<int, int>>& fds) {
  std::vector<int> copies;
  const Defer close_copies([&copies] {
    for (const int fd : copies) {
      close(fd);
    }
  });
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  const Defer destroy([&] {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  });
  int last = -1;
  for (const auto& [ours, there] : fds) {
    const int copy = fcntl(ours, F_DUPFD_CLOEXEC, kHigh);
    if (copy < 0) {
      return Failure{"fcntl F_DUPFD_CLOEXEC " + std::to_string(ours) + ": " + strerror(errno), "io"};
    }
    copies.push_back(copy);
    posix_spawn_file_actions_adddup2(&actions, copy, there);
    last = std::max(last, there);
  }
  posix_spawn_file_actions_addclosefrom_np(&actions, last + 1);
  sigset_t none;
  sigset_t all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  std::vector<char*> words;
  for (const std::string& word : argv) {
    words.push_back(const_cast<char*>(word.c_str()));
  }
  words.push_back(nullptr);
  char* no_environment[] = {nullptr};
  pid_t pid = 0;
  const int error = posix_spawn(&pid, program.c_str(), &actions, &attributes, words.data(), no_environment);
  if (error != 0) {
    return Failure{"cannot run " + program + ": " + strerror(error), "host"};
  }
  return pid;
}

}  // namespace

Result<pid_t> spawn(const std::string& program, const std::vector<std::string>& argv,
                    const std::vector<std::pair<int, int>>& fds) {
  // Never destroyed: its thread is the parent of living jails. A forked process has no such thread, and makes its own.
  static std::mutex mutex;
  static Keeper* keeper = nullptr;
  static pid_t owner = 0;
  Keeper* current = nullptr;
  {
    const std::lock_guard lock(mutex);
    if (owner != getpid()) {
      keeper = new Keeper;
      owner = getpid();
    }
    current = keeper;
  }
  return current->call([&] { return spawn_here(program, argv, fds); });
}

}  // namespace khost::sandbox
