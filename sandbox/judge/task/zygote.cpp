#include "sandbox/judge/task/zygote.h"

#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <thread>

#include "host/base/json_text.h"
#include "sandbox/abi/manifest.h"
#include "sandbox/jail/output_cut.h"
#include "sandbox/jail/patience.h"
#include "sandbox/jail/quiet.h"
#include "sandbox/jail/tree.h"
#include "sandbox/judge/task/zygote_jail.h"
#include "sandbox/subject/fd_message.h"

namespace khost::judge {

using sandbox::Fd;
using sandbox::Jail;
using sandbox::JailSpec;
using sandbox::Patience;
using sandbox::send_with_fds;
using sandbox::system_failure;

namespace {

namespace fs = std::filesystem;

constexpr int kForkTimeout_s = 60;
constexpr int kImportTimeout_s = 180;  // zygote.py ends itself before, and says where it was
constexpr std::size_t kMostSaid = 4096;
// Of an answer: its parts and words take a hundred bytes each when it is parsed, which is in no jail, and three bytes
// of text. A model of ten thousand tensors has a fifth of these.
constexpr std::size_t kMostParts = std::size_t{1} << 20;
constexpr std::ptrdiff_t kMostQuotes = std::ptrdiff_t{8} << 20;
constexpr int kLooksForEnd = 100;
constexpr double kLookAgain_s = 0.5;

bool wait_for(int fd, const Patience& patience) {
  pollfd waiting{fd, POLLIN, 0};
  while (!patience.over()) {
    if (poll(&waiting, 1, patience.left_ms()) > 0) {
      return true;
    }
  }
  return false;
}

// Whether it was stopped by a signal that is not of the judge's own silence (sandbox/jail/quiet.h).
bool stopped_by_others(pid_t pid) {
  const std::optional<unsigned> before = sandbox::Quiet::completed_count();
  return before && sandbox::state_of(pid) == 'T' && sandbox::Quiet::completed_count() == before;
}

// Whether a process has ended, or does so within a moment: its descriptors are closed before that is shown.
bool has_ended(pid_t pid) {
  for (int look = 0; look < kLooksForEnd; look++) {
    if (strchr("ZX", sandbox::state_of(pid)) != nullptr) {  // also where there is no such process any more
      return true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return false;
}

// Installers that leave byte code out make every process compile what it imports, and a jail cannot keep it.
void warn_of_source(const std::string& python, const std::string& folder) {
  static std::once_flag once;
  std::call_once(once, [&] {
    std::fprintf(
        stderr,
        "khost-judge: PyTorch in %s has no byte code, so each of the judge's Pythons takes some 10 s longer to start\n"
        "khost-judge: remedy: %s -m compileall -q -j 0 %s\n",
        folder.c_str(), python.c_str(), fs::path(folder).parent_path().c_str());
  });
}

// The end of what a Python wrote to its standard error: the exception that ended it.
std::string last_words(int fd) {
  const off_t size = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);
  std::string text(std::min<std::size_t>(static_cast<std::size_t>(std::max<off_t>(size, 0)), kMostSaid), '\0');
  const ssize_t n = text.empty() ? 0 : pread(fd, text.data(), text.size(), size - static_cast<off_t>(text.size()));
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
  while (!text.empty() && isspace(static_cast<unsigned char>(text.back())) != 0) {
    text.pop_back();
  }
  return text;
}

// Blocks until the zygote said that it is ready. A process that has ended is noticed at once: its end of the socket is
// the only one that is left.
Status wait_until_ready(int socket, const PythonPlace& place, const std::string& name, int words) {
  char text[4096];
  const bool asked = wait_for(socket, Patience(kImportTimeout_s));
  const ssize_t size = asked ? recv(socket, text, sizeof text, 0) : 0;
  if (size <= 0) {
    const std::string said = last_words(words);
    return Failure{"the judge's Python for '" + name + "' (" + place.python + ") " +
                       (asked ? "ended before it was ready" : "was not ready in time") +
                       (said.empty() ? "; KHOST_JUDGE_DEBUG=1 shows what it writes" : ": " + said),
                   "host"};
  }
  if (const std::string said(text, static_cast<std::size_t>(size)); said != "ready") {
    warn_of_source(place.python, said);
  }
  return ok();
}

}  // namespace

Child::~Child() {
  if (pidfd_) {
    kill();
    pollfd waiting{pidfd_.get(), POLLIN, 0};
    poll(&waiting, 1, 5000);  // it is gone before anybody else is timed
  }
}

void Child::kill() {
  syscall(SYS_pidfd_send_signal, pidfd_.get(), SIGKILL, nullptr, 0);
}
void Child::freeze() {
  syscall(SYS_pidfd_send_signal, pidfd_.get(), SIGSTOP, nullptr, 0);
}
void Child::thaw() {
  syscall(SYS_pidfd_send_signal, pidfd_.get(), SIGCONT, nullptr, 0);
}

std::optional<sandbox::Exit> Child::ended() {
  pollfd waiting{pidfd_.get(), POLLIN, 0};
  return poll(&waiting, 1, 0) > 0 ? std::optional(sandbox::Exit{}) : std::nullopt;
}

Status Child::send(const Json& request, const std::vector<int>& fds) {
  const std::string body = request.dump(-1, ' ', false, Json::error_handler_t::replace);
  const auto size = static_cast<std::uint32_t>(body.size());
  if (!send_with_fds(channel_.get(), &size, sizeof size, fds)) {
    return system_failure("request to a Python child", "gone");
  }
  for (std::size_t sent = 0; sent < body.size();) {
    const ssize_t n = ::send(channel_.get(), body.data() + sent, body.size() - sent, MSG_NOSIGNAL);
    if (n <= 0) {
      return system_failure("request to a Python child", "gone");
    }
    sent += static_cast<std::size_t>(n);
  }
  return ok();
}

Result<Json> Child::receive(double timeout_s) {
  const Patience patience(timeout_s);
  std::string bytes;
  std::size_t wanted = 4;
  bool head = true;
  while (true) {
    if (bytes.size() == wanted) {
      if (!head) {
        break;
      }
      std::uint32_t size = 0;
      memcpy(&size, bytes.data(), 4);
      if (size > most_body_) {
        return Failure{"an answer of a Python child is too large", "gone"};
      }
      head = false;
      bytes.clear();
      wanted = size;
      continue;
    }
    if (!wait_for(channel_.get(), patience)) {
      return Failure{"a Python child did not answer in " + std::to_string(static_cast<int>(timeout_s)) + " s",
                     "timeout"};
    }
    char buffer[65536];
    iovec vector{buffer, std::min(sizeof buffer, wanted - bytes.size())};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(ucred))];
    msghdr header{};
    header.msg_iov = &vector;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof control;
    const ssize_t n = recvmsg(channel_.get(), &header, MSG_CMSG_CLOEXEC);
    if (n <= 0) {
      return Failure{kChildEnded, "gone"};
    }
    for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr && pid_ == 0; part = CMSG_NXTHDR(&header, part)) {
      if (part->cmsg_level == SOL_SOCKET && part->cmsg_type == SCM_CREDENTIALS) {
        ucred credentials{};
        memcpy(&credentials, CMSG_DATA(part), sizeof credentials);
        pid_ = credentials.pid;
      }
    }
    bytes.append(buffer, static_cast<std::size_t>(n));
  }
  const bool wordy = std::count(bytes.begin(), bytes.end(), '"') > kMostQuotes;
  Result<Json> answer = wordy ? Failure{"", "gone"} : parse_json(bytes, kMostParts);
  if (!answer) {
    return Failure{"a Python child answered no JSON", "gone"};
  }
  return answer;
}

Result<Json> Child::call(const Json& request, const std::vector<int>& fds, double timeout_s) {
  const Status sent = send(request, fds);
  return sent ? this->answer(timeout_s) : sent.failure();
}

Result<Json> Child::answer(double timeout_s) {
  Result<Json> answer = receive(timeout_s);
  if (answer && answer->is_object() && answer->contains("error") && (*answer)["error"].is_string()) {
    const auto says = [&answer](const char* key) { return answer->value(key, Json()) == true; };
    return Failure{sandbox::words_of_a_stranger((*answer)["error"].get<std::string>()), says("is_out_of_room") ? "io"
                                                                                        : says("is_out_of_memory")
                                                                                            ? "limit"
                                                                                            : "bad_task"};
  }
  return answer;
}

Result<std::unique_ptr<Zygote>> Zygote::start(const PythonPlace& place, const std::string& name, Serves serves,
                                              const GpuView* gpu) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return system_failure("socketpair");
  }
  Fd ours(ends[0]), theirs(ends[1]);
  const bool debugged = getenv("KHOST_JUDGE_DEBUG") != nullptr;
  JailSpec spec = zygote_jail(place, name, serves, gpu, debugged);
  spec.fds = {{theirs.get(), 3}};
  // zygote.py lets go of it before anything but its own imports runs.
  const Fd words(debugged ? -1 : memfd_create("zygote", MFD_CLOEXEC));
  if (debugged || words) {
    spec.fds.emplace_back(debugged ? 2 : words.get(), 2);
  }
  Result<Jail> jail = Jail::start(spec);
  if (!jail) {
    return jail.failure();
  }
  theirs.reset();
  if (Status ready = wait_until_ready(ours.get(), place, name, words.get()); !ready) {
    return ready.failure();
  }
  return std::unique_ptr<Zygote>(new Zygote(std::move(*jail), std::move(ours)));
}

bool Zygote::alive() {
  const std::scoped_lock lock(mutex_);
  return !jail_.poll().has_value();
}

void Zygote::end() {
  jail_.kill();
  pollfd ending{jail_.exit_fd(), POLLIN, 0};
  poll(&ending, 1, 5000);
}

Result<Child> Zygote::spawn() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return system_failure("socketpair");
  }
  Child child;
  child.channel_ = Fd(ends[0]);
  {
    const Fd theirs(ends[1]);
    const int on = 1;
    setsockopt(child.channel_.get(), SOL_SOCKET, SO_PASSCRED, &on, sizeof on);
    const std::scoped_lock lock(mutex_);
    if (!send_with_fds(socket_.get(), "child", 5, {theirs.get()})) {
      if (errno == ETOOMANYREFS || errno == ENOMEM || errno == ENOBUFS) {
        return system_failure("request to the zygote");
      }
      Failure gone = system_failure("request to the zygote", "gone");
      end();  // it may have been killed while its jail lives on
      return gone;
    }
  }
  const Patience patience(kForkTimeout_s);
  while (!wait_for(child.channel_.get(), Patience(kLookAgain_s)) && !patience.over()) {
    if (stopped_by_others(jail_.pid())) {  // nobody but what runs in it does that
      const std::scoped_lock lock(mutex_);
      end();
      return Failure{"the zygote was stopped", "gone"};
    }
  }
  Result<Json> hello = child.receive(1);
  if (!hello && hello.failure().code == "timeout") {
    return Failure{"the zygote did not make a child in " + std::to_string(kForkTimeout_s) + " s", "io"};
  }
  if (!hello || child.pid_ <= 0) {
    if (has_ended(jail_.pid())) {
      const std::scoped_lock lock(mutex_);
      end();
    }
    return Failure{"the zygote did not make a child", "gone"};
  }
  if (hello->is_object() && hello->contains("error")) {
    return Failure{"a child of the judge's Python did not come up: " + hello->value("error", ""), "host"};
  }
  child.pidfd_ = Fd(static_cast<int>(syscall(SYS_pidfd_open, child.pid_, 0)));
  if (!child.pidfd_) {
    return system_failure("pidfd_open", errno == ESRCH ? "gone" : "io");
  }
  return child;
}

}  // namespace khost::judge
