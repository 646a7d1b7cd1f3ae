// What a kernel's process sees of the system's files.
#include <doctest/doctest.h>

#include <string>

#include "sandbox/jail/libraries.h"
#include "sandbox/judge/cpu/subject.h"
#include "tests/sandbox/judge_fixture.h"

namespace khost::sandbox {
namespace {

using test::fixture;
using test::JudgeProcess;

// Right where it finds no file in /usr, /etc/alternatives and /opt but libraries of its own; else it says how many
// there are.
constexpr const char* kKernel = R"(
#include <filesystem>
#include "khost.h"
namespace fs = std::filesystem;
extern "C" int relu_plus_one(const float* x, float* out, int64_t n) {
  int others = 0;
  for (const char* folder : {"/usr", "/opt", "/etc/alternatives"}) {
    std::error_code error;
    const auto options = fs::directory_options::skip_permission_denied;
    for (fs::recursive_directory_iterator at(folder, options, error), end; !error && at != end; at.increment(error)) {
      const std::string name = at->path().filename().string();
      std::error_code unknown;
      others += at->is_regular_file(unknown) && name.rfind("lib", 0) != 0 && name.rfind("ld-linux", 0) != 0;
    }
  }
  for (int64_t i = 0; i < n; i++) {
    out[i] = (x[i] > 0 ? x[i] : 0) + 1;
  }
  return others;
}
KHOST_EXPORT(relu_plus_one)
)";

// Right where it is granted nothing by which one process could tell another that lives beside it or comes behind it
// something; else it says how much it was granted.
constexpr const char* kTeller = R"(
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "khost.h"
extern "C" int relu_plus_one(const float* x, float* out, int64_t n) {
  int granted = 0;
  const int own = open("/proc/self/exe", O_RDONLY);  // the same file for all
  struct flock range = {};
  range.l_type = F_RDLCK;
  range.l_start = 77;
  range.l_len = 1;
  granted += flock(own, LOCK_EX | LOCK_NB) == 0;
  granted += fcntl(own, F_SETLK, &range) == 0;
  granted += fcntl(own, F_OFD_SETLK, &range) == 0;
  range.l_type = F_WRLCK;
  granted += fcntl(own, F_GETLK, &range) == 0;
  granted += fcntl(own, F_SETLEASE, F_RDLCK) == 0;
  granted += inotify_init1(0) >= 0;
  granted += syncfs(own) == 0;
  aio_context_t context = 0;
  granted += syscall(SYS_io_setup, 1, &context) == 0;
  granted += madvise(out, 4096, MADV_REMOVE) == 0;
  for (int64_t i = 0; i < n; i++) {
    out[i] = (x[i] > 0 ? x[i] : 0) + 1;
  }
  close(own);
  return granted;
}
KHOST_EXPORT(relu_plus_one)
)";

// Right where its own library is no file: its pages, times and locks would be there for its next process.
constexpr const char* kOwner = R"(
#include <string.h>
#include <unistd.h>
#include "khost.h"
extern "C" int relu_plus_one(const float* x, float* out, int64_t n) {
  char path[4096] = {};
  const long size = readlink("/proc/self/fd/7", path, sizeof path - 1);
  for (int64_t i = 0; i < n; i++) {
    out[i] = (x[i] > 0 ? x[i] : 0) + 1;
  }
  return size > 0 && strncmp(path, "/memfd:", 7) == 0 ? 0 : 1;
}
KHOST_EXPORT(relu_plus_one)
)";

// Right where its pages stay as small as those of what it is compared with; else it says how many ways there are to
// change that. Whatever a machine has of huge pages, none of these may be asked for.
constexpr const char* kGrower = R"(
#include <errno.h>
#include <initializer_list>
#include <sys/mman.h>
#include <sys/prctl.h>
#include "khost.h"
extern "C" int relu_plus_one(const float* x, float* out, int64_t n) {
  int granted = prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0) == 0;
  granted += prctl(PR_SET_THP_DISABLE, 1, 2, 0, 0) == 0 || errno != EPERM;  // "except where it is advised"
  for (const int advice : {12, 14, 15, 25}) {  // MERGEABLE, HUGEPAGE, NOHUGEPAGE, COLLAPSE
    granted += madvise(out, 4096, advice) == 0 || errno != EPERM;
  }
  void* huge = mmap(nullptr, 2 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_NORESERVE, -1, 0);
  granted += huge != MAP_FAILED || errno != EPERM;
  for (int64_t i = 0; i < n; i++) {
    out[i] = (x[i] > 0 ? x[i] : 0) + 1;
  }
  return granted;
}
KHOST_EXPORT(relu_plus_one)
)";

// Right where it cannot end itself by the signal that the kernel sends for want of memory, whose verdicts are tried
// again; else it says how many ways there are, or is ended.
constexpr const char* kKiller = R"(
#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "khost.h"
extern "C" int relu_plus_one(const float* x, float* out, int64_t n) {
  const int own = getpid(), thread = gettid();
  siginfo_t info = {};
  info.si_code = SI_QUEUE;
  rlimit soon = {1, 1};
  int granted = kill(own, SIGKILL) == 0;
  granted += syscall(SYS_tkill, thread, SIGKILL) == 0;
  granted += syscall(SYS_tgkill, own, thread, SIGKILL) == 0;
  granted += syscall(SYS_rt_sigqueueinfo, own, SIGKILL, &info) == 0;
  granted += syscall(SYS_rt_tgsigqueueinfo, own, thread, SIGKILL, &info) == 0;
  granted += syscall(SYS_pidfd_send_signal, syscall(SYS_pidfd_open, own, 0), SIGKILL, nullptr, 0) == 0;
  granted += setrlimit(RLIMIT_CPU, &soon) == 0;
  granted += prctl(PR_SET_PDEATHSIG, SIGKILL) == 0;
  granted += raise(SIGKILL) == 0;
  for (int64_t i = 0; i < n; i++) {
    out[i] = (x[i] > 0 ? x[i] : 0) + 1;
  }
  return granted;
}
KHOST_EXPORT(relu_plus_one)
)";

// Dies by its own words: a signal that is not the kernel's.
constexpr const char* kAborts = R"(
#include <signal.h>
#include <stdlib.h>
#include "khost.h"
extern "C" int relu_plus_one(const float* x, float* out, int64_t n) {
  signal(SIGABRT, [](int) {});
  raise(SIGABRT);
  abort();
}
KHOST_EXPORT(relu_plus_one)
)";

// Right where nothing that it may read counts what others do; else it says how many files do.
constexpr const char* kCounts = R"(
#include <stdio.h>
#include <initializer_list>
#include "khost.h"
extern "C" int relu_plus_one(const float* x, float* out, int64_t n) {
  int readable = 0;
  for (const char* path :
       {"/proc/vmstat", "/proc/zoneinfo", "/proc/buddyinfo", "/proc/interrupts", "/proc/softirqs", "/proc/stat",
        "/proc/meminfo", "/proc/diskstats", "/proc/loadavg", "/proc/schedstat", "/proc/locks", "/proc/pressure/cpu",
        "/proc/pressure/memory", "/proc/sys/fs/file-nr", "/sys/devices/system/node/node0/vmstat"}) {
    if (FILE* file = fopen(path, "r")) {
      readable += fgetc(file) != EOF;
      fclose(file);
    }
  }
  for (int64_t i = 0; i < n; i++) {
    out[i] = (x[i] > 0 ? x[i] : 0) + 1;
  }
  return readable;
}
KHOST_EXPORT(relu_plus_one)
)";

Json verdict_of(const char* kernel) {
  Json body = fixture("cpu/good/relu_plus_one");
  body["files"] = {{"kernels/relu_plus_one.cpp", kernel}};
  body["measure"] = false;
  return JudgeProcess::shared().ask("evaluate", body);
}

void check_right(const char* kernel) {
  const Json verdict = verdict_of(kernel);
  CAPTURE(verdict.dump());
  CHECK(verdict.value("status", "") == "ok");
}

TEST_CASE("a kernel tells no other process anything by files that both see") {
  if (JudgeProcess::python() == nullptr) {
    MESSAGE("skipped: KHOST_PYTHON names no Python with PyTorch");
    return;
  }
  check_right(kTeller);
  check_right(kOwner);
}

TEST_CASE("a kernel's pages stay as small as those of what it is compared with") {
  if (JudgeProcess::python() == nullptr) {
    MESSAGE("skipped: KHOST_PYTHON names no Python with PyTorch");
    return;
  }
  check_right(kGrower);
}

TEST_CASE("a kernel cannot end itself by the signal for want of memory, and ends itself in other ways") {
  if (JudgeProcess::python() == nullptr) {
    MESSAGE("skipped: KHOST_PYTHON names no Python with PyTorch");
    return;
  }
  check_right(kKiller);
  const Json aborted = verdict_of(kAborts);
  CAPTURE(aborted.dump());
  CHECK(aborted.value("reason", "") == "signal");
  CHECK(aborted.value("detail", "").find("signal 6") != std::string::npos);
  CHECK_FALSE(aborted["evidence"].contains("retried"));
}

TEST_CASE("a kernel reads no counter of what others do") {
  if (JudgeProcess::python() == nullptr) {
    MESSAGE("skipped: KHOST_PYTHON names no Python with PyTorch");
    return;
  }
  if (judge::kSanitized || kernel_libraries().empty()) {
    MESSAGE("skipped: this build, or this system, shows subjects all of /usr");
    return;
  }
  check_right(kCounts);
}

TEST_CASE("a kernel sees no file of the system but the libraries that it may link") {
  if (JudgeProcess::python() == nullptr) {
    MESSAGE("skipped: KHOST_PYTHON names no Python with PyTorch");
    return;
  }
  if (judge::kSanitized || kernel_libraries().empty()) {
    MESSAGE("skipped: this build, or this system, shows subjects all of /usr");
    return;
  }
  check_right(kKernel);
}

}  // namespace
}  // namespace khost::sandbox
