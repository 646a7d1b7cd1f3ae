#include "sandbox/judge/cuda/clock.h"

#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "sandbox/judge/evaluation/statistics.h"

namespace khost::judge::gpu {

using sandbox::DeviceWords;
using Steady = std::chrono::steady_clock;

namespace {

constexpr double kSlice_s = 0.05;  // how often a wait looks whether the subject is still there
constexpr double kStandTimeout_s = 5;
constexpr double kPrepareTimeout_s = 3;
constexpr int kReachDevice_us = 200;  // what was queued is on the device by then
constexpr double kSpin_s = 0.02;      // the host looks for the opening this long without sleeping

double since(Steady::time_point begin) {
  return std::chrono::duration<double>(Steady::now() - begin).count();
}

unsigned look(const unsigned* word) {
  return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

bool thread_stands(const std::string& thread) {
  std::ifstream file(thread + "/stat");
  std::string line;
  std::getline(file, line);
  const auto end = line.rfind(')');
  return end == std::string::npos || end + 2 >= line.size() || strchr("tTZX", line[end + 2]) != nullptr;
}

}  // namespace

bool GpuClock::stands() const {
  bool all = true;
  std::error_code error;
  for (std::filesystem::directory_iterator i("/proc/" + std::to_string(runner_.pid) + "/task", error), end;
       !error && i != end; i.increment(error)) {
    all = all && thread_stands(i->path().string());
  }
  return all;
}

bool GpuClock::stand_still() {
  const auto begin = Steady::now();
  while (since(begin) < kStandTimeout_s) {
    if (stands()) {
      return true;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(10));
  }
  return false;
}

void GpuClock::stop() {
  runner_.freeze();
  stand_still();
}

// Lets the subject play call `seq` until it acknowledges on the host, and stops it. No time is taken from this: what a
// subject does while it should stand gains it nothing, since the device's events are the clock.
Window GpuClock::run(std::uint32_t seq, double timeout_s, bool thaw) {
  Window window;
  const auto begin = Steady::now();
  if (thaw) {
    sandbox::post_go(*page_, seq);
    runner_.thaw();
  }
  bool done = false;
  while (!(done = sandbox::wait_done(*page_, seq, std::min(kSlice_s, timeout_s)))) {
    window.exit = runner_.ended();
    if (window.exit || since(begin) > timeout_s) {
      break;
    }
  }
  window.seconds = since(begin);
  if (!done) {
    window.end = window.exit ? Window::End::gone : Window::End::timeout;
  }
  runner_.freeze();
  if (done && !stand_still()) {
    window.end = Window::End::stuck;
  }
  window.status = page_->status.load(std::memory_order_relaxed);
  window.message.assign(page_->message, strnlen(page_->message, sizeof page_->message));
  if (window.end == Window::End::done && window.message.empty() && window.status != 0) {
    window.message = "status " + std::to_string(window.status);
  }
  return window;
}

Result<std::unique_ptr<GpuClock>> GpuClock::make(Device& device, Runner runner) {
  std::unique_ptr<GpuClock> clock(new GpuClock(device, std::move(runner)));
  cudaError_t error = cudaHostRegister(clock->page_, sandbox::kControlBytes, cudaHostRegisterMapped);
  if (error != cudaSuccess) {
    clock->page_ = nullptr;
    return cuda_failure("the control page", error);
  }
  for (int step = 0; error == cudaSuccess && step < 6; step++) {
    switch (step) {
      case 0:
        error = cudaHostGetDevicePointer(&clock->page_on_device_, clock->page_, 0);
        break;
      case 1:
        error = cudaMallocHost(reinterpret_cast<void**>(&clock->seen_), 4096);
        break;
      case 2:
        error = cudaHostGetDevicePointer(reinterpret_cast<void**>(&clock->seen_on_device_), clock->seen_, 0);
        break;
      case 3:
        error = cudaMalloc(reinterpret_cast<void**>(&clock->states_), 2 * sizeof(TurnState));
        break;
      case 4:
        error = cudaEventCreate(&clock->a_);
        break;
      case 5:
        error = cudaEventCreate(&clock->b_);
        break;
    }
  }
  if (error != cudaSuccess) {
    return cuda_failure("the clock's words", error);
  }
  *clock->seen_ = 0;
  clock->found_ = reinterpret_cast<TurnState*>(clock->seen_ + 64);
  return clock;
}

GpuClock::~GpuClock() {
  if (resets_ != device_resets()) {
    return;
  }
  if (page_ != nullptr) {
    cudaHostUnregister(page_);
  }
  cudaFreeHost(seen_);
  cudaFree(states_);
  if (a_ != nullptr) {
    cudaEventDestroy(a_);
  }
  if (b_ != nullptr) {
    cudaEventDestroy(b_);
  }
}

void GpuClock::set_form(std::uint32_t form) {
  __atomic_store_n(&sandbox::device_words(page_)->form, form, __ATOMIC_RELEASE);
}

Window GpuClock::direct(double timeout_s) {
  set_form(static_cast<std::uint32_t>(sandbox::Form::direct));
  return run(++seq_, timeout_s, true);
}

Turn GpuClock::queued(const Call& wanted, double timeout_s, const Enqueued& enqueued) {
  Turn turn;
  Call call = wanted;
  set_form(static_cast<std::uint32_t>(sandbox::Form::queued));
  const std::uint32_t seq = ++seq_;
  turn.window = run(seq, kPrepareTimeout_s, true);
  if (turn.window.end != Window::End::done || turn.window.status != 0) {
    return turn;
  }
  if (enqueued) {
    enqueued(turn.window, call);
    if (turn.window.status != 0) {
      return turn;
    }
  }
  std::this_thread::sleep_for(std::chrono::microseconds(kReachDevice_us));
  const cudaStream_t stream = device_.stream();
  DeviceWords* const words = sandbox::device_words(page_);
  auto* const on_device =
      reinterpret_cast<DeviceWords*>(static_cast<std::byte*>(page_on_device_) + sandbox::kDeviceWordsOffset);
  const sandbox::Driver& driver = **sandbox::driver();
  cudaCtxResetPersistingL2Cache();  // else lines that the subject asked to keep would outlive the scrub
  cudaGetLastError();               // of devices without such lines
  cudaMemsetAsync(states_, 0, 2 * sizeof(TurnState), stream);
  if (!device_.settle(1)) {
    turn.lost = true;
    return turn;
  }
  const double waited = waited_s();
  const auto launched = Steady::now();
  open_call(stream, device_.multiprocessors(), states_, call.spans, call.span_count, device_.scrub().data(),
            device_.scrub().bytes(), &on_device->go, seen_on_device_, seq);
  cudaEventRecord(a_, stream);
  driver.stream_wait(stream, reinterpret_cast<CUdeviceptr>(&on_device->ack), seq, CU_STREAM_WAIT_VALUE_GEQ);
  close_call(stream, device_.multiprocessors(), states_ + 1, call.outputs, call.seed);
  cudaEventRecord(b_, stream);
  cudaMemcpyAsync(found_, states_, 2 * sizeof(TurnState), cudaMemcpyDeviceToHost, stream);
  while (look(seen_) != seq && since(launched) < timeout_s) {
    if (since(launched) > kSpin_s) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }
  turn.open_s = since(launched) - (waited_s() - waited);
  if (!device_.settle(timeout_s)) {
    turn.lost = device_.lost();
    turn.window.exit = runner_.ended();
    turn.window.end = turn.window.exit ? Window::End::gone : Window::End::timeout;
    // Release the stream. A subject's device may still write the word, its host cannot: it stands.
    for (int i = 0; i < 500 && !turn.lost && !device_.settle(0.01); i++) {
      __atomic_store_n(&words->ack, seq, __ATOMIC_RELEASE);
      turn.lost = device_.lost();
    }
    turn.lost = turn.lost || cudaStreamQuery(stream) != cudaSuccess;
    return turn;
  }
  float ms = 0;
  if (cudaEventElapsedTime(&ms, a_, b_) != cudaSuccess) {
    turn.lost = true;
    return turn;
  }
  turn.window.seconds = ms * 1e-3;
  turn.wrong = found_[1].bad;
  turn.loose = found_[1].loose;
  turn.woke = !stands();  // a timer may continue a process that was stopped
  turn.busy = found_[0].busy != 0 || found_[1].busy != 0;
  return turn;
}

double idle_open_s(Device& device, const Call& call) {
  std::vector<double> seconds;
  unsigned* seen = nullptr;
  unsigned* seen_on_device = nullptr;
  TurnState* state = nullptr;
  if (cudaMallocHost(reinterpret_cast<void**>(&seen), 64) == cudaSuccess &&
      cudaHostGetDevicePointer(reinterpret_cast<void**>(&seen_on_device), seen, 0) == cudaSuccess &&
      cudaMalloc(reinterpret_cast<void**>(&state), sizeof(TurnState)) == cudaSuccess) {
    *seen = 0;
    for (unsigned i = 1; i <= 7; i++) {
      cudaMemsetAsync(state, 0, sizeof(TurnState), device.stream());
      device.settle(1);
      const auto launched = Steady::now();
      open_call(device.stream(), device.multiprocessors(), state, call.spans, call.span_count, device.scrub().data(),
                device.scrub().bytes(), nullptr, seen_on_device, i);
      while (look(seen) != i && since(launched) < 1) {
      }
      seconds.push_back(since(launched));
    }
  }
  device.settle(1);
  cudaFreeHost(seen);
  cudaFree(state);
  return median(seconds);
}

}  // namespace khost::judge::gpu
