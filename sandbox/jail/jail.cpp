#include "sandbox/jail/jail.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "sandbox/jail/cgroup.h"
#include "sandbox/jail/fd.h"
#include "sandbox/jail/patience.h"
#include "sandbox/jail/scratch.h"
#include "sandbox/jail/settings.h"
#include "sandbox/jail/spawn.h"
#include "sandbox/jail/tree.h"
#include "sandbox/jail/uid_lease.h"
#include "sandbox/jail/view.h"

namespace khost::sandbox {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kStartTimeoutMs = 20000;  // a loaded machine; an unloaded one needs 15
constexpr const char* kRemedy =
    "jails need bubblewrap and namespaces: install `bubblewrap`; in a container allow them "
    "(docker: --security-opt seccomp=unconfined --cap-add SYS_ADMIN); as an ordinary user allow user namespaces "
    "(sysctl kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0)";

Fd pidfd_of(pid_t pid) {
  return Fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
}

void signal_through(const Fd& pidfd, int signal) {
  if (pidfd) {
    syscall(SYS_pidfd_send_signal, pidfd.get(), signal, nullptr, 0);
  }
}

Result<Fd> file_with(const std::string& text) {
  Fd file(memfd_create("khost", MFD_CLOEXEC));
  if (!file || write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
      lseek(file.get(), 0, SEEK_SET) != 0) {
    return system_failure("memfd_create");
  }
  return file;
}

void check(const JailSpec& spec) {
  if (spec.argv.empty()) {
    throw std::invalid_argument("jail " + spec.name + ": argv is empty");
  }
  if (spec.fds.size() > static_cast<size_t>(kMostFds)) {
    throw std::invalid_argument("jail " + spec.name + ": more than " + std::to_string(kMostFds) + " fds");
  }
  for (const auto& [ours, inside] : spec.fds) {
    if (ours < 0 || inside < 0 || inside > kHighestInside) {
      throw std::invalid_argument("jail " + spec.name + ": fd " + std::to_string(ours) + " -> " +
                                  std::to_string(inside) + "; the number inside is 0 to 98");
    }
  }
}

// A folder that root made for a jail's output must belong to the uid that fills it.
Status give_writable_binds(const JailSpec& spec, uid_t uid) {
  for (const Bind& bind : spec.binds) {
    struct stat info {};
    if (!bind.writable) {
      continue;
    }
    if (stat(bind.source.c_str(), &info) != 0) {
      return system_failure("stat " + bind.source);
    }
    if (S_ISDIR(info.st_mode) && info.st_uid == 0 && chown(bind.source.c_str(), uid, uid) != 0) {
      return system_failure("chown " + bind.source);
    }
  }
  return ok();
}

struct Message {
  std::string text;
  pid_t sender = 0;
};

// One message of khost-jail-exec, with the pid of its sender as this process sees it (the kernel translates).
// Empty text: none came in time, or the other end is gone.
Message receive(int socket, int timeout_ms) {
  const Patience patience(timeout_ms / 1000.0);
  pollfd waiting{socket, POLLIN, 0};
  while (poll(&waiting, 1, patience.left_ms()) <= 0) {
    if (patience.over()) {
      return {};
    }
  }
  char text[4096];
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(ucred))];
  iovec vector{text, sizeof text};
  msghdr header{};
  header.msg_iov = &vector;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  const ssize_t n = recvmsg(socket, &header, MSG_DONTWAIT);
  if (n <= 0) {
    return {};
  }
  Message message{std::string(text, static_cast<size_t>(n)), 0};
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level == SOL_SOCKET && part->cmsg_type == SCM_CREDENTIALS) {
      ucred credentials{};
      memcpy(&credentials, CMSG_DATA(part), sizeof credentials);
      message.sender = credentials.pid;
    }
  }
  return message;
}

// Beside the executable, unless the environment names another (an executable in a folder that the user may not read).
std::string jail_exec_path() {
  const char* path = getenv("KHOST_JAIL_EXEC");
  return path != nullptr ? path : self_directory() + "/khost-jail-exec";
}

bool readable(int fd, int timeout_ms) {
  pollfd waiting{fd, POLLIN, 0};
  return poll(&waiting, 1, timeout_ms) > 0;
}

}  // namespace

struct Jail::State {
  std::shared_ptr<const UidLease> lease;
  std::unique_ptr<Cgroup> cgroup;
  uid_t uid = 0;
  bool threads_only = false;
  pid_t outer = 0;  // bubblewrap in our pid namespace: our child, ends after everything inside
  pid_t init = 0;   // khost-jail-exec, process 1 inside
  pid_t main = 0;
  Fd outer_fd, init_fd, main_fd, status, complaints;
  Clock::time_point begin = Clock::now();
  std::optional<Exit> exit;
  bool timed_out = false;

  ~State() {
    kill();
    reap(true);
  }

  Status launch(const JailSpec& spec, Route route);
  Status handshake(const JailSpec& spec);
  Failure refuse(const std::string& name, const std::string& reason);
  void kill();
  void reap(bool block);
};

Status Jail::State::launch(const JailSpec& spec, Route route) {
  const std::string bwrap = find_program("bwrap");
  if (bwrap.empty()) {
    return Failure{std::string("bwrap is not installed; ") + kRemedy, "host"};
  }
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return system_failure("socketpair");
  }
  status = Fd(ends[0]);
  const Fd theirs(ends[1]);
  const int on = 1;
  setsockopt(status.get(), SOL_SOCKET, SO_PASSCRED, &on, sizeof on);
  complaints = Fd(memfd_create("khost-bwrap", MFD_CLOEXEC));
  Result<Fd> settings = file_with(settings_text(spec, route, uid));
  if (!settings) {
    return settings.failure();
  }
  const Fd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  std::vector<std::pair<int, int>> fds{{null.get(), 0},
                                       {null.get(), 1},
                                       {complaints.get(), 2},
                                       {settings->get(), kSettingsFd},
                                       {theirs.get(), kStatusFd}};
  for (size_t i = 0; i < spec.fds.size(); ++i) {
    fds.emplace_back(spec.fds[i].first, kFirstFd + static_cast<int>(i));
  }
  const std::vector<EtcFile> files = etc_files(uid);
  std::vector<Fd> data;
  std::vector<int> data_fds;
  for (size_t i = 0; i < files.size(); ++i) {
    Result<Fd> file = file_with(files[i].text);
    if (!file) {
      return file.failure();
    }
    data_fds.push_back(kFirstDataFd + static_cast<int>(i));
    fds.emplace_back(file->get(), data_fds.back());
    data.push_back(std::move(*file));
  }
  const Result<pid_t> child = spawn(bwrap, bubblewrap_arguments(spec, route, jail_exec_path(), files, data_fds), fds);
  if (!child) {
    return child.failure();
  }
  outer = child.value();
  outer_fd = pidfd_of(outer);
  return outer_fd ? ok() : Status(system_failure("pidfd_open"));
}

Status Jail::State::handshake(const JailSpec& spec) {
  const Message hello = receive(status.get(), kStartTimeoutMs);
  if (hello.text != "init") {
    return refuse(spec.name, "");
  }
  init = hello.sender;
  init_fd = pidfd_of(init);
  if (cgroup) {
    cgroup->put(init);
  }
  bound_files(init, spec.limits.tmp_files);
  send(status.get(), "go", 2, MSG_NOSIGNAL);
  for (;;) {
    const Message message = receive(status.get(), kStartTimeoutMs);
    if (message.text == "main") {
      main = message.sender;
      main_fd = pidfd_of(main);
    } else if (message.text == "started") {
      return ok();
    } else {
      return refuse(spec.name, message.text.rfind("error ", 0) == 0 ? message.text.substr(6) : "");
    }
  }
}

// What khost-jail-exec said, else what bubblewrap said, else that neither answered.
Failure Jail::State::refuse(const std::string& name, const std::string& reason) {
  if (!reason.empty()) {
    return Failure{"jail " + name + ": " + reason, "host"};
  }
  readable(outer_fd.get(), 200);
  char text[1024];
  const ssize_t n = pread(complaints.get(), text, sizeof text, 0);
  const std::string complaint = n > 0 ? std::string(text, static_cast<size_t>(n)) : "it did not start in time\n";
  return Failure{"jail " + name + ": " + complaint + kRemedy, "host"};
}

void Jail::State::kill() {
  if (exit || outer == 0) {
    return;
  }
  // Process 1's death ends all others before bubblewrap, waiting for it, ends: so its end is the end of everything.
  signal_through(init_fd ? init_fd : outer_fd, SIGKILL);
}

void Jail::State::reap(bool block) {
  if (exit || outer == 0) {
    return;
  }
  if (block && !readable(outer_fd.get(), 10000)) {
    signal_through(outer_fd, SIGKILL);
  }
  int wait_status = 0;
  if (waitpid(outer, &wait_status, block ? 0 : WNOHANG) != outer) {
    return;
  }
  Exit result;
  result.signal = SIGKILL;  // when process 1 was killed, it could not say how the program ended
  for (Message message = receive(status.get(), 0); !message.text.empty(); message = receive(status.get(), 0)) {
    int how = 0;
    double cpu_s = 0;
    if (message.sender == init && sscanf(message.text.c_str(), "exit %d %lf", &how, &cpu_s) == 2) {
      result.code = WIFEXITED(how) ? WEXITSTATUS(how) : -1;
      result.signal = WIFSIGNALED(how) ? WTERMSIG(how) : 0;
      result.cpu_s = cpu_s;
    }
  }
  result.wall_s = std::chrono::duration<double>(Clock::now() - begin).count();
  result.timed_out = timed_out;
  exit = result;
  cgroup.reset();
  lease.reset();
}

Result<Jail> Jail::start(const JailSpec& spec) {
  check(spec);
  const Route route = geteuid() == 0 ? Route::root : Route::user;
  auto state = std::make_unique<State>();
  state->uid = geteuid();
  state->threads_only = spec.threads_only;
  if (route == Route::root) {
    state->lease = spec.uid;
    if (!state->lease) {
      Result<std::shared_ptr<const UidLease>> lease = UidLease::acquire();
      if (!lease) {
        return lease.failure();
      }
      state->lease = *lease;
    }
    state->uid = state->lease->uid();
    const Status given = give_writable_binds(spec, state->uid);
    if (!given) {
      return given.failure();
    }
    state->cgroup = Cgroup::create(spec.limits);
  }
  const Status launched = state->launch(spec, route);
  if (!launched) {
    return launched.failure();
  }
  const Status started = state->handshake(spec);
  if (!started) {
    return started.failure();
  }
  return Jail(std::move(state));
}

Jail::Jail(std::unique_ptr<State> state) : state_(std::move(state)) {}
Jail::Jail(Jail&& other) noexcept = default;
Jail& Jail::operator=(Jail&& other) noexcept = default;
Jail::~Jail() = default;

pid_t Jail::pid() const {
  return state_->main;
}
uid_t Jail::uid() const {
  return state_->uid;
}
int Jail::exit_fd() const {
  return state_->outer_fd.get();
}

void Jail::freeze() {
  signal_through(state_->main_fd, SIGSTOP);
  if (!state_->threads_only) {
    signal_descendants(state_->init, SIGSTOP);
  }
}

void Jail::thaw() {
  if (!state_->threads_only) {
    signal_descendants(state_->init, SIGCONT);
  }
  signal_through(state_->main_fd, SIGCONT);
}

void Jail::signal(int number) {
  signal_through(state_->main_fd, number);
}

void Jail::signal_children(int number, double since_s) {
  if (!state_->exit) {
    signal_descendants(state_->main, number, since_s);
  }
}

std::optional<Exit> Jail::poll() {
  state_->reap(false);
  return state_->exit;
}

Exit Jail::wait(Deadline deadline) {
  while (!state_->exit) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) {
      state_->timed_out = true;
      break;
    }
    // poll takes an int: very long waits come in pieces
    if (readable(state_->outer_fd.get(), static_cast<int>(std::min<long long>(left, 1 << 30)))) {
      break;
    }
  }
  if (state_->timed_out) {
    state_->kill();
  }
  state_->reap(true);
  return *state_->exit;
}

Exit Jail::wait() {
  return wait(Clock::now() + std::chrono::hours(24 * 365));
}

void Jail::kill() {
  state_->kill();
}

}  // namespace khost::sandbox
