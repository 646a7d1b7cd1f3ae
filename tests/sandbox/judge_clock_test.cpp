// The judge's clock with subjects that are forked here, honest ones and others.
#include <doctest/doctest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <new>
#include <thread>
#include <vector>

#include "sandbox/judge/cpu/clock.h"
#include "sandbox/judge/evaluation/statistics.h"

namespace khost::judge {
namespace {

using sandbox::ControlPage;

void work(double seconds) {
  timespec now{};
  const auto used = [&] {
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
  };
  for (const double end = used() + seconds; used() < end;) {
  }
}

// A child that plays turns: `call` runs in it for each one, with the page and the turn's number, and acknowledges.
class Played {
 public:
  explicit Played(const std::function<void(ControlPage&, std::uint32_t)>& call, double stop_delay_s = 0,
                  int cores = 0) {
    void* memory = mmap(nullptr, sandbox::kControlBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(memory != MAP_FAILED);
    page_ = new (memory) ControlPage{};
    pid_ = fork();
    if (pid_ == 0) {
      acknowledge(*page_, sandbox::kReady, 0);
      for (std::uint32_t seq = 2; wait_go(*page_, seq); seq++) {
        call(*page_, seq);
      }
      _exit(0);
    }
    const pid_t pid = pid_;
    clock_ = std::make_unique<Clock>(Player{pid, page_,
                                            [pid, stop_delay_s] {
                                              if (stop_delay_s > 0) {
                                                usleep(static_cast<useconds_t>(stop_delay_s * 1e6));
                                              }
                                              kill(pid, SIGSTOP);
                                            },
                                            [pid] { kill(pid, SIGCONT); },
                                            [this, pid]() -> std::optional<sandbox::Exit> {
                                              if (waitpid(pid, nullptr, WNOHANG) != pid) {
                                                return std::nullopt;
                                              }
                                              pid_ = 0;  // the number may be another process's from now on
                                              return sandbox::Exit{};
                                            },
                                            subject_core(), cores});
    REQUIRE(clock_->ready(20).end == Window::End::done);
  }
  Played(const Played&) = delete;
  Played& operator=(const Played&) = delete;
  ~Played() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    munmap(page_, sandbox::kControlBytes);
  }
  Clock& clock() { return *clock_; }
  pid_t pid() const { return pid_; }

 private:
  ControlPage* page_ = nullptr;
  pid_t pid_ = 0;
  std::unique_ptr<Clock> clock_;
};

TEST_CASE("the clock runs from the thaw to the acknowledgement and the subject stands before and after") {
  Played subject([](ControlPage& page, std::uint32_t seq) {
    work(0.02);
    acknowledge(page, seq, seq == 3 ? 7 : 0);
  });
  const Window first = subject.clock().call(20);
  CHECK(first.end == Window::End::done);
  CHECK(first.seconds >= 0.02);
  CHECK(first.late_s <= first.freeze_s);
  usleep(50000);  // it stands: no time of its own passes
  const Window second = subject.clock().call(20);
  CHECK(second.end == Window::End::done);
  CHECK(second.status == 7);
}

TEST_CASE("work behind an acknowledgement is seen, however late the stop comes") {
  Played subject(
      [](ControlPage& page, std::uint32_t seq) {
        acknowledge(page, seq, 0);
        work(0.03);
      },
      0.2);
  subject.clock().call(20);  // the first reading may miss what ran since the last tick
  std::vector<double> late;
  for (int i = 0; i < 5; i++) {
    const Window window = subject.clock().call(20);
    REQUIRE(window.end == Window::End::done);
    late.push_back(window.late_s);
  }
  CHECK(median(late) >= 0.02);
}

TEST_CASE("a process that ran while it was to stand gets no further window") {
  Played subject([](ControlPage& page, std::uint32_t seq) {
    if (seq == 2) {
      std::thread([] { work(1e9); }).detach();
    }
    acknowledge(page, seq, 0);
  });
  REQUIRE(subject.clock().call(20).end == Window::End::done);
  REQUIRE(subject.clock().call(20).end == Window::End::done);
  kill(subject.pid(), SIGCONT);  // as a signal that it ordered would
  usleep(100000);
  kill(subject.pid(), SIGSTOP);
  usleep(20000);
  CHECK(subject.clock().call(20).end == Window::End::ran);
}

TEST_CASE("a process that was killed while it stood is gone: that it ran to its end is no fault of its own") {
  for (const int wait_us : {0, 0, 0, 200, 2000, 20000}) {
    Played subject([](ControlPage& page, std::uint32_t seq) {
      static const std::vector<char> pages(64 << 20, 1);  // what the kernel has to give back
      acknowledge(page, seq, pages[seq] - 1);
    });
    REQUIRE(subject.clock().call(20).end == Window::End::done);
    kill(subject.pid(), SIGKILL);
    usleep(static_cast<useconds_t>(wait_us));
    CHECK(subject.clock().call(20).end == Window::End::gone);
  }
}

TEST_CASE("a thread that leaves the subject's cores is found") {
  if (core_count() < 2) {
    MESSAGE("skipped: one core");
    return;
  }
  Played subject(
      [](ControlPage& page, std::uint32_t seq) {
        if (seq == 3) {
          cpu_set_t all;
          CPU_ZERO(&all);
          for (int core = 0; core < CPU_SETSIZE; core++) {
            CPU_SET(core, &all);
          }
          sched_setaffinity(0, sizeof all, &all);
        }
        acknowledge(page, seq, 0);
      },
      0, 1);
  CHECK(subject.clock().call(20).end == Window::End::done);
  CHECK(subject.clock().call(20).end == Window::End::escaped);
}

TEST_CASE("what threads of a subject do to each other disturbs nobody, and another program on their core does") {
  if (core_count() < 2 || (!std::filesystem::exists("/sys/fs/cgroup/cpuacct/cpuacct.usage_percpu") &&
                           !std::filesystem::exists("/sys/fs/cgroup/cpu,cpuacct/cpuacct.usage_percpu") &&
                           !std::filesystem::exists("/proc/schedstat"))) {
    MESSAGE("skipped: one core, or a kernel that does not say how long each core was used");
    return;
  }
  Played subject(
      [](ControlPage& page, std::uint32_t seq) {
        std::thread other([] { work(0.04); });
        work(0.04);
        other.join();
        acknowledge(page, seq, 0);
      },
      0, 1);
  const auto calls = [&](const std::function<double(const Window&)>& value) {
    std::vector<double> values;
    for (int i = 0; i < 7; i++) {
      const Window window = subject.clock().call(20);
      REQUIRE(window.end == Window::End::done);
      values.push_back(value(window));
    }
    return median(values);
  };
  // Other programs may be here too: they have at most what the two threads leave of the window.
  CHECK(calls([](const Window& one) { return one.others_s - (one.seconds + one.freeze_s - 0.08); }) < 0.005);
  const pid_t hog = fork();
  if (hog == 0) {
    work(1e9);
  }
  pin(hog, subject_core(), 1);
  CHECK(calls([](const Window& one) { return one.others_s; }) > 0.01);
  CHECK(calls([](const Window& one) { return undisturbed(one) ? 1 : 0; }) == 0);
  kill(hog, SIGKILL);
  waitpid(hog, nullptr, 0);
}

TEST_CASE("a call is not late because others have its core, and one that waits for itself is") {
  if (core_count() < 2) {
    MESSAGE("skipped: one core");
    return;
  }
  if (!std::filesystem::exists("/proc/self/schedstat")) {
    MESSAGE("skipped: a kernel that does not say how long a thread waited for a core");
    return;
  }
  Played subject(
      [](ControlPage& page, std::uint32_t seq) {
        seq == 2 ? work(0.8) : static_cast<void>(usleep(800000));
        acknowledge(page, seq, 0);
      },
      0, 1);
  std::vector<pid_t> hogs;
  for (int i = 0; i < 2; i++) {
    const pid_t hog = fork();
    if (hog == 0) {
      work(1e9);
    }
    pin(hog, subject_core(), 1);
    hogs.push_back(hog);
  }
  // It has a third of its core: 2.4 s, of which it waits for 1.6 s.
  CHECK(subject.clock().call(1).end == Window::End::done);
  for (const pid_t hog : hogs) {
    kill(hog, SIGKILL);
    waitpid(hog, nullptr, 0);
  }
  CHECK(subject.clock().call(0.2).end == Window::End::timeout);
}

TEST_CASE("work behind an acknowledgement is charged whole, and of several cores nothing is taken off") {
  Window window;
  window.seconds = 1;
  window.late_s = 0.5;
  window.others_s = 0.25;
  CHECK(charged_s(window, 0.1) == doctest::Approx(1.4));
  CHECK(charged_s(window, 0.6) == 1);
  CHECK(own_s(window, 1, 1) == 0.75);
  CHECK(own_s(window, 1, 4) == 1);
  CHECK(own_s(window, 0.1, 1) == 0);
}

TEST_CASE("a call that never comes back ends at its limit, and one whose process dies at once") {
  Played hangs([](ControlPage&, std::uint32_t) { work(1e9); });
  CHECK(hangs.clock().call(0.2).end == Window::End::timeout);
  Played dies([](ControlPage&, std::uint32_t) { _exit(3); });
  CHECK(dies.clock().call(20).end == Window::End::gone);
}

}  // namespace
}  // namespace khost::judge
