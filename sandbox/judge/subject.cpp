#include "sandbox/judge/subject.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <thread>

#include "host/base/defer.h"

namespace khost::judge {
namespace {

using Clock = std::chrono::steady_clock;
using sandbox::ControlPage;

constexpr double kSetUpTimeout_s = 20;
constexpr double kCompileTimeout_s = 180;

void copy_set(const InputSet& set, const Region& inputs, const Region& state) {
  std::memcpy(inputs.data(), set.inputs.data(), inputs.size());
  std::memcpy(state.data(), set.state.data(), state.size());
}

// Pseudo-random bytes: noise as floats, random integers, and neither true nor false in most booleans.
void poison(const Region& outputs) {
  static thread_local std::minstd_rand seeds{std::random_device{}()};
  std::uint64_t x = (std::uint64_t{seeds()} << 32) | seeds() | 1;
  auto* words = reinterpret_cast<std::uint64_t*>(outputs.data());
  const std::size_t n = outputs.size() / 8;
  for (std::size_t i = 0; i < n; i++) {
    x = x * 6364136223846793005ull + 1442695040888963407ull;
    words[i] = x ^ (x >> 29);
  }
}

// Nanoseconds that the process's threads waited for a core, from /proc/PID/task/*/schedstat.
double run_delay(pid_t pid) {
  const std::string folder = "/proc/" + std::to_string(pid) + "/task";
  DIR* tasks = opendir(folder.c_str());
  if (tasks == nullptr) {
    return 0;
  }
  const Defer close_it([&] { closedir(tasks); });
  double sum = 0;
  while (const dirent* entry = readdir(tasks)) {
    if (entry->d_name[0] == '.') {
      continue;
    }
    std::ifstream file(folder + "/" + entry->d_name + "/schedstat");
    double ran = 0;
    double waited = 0;
    if (file >> ran >> waited) {
      sum += waited;
    }
  }
  return sum * 1e-9;
}

// A memfd with text in it, for the plan.
Result<int> text_file(const std::string& text) {
  const int fd = memfd_create("plan", MFD_CLOEXEC);
  if (fd < 0 || ::write(fd, text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    ::close(fd);
    return Failure{std::string("memfd_create: ") + std::strerror(errno), "io"};
  }
  return fd;
}

// The last core is the subjects', one thread by default; the judge and everybody else have the others.
void pin(pid_t pid, int threads) {
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  if (cores < 2 || threads != 1) {
    return;
  }
  cpu_set_t mask;
  CPU_ZERO(&mask);
  CPU_SET(cores - 1, &mask);
  sched_setaffinity(pid, sizeof mask, &mask);
}

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

// Waits in slices, so that a subject that died is noticed before the timeout.
template <class Alive>
bool wait_turn(const ControlPage& page, std::uint32_t seq, double timeout_s, Alive alive) {
  const Clock::time_point begin = Clock::now();
  while (!wait_done(page, seq, 0.25)) {
    if (!alive() || seconds_since(begin) > timeout_s) {
      return page.done.load() == seq;
    }
  }
  return true;
}

std::string message_of(const ControlPage& page) {
  char text[sizeof page.message + 1] = {};
  std::memcpy(text, page.message, sizeof page.message);
  return text;
}

}  // namespace

CandidateProcess::CandidateProcess(sandbox::Jail jail, Region control, Region inputs, Region state, Region outputs)
    : jail_(std::move(jail)),
      control_(std::move(control)),
      inputs_(std::move(inputs)),
      state_(std::move(state)),
      outputs_(std::move(outputs)) {}

CandidateProcess::~CandidateProcess() { jail_.kill(); }

Result<std::unique_ptr<CandidateProcess>> CandidateProcess::start(const sandbox::Built& built,
                                                                  const sandbox::Plan& plan, const InputSet& shape,
                                                                  int threads) {
  auto control = Region::create("control", sandbox::kControlBytes, Sharing::read_write);
  auto inputs = Region::create("inputs", shape.inputs.size(), Sharing::read_only);
  auto state = Region::create("state", shape.state.size(), Sharing::read_only);
  auto outputs = Region::create("outputs", plan.outputs.region_bytes, Sharing::read_write);
  for (const auto* region : {&control, &inputs, &state, &outputs}) {
    if (!*region) {
      return region->failure();
    }
  }
  const auto plan_fd = text_file(plan.to_json().dump());
  if (!plan_fd) {
    return plan_fd.failure();
  }
  const int library = ::open(built.path.c_str(), O_RDONLY | O_CLOEXEC);
  const Defer close_them([&] {
    ::close(plan_fd.value());
    ::close(library);
  });
  const std::string program = sandbox::self_directory() + "/khost-subject";
  sandbox::JailSpec spec;
  spec.name = "candidate";
  spec.argv = {program, "--control", "3", "--inputs", "4", "--state", "5", "--outputs", "6",
               "--library", "7", "--plan", "8", "--threads", std::to_string(threads)};
  spec.binds.push_back({program, program, false});
  spec.fds = {{control->fd(), 3}, {inputs->fd(), 4}, {state->fd(), 5},
              {outputs->fd(), 6}, {library, 7},      {plan_fd.value(), 8}};
  spec.threads_only = true;
  spec.limits.processes = threads + 8;
  spec.limits.memory_bytes = (std::size_t{2} << 30) + 2 * (inputs->size() + state->size() + outputs->size());
  spec.limits.file_bytes = std::size_t{16} << 20;
  spec.limits.tmp_bytes = std::size_t{16} << 20;
  spec.limits.cpu_s = 120;
  auto jail = sandbox::Jail::start(spec);
  if (!jail) {
    return jail.failure();
  }
  pin(jail->pid(), threads);
  std::unique_ptr<CandidateProcess> process(
      new CandidateProcess(std::move(jail).value(), std::move(*control), std::move(*inputs), std::move(*state),
                           std::move(*outputs)));
  const bool ready = wait_turn(process->page(), sandbox::kReady, kSetUpTimeout_s,
                               [&] { return !process->jail_.poll().has_value(); });
  if (!ready) {
    const auto exit = process->jail_.poll();
    return exit ? Failure{"the candidate's process ended while it loaded", "crash"}
                : Failure{"the candidate did not load in " + std::to_string(int(kSetUpTimeout_s)) + " s", "timeout"};
  }
  process->jail_.freeze();
  if (process->page().status.load() != 0) {
    return Failure{message_of(process->page()), "crash"};
  }
  return process;
}

Call CandidateProcess::play(const InputSet& set, double timeout_s) {
  copy_set(set, inputs_, state_);
  poison(outputs_);
  const double delay_before = run_delay(jail_.pid());
  sandbox::post_go(page(), ++seq_);
  const Clock::time_point begin = Clock::now();
  jail_.thaw();
  const bool done = wait_turn(page(), seq_, timeout_s, [&] { return !jail_.poll().has_value(); });
  Call call;
  call.wall_s = seconds_since(begin);
  jail_.freeze();
  if (done) {
    call.run_delay_s = run_delay(jail_.pid()) - delay_before;
    if (page().status.load() != 0) {
      call.outcome = Call::Outcome::error;
      call.message = message_of(page());
    }
    return call;
  }
  if (const auto exit = jail_.poll()) {
    call.outcome = Call::Outcome::died;
    call.message = exit->signal != 0 ? std::string("killed by signal ") + strsignal(exit->signal)
                                     : "left with exit status " + std::to_string(exit->code);
  } else {
    call.outcome = Call::Outcome::timeout;
  }
  return call;
}

BaselineProcess::BaselineProcess(std::unique_ptr<Child> child, Region control, Region inputs, Region state)
    : child_(std::move(child)), control_(std::move(control)), inputs_(std::move(inputs)), state_(std::move(state)) {}

Result<std::unique_ptr<BaselineProcess>> BaselineProcess::start(std::unique_ptr<Child> child, const std::string& mode,
                                                                std::size_t input_bytes, std::size_t state_bytes,
                                                                const InputSet& first) {
  auto control = Region::create("control", sandbox::kControlBytes, Sharing::read_write);
  // Python maps them writable; the task's code is trusted with its own time, not with anybody's reward.
  auto inputs = Region::create("inputs", input_bytes, Sharing::read_write);
  auto state = Region::create("state", state_bytes, Sharing::read_write);
  for (const auto* region : {&control, &inputs, &state}) {
    if (!*region) {
      return region->failure();
    }
  }
  copy_set(first, *inputs, *state);
  const std::vector<int> fds = {control->fd(), inputs->fd(), state->fd()};
  auto warm = child->call({{"op", "subject"}, {"mode", mode}}, fds, kCompileTimeout_s);
  if (!warm) {
    return Failure{mode + ": " + warm.failure().message, "bad_task"};
  }
  if (!warm->contains("ok")) {
    return Failure{mode + ": " + (*warm)["error"].value("message", "failed"), "bad_task"};
  }
  std::unique_ptr<BaselineProcess> process(
      new BaselineProcess(std::move(child), std::move(*control), std::move(*inputs), std::move(*state)));
  process->warm_up_s_ = (*warm)["ok"].value("warm_up_s", 0.0);
  auto& page = *reinterpret_cast<ControlPage*>(process->control_.data());
  if (!wait_done(page, sandbox::kReady, kSetUpTimeout_s)) {
    return Failure{mode + ": the baseline did not get ready", "host"};
  }
  return process;
}

Call BaselineProcess::play(const InputSet& set, double timeout_s) {
  auto& page = *reinterpret_cast<ControlPage*>(control_.data());
  copy_set(set, inputs_, state_);
  const Clock::time_point begin = Clock::now();
  sandbox::post_go(page, ++seq_);
  const bool done = wait_done(page, seq_, timeout_s);
  Call call;
  call.wall_s = seconds_since(begin);
  if (!done || page.status.load() != 0) {
    alive_ = false;
    call.outcome = done ? Call::Outcome::error : Call::Outcome::timeout;
  }
  return call;
}

}  // namespace khost::judge
