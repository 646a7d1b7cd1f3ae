// The blocking conveniences: run a program in a jail to its end, and ask whether jails work here.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>

#include <algorithm>
#include <mutex>

#include "host/base/executable.h"
#include "sandbox/jail/fd.h"
#include "sandbox/jail/jail.h"
#include "sandbox/jail/output_cut.h"
#include "sandbox/jail/patience.h"

namespace khost::sandbox {
namespace {

using Clock = std::chrono::steady_clock;

struct Pipe {
  Fd read, write;
};

Result<Pipe> make_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return system_failure("pipe2");
  }
  return Pipe{Fd(ends[0]), Fd(ends[1])};
}

void make_nonblocking(const Fd& fd) {
  fcntl(fd.get(), F_SETFL, fcntl(fd.get(), F_GETFL) | O_NONBLOCK);
}

// Feeds and drains the pipes until the tree is gone and the pipes are empty, or until patience ends.
void pump(Jail& jail, Pipe& in, Fd& out, Fd& err, const std::string& input, HeadTail& out_text, HeadTail& err_text,
          const Patience& patience) {
  size_t fed = 0;
  char buffer[65536];
  bool ended = false;
  const auto drain = [&buffer](Fd& fd, HeadTail& text) {
    for (ssize_t n; fd && (n = read(fd.get(), buffer, sizeof buffer)) != -1;) {
      if (n == 0) {
        fd.reset();
        return;
      }
      text.add({buffer, static_cast<size_t>(n)});
    }
  };
  while (!ended || out || err) {
    if (fed == input.size()) {
      in.write.reset();
    }
    if (patience.over()) {
      return;
    }
    // poll skips negative descriptors
    pollfd waiting[] = {{in.write.get(), POLLOUT, 0},
                        {out.get(), POLLIN, 0},
                        {err.get(), POLLIN, 0},
                        {ended ? -1 : jail.exit_fd(), POLLIN, 0}};
    poll(waiting, 4, patience.left_ms());
    if (in.write && waiting[0].revents != 0) {
      const ssize_t n = write(in.write.get(), input.data() + fed, input.size() - fed);
      if (n >= 0) {
        fed += static_cast<size_t>(n);
      } else if (errno != EAGAIN) {
        in.write.reset();  // the program closed its input
      }
    }
    drain(out, out_text);
    drain(err, err_text);
    ended = ended || waiting[3].revents != 0;
    if (ended) {
      // every writer is gone with the tree: what is left in the pipes was just read, ends are seen by the next drain
      drain(out, out_text);
      drain(err, err_text);
      return;
    }
  }
}

// A write to a pipe whose reader ended must be an error here, not the death of the host.
void ignore_broken_pipes() {
  static std::once_flag once;
  std::call_once(once, [] { signal(SIGPIPE, SIG_IGN); });
}

}  // namespace

Result<Output> run_in_jail(const JailSpec& spec, const std::string& input, double timeout_s, size_t output_bytes) {
  ignore_broken_pipes();
  Result<Pipe> in = make_pipe();
  Result<Pipe> out = make_pipe();
  Result<Pipe> err = make_pipe();
  if (!in || !out || !err) {
    return system_failure("pipe2");
  }
  JailSpec with_pipes = spec;
  with_pipes.fds.emplace_back(in->read.get(), 0);
  with_pipes.fds.emplace_back(out->write.get(), 1);
  with_pipes.fds.emplace_back(err->write.get(), 2);
  Result<Jail> jail = Jail::start(with_pipes);
  if (!jail) {
    return jail.failure();
  }
  in->read.reset();
  out->write.reset();
  err->write.reset();
  make_nonblocking(in->write);
  make_nonblocking(out->read);
  make_nonblocking(err->read);
  const Patience patience(std::min(timeout_s, 1e8));
  HeadTail out_text(output_bytes);
  HeadTail err_text(output_bytes);
  pump(*jail, *in, out->read, err->read, input, out_text, err_text, patience);
  Output output;
  output.exit = jail->wait(Clock::now() + std::chrono::milliseconds(patience.left_ms()));
  output.out = out_text.text();
  output.err = err_text.text();
  output.truncated = out_text.dropped() > 0 || err_text.dropped() > 0;
  return output;
}

Status jail_available() {
  JailSpec spec;
  spec.name = "probe";
  spec.argv = {"/bin/true"};
  const Result<Output> output = run_in_jail(spec, "", 10, 1024);
  if (!output) {
    return output.failure();
  }
  return output.value().exit.code == 0 ? ok() : Status(Failure{"/bin/true failed in a jail", "host"});
}

std::string self_directory() {
  return executable_dir();
}

}  // namespace khost::sandbox
