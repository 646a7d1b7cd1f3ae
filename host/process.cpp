#include "host/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <system_error>

#define BOOST_PROCESS_USE_STD_FS 1  // else Boost.Filesystem would have to be linked
#include <boost/process/args.hpp>
#include <boost/process/child.hpp>
#include <boost/process/exe.hpp>
#include <boost/process/group.hpp>
#include <boost/process/posix.hpp>
#include <boost/process/search_path.hpp>

#include "host/base/defer.h"

namespace khost {
namespace {

namespace bp = boost::process;
using Steady = std::chrono::steady_clock;

double seconds_since(Steady::time_point begin) {
  return std::chrono::duration<double>(Steady::now() - begin).count();
}

struct Pipe {
  static Result<Pipe> open() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
      return Failure{std::string("pipe: ") + strerror(errno), "io"};
    }
    return Pipe{ends[0], ends[1]};
  }
  void close_both() const {
    close(read);
    close(write);
  }
  int read = -1, write = -1;
};

// Where execvp would find it: a name with a slash is a path, another is looked for in PATH.
std::string located(const std::string& name) {
  return name.find('/') != std::string::npos ? name : bp::search_path(name).string();
}

Failure cannot_start(const std::string& name, const std::string& why) {
  return {"cannot start '" + name + "': " + why, "io"};
}

}  // namespace

void ProgramStop::ask() {
  const std::scoped_lock lock(mutex_);
  asked_ = true;
  if (pid_ != 0) {
    kill(-pid_, SIGKILL);
    siginfo_t info;
    // Looks without reaping, which is the running thread's to do: it needs the lock for it, so `pid_` stays ours.
    while (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT) != 0 && errno == EINTR) {
    }
  }
}

bool ProgramStop::asked() const {
  const std::scoped_lock lock(mutex_);
  return asked_;
}

// One run of run_program: start, collect the output, reap.
class RunningProgram {
 public:
  RunningProgram(const std::vector<std::string>& argv, const ProgramOptions& options, ProgramStop& stop)
      : argv_(argv), options_(options), stop_(stop) {}

  Status start(int output) {
    const std::string program = located(argv_[0]);
    if (program.empty()) {
      return cannot_start(argv_[0], strerror(ENOENT));
    }
    const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    const Defer close_nothing([&] { close(nothing); });
    const std::scoped_lock lock(stop_.mutex_);
    if (stop_.asked_) {
      return Failure{"stopped before '" + argv_[0] + "' was started", "cancelled"};
    }
    std::error_code error;
    // A group of its own: it is killed with all its children, and Ctrl-C goes to khost alone.
    child_ = bp::child(bp::exe = program, bp::args = std::vector<std::string>(argv_.begin() + 1, argv_.end()),
                       bp::posix::fd.bind(0, nothing), bp::posix::fd.bind(1, output), bp::posix::fd.bind(2, output),
                       group_, error);
    if (error) {
      return cannot_start(argv_[0], error.message());
    }
    stop_.pid_ = child_.id();
    return ok();
  }

  // Reads until the program closes its output, ends or has to be ended.
  void collect(int from) {
    char block[4096];
    while (!over()) {
      pollfd ready{from, POLLIN, 0};
      if (poll(&ready, 1, 50) <= 0) {
        continue;
      }
      const ssize_t n = read(from, block, sizeof block);
      if (n == 0 || (n < 0 && errno != EINTR)) {
        return;
      }
      const size_t room = options_.output_bytes - std::min(options_.output_bytes, result_.output.size());
      result_.output.append(block, std::min(static_cast<size_t>(std::max<ssize_t>(n, 0)), room));
    }
  }

  // The output may end before the program does.
  ProgramResult finish() {
    while (!reaped()) {
      over();
      usleep(2000);
    }
    const int status = child_.native_exit_code();
    result_.wall_s = seconds_since(begin_);
    result_.code = timed_out_ ? 124 : WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    return result_;
  }

 private:
  // Kills the group, once, when its time is over.
  bool over() {
    timed_out_ = timed_out_ || seconds_since(begin_) > options_.timeout_s;
    if (timed_out_ && !killed_) {
      std::error_code gone;
      group_.terminate(gone);
      killed_ = true;
    }
    return killed_ || stop_.asked();
  }

  bool reaped() {
    const std::scoped_lock lock(stop_.mutex_);
    std::error_code error;
    const bool gone = !child_.running(error);
    stop_.pid_ = gone ? 0 : child_.id();
    return gone;
  }

  const std::vector<std::string>& argv_;
  const ProgramOptions& options_;
  ProgramStop& stop_;
  bp::group group_;
  bp::child child_;
  const Steady::time_point begin_ = Steady::now();
  bool timed_out_ = false, killed_ = false;
  ProgramResult result_;
};

Result<ProgramResult> run_program(const std::vector<std::string>& argv, const ProgramOptions& options,
                                  const std::shared_ptr<ProgramStop>& stop) {
  if (argv.empty()) {
    return Failure{"no program was named", "bad_input"};
  }
  ProgramStop nobody;
  RunningProgram program(argv, options, stop ? *stop : nobody);
  Result<Pipe> pipe = Pipe::open();
  if (!pipe) {
    return pipe.failure();
  }
  const Defer close_read([&] { close(pipe->read); });
  const Status started = program.start(pipe->write);
  close(pipe->write);
  if (!started) {
    return started.failure();
  }
  program.collect(pipe->read);
  return program.finish();
}

Result<TalkingProgram> start_talking(const std::vector<std::string>& argv) {
  Result<Pipe> to = Pipe::open();
  if (!to) {
    return to.failure();
  }
  Result<Pipe> from = Pipe::open();
  if (!from) {
    to->close_both();
    return from.failure();
  }
  std::error_code error;
  bp::child child(bp::exe = argv[0], bp::args = std::vector<std::string>(argv.begin() + 1, argv.end()),
                  bp::posix::fd.bind(0, to->read), bp::posix::fd.bind(1, from->write), error);
  close(to->read);
  close(from->write);
  if (error) {
    close(to->write);
    close(from->read);
    return cannot_start(argv[0], error.message());
  }
  const pid_t pid = child.id();
  child.detach();
  return TalkingProgram{pid, to->write, from->read};
}

}  // namespace khost
