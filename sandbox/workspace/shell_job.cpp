#include "sandbox/workspace/shell_job.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>

#include "sandbox/jail/fd.h"
#include "sandbox/workspace/start_gate.h"

namespace khost::sandbox {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kBufferBytes = 1 << 20;  // of output that nobody has read yet

}  // namespace

Job::Job(Jail jail) : jail_(std::move(jail)) {}

Result<std::shared_ptr<Job>> Job::start(JailSpec spec, double timeout_s) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return system_failure("pipe2");
  }
  Fd ours(ends[0]);
  const Fd theirs(ends[1]);
  fcntl(ours.get(), F_SETFL, O_NONBLOCK);
  spec.fds = {{theirs.get(), 1}, {theirs.get(), 2}};
  Result<Jail> jail = [&spec] {
    const StartGate gate;
    return Jail::start(spec);
  }();
  if (!jail) {
    return jail.failure();
  }
  std::shared_ptr<Job> job(new Job(std::move(*jail)));
  job->thread_ = std::thread([raw = job.get(), fd = ours.release(), timeout_s] { raw->drain(fd, timeout_s); });
  return job;
}

Job::~Job() {
  {
    const std::lock_guard lock(mutex_);
    jail_.kill();
  }
  thread_.join();
}

void Job::drain(int fd, double timeout_s) {
  Fd output(fd);
  const auto deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                           std::chrono::duration<double>(std::min(timeout_s, 1e8)));
  bool timed_out = false;
  for (bool ended = false; !ended;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0 && !timed_out) {
      timed_out = true;
      jail_.kill();
    }
    pollfd waiting[] = {{output.get(), POLLIN, 0}, {jail_.exit_fd(), POLLIN, 0}};
    poll(waiting, 2, timed_out ? 1000 : static_cast<int>(std::min<long long>(left, 1 << 30)));
    ended = waiting[1].revents != 0;
    char text[65536];
    for (ssize_t n; output && (n = read(output.get(), text, sizeof text)) >= 0;) {
      if (n == 0) {
        output.reset();
        break;
      }
      const std::lock_guard lock(mutex_);
      buffer_.append(text, static_cast<size_t>(n));
      if (buffer_.size() > kBufferBytes) {
        lost_ += buffer_.size() - kBufferBytes;
        buffer_.erase(0, buffer_.size() - kBufferBytes);
      }
    }
  }
  const std::lock_guard lock(mutex_);
  exit_ = jail_.wait();
  exit_->timed_out = timed_out;
  ended_.notify_all();
}

bool Job::running() const {
  const std::lock_guard lock(mutex_);
  return !exit_;
}

JobOutput Job::take() {
  const std::lock_guard lock(mutex_);
  JobOutput taken;
  taken.output = std::exchange(buffer_, "");
  taken.lost_bytes = std::exchange(lost_, 0);
  taken.wall_s = exit_ ? exit_->wall_s : std::chrono::duration<double>(Clock::now() - begin_).count();
  taken.status = "running";
  if (exit_) {
    taken.code = exit_->code;
    taken.status = exit_->timed_out   ? "timed_out"
                   : kill_asked_      ? "killed"
                   : exit_->code == 0 ? "completed"
                   : exit_->code > 0  ? "failed"
                                      : "killed";
  }
  return taken;
}

void Job::kill() {
  std::unique_lock lock(mutex_);
  if (exit_) {
    return;
  }
  kill_asked_ = true;
  jail_.signal(SIGTERM);
  if (!ended_.wait_for(lock, std::chrono::milliseconds(200), [this] { return exit_.has_value(); })) {
    jail_.kill();
    ended_.wait(lock, [this] { return exit_.has_value(); });
  }
}

}  // namespace khost::sandbox
