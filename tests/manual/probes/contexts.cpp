// What a context on the device costs: to make and to end, with so many others on it, by settings of the driver.
//   g++ -std=c++20 -O2 -I/usr/local/cuda/include contexts.cpp -o contexts -ldl && ./contexts [others, default 0 16]
// Each context is a process of its own, as a candidate's is. Seconds; medians of single ones, and six at once.
#include <cuda.h>
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
double since(Clock::time_point t) {
  return std::chrono::duration<double>(Clock::now() - t).count();
}

template <class F>
F* named(void* library, const char* name) {
  return reinterpret_cast<F*>(dlsym(library, name));
}

struct Steps {
  double init = 0, context = 0, first = 0;
};

int child(int out) {
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
  auto* init = named<CUresult(unsigned)>(library, "cuInit");
  auto* retain = named<CUresult(CUcontext*, CUdevice)>(library, "cuDevicePrimaryCtxRetain");
  auto* current = named<CUresult(CUcontext)>(library, "cuCtxSetCurrent");
  auto* allocate = named<CUresult(CUdeviceptr*, size_t)>(library, "cuMemAlloc_v2");
  auto* fill = named<CUresult(CUdeviceptr, unsigned char, size_t)>(library, "cuMemsetD8_v2");
  auto* settle = named<CUresult()>(library, "cuCtxSynchronize");
  Steps steps;
  auto t = Clock::now();
  init(0);
  steps.init = since(t);
  t = Clock::now();
  CUcontext context = nullptr;
  retain(&context, 0);
  current(context);
  steps.context = since(t);
  t = Clock::now();
  CUdeviceptr memory = 0;
  allocate(&memory, 2 << 20);
  fill(memory, 1, 2 << 20);
  if (settle() != CUDA_SUCCESS) {
    return 1;
  }
  steps.first = since(t);
  if (write(out, &steps, sizeof steps) != sizeof steps) {
    return 1;
  }
  pause();
  return 0;
}

struct Process {
  pid_t pid = 0;
  int in = -1;
};

Process begin() {
  int ends[2];
  if (pipe(ends) != 0) {
    abort();
  }
  const pid_t pid = fork();
  if (pid == 0) {
    close(ends[0]);
    const std::string out = std::to_string(ends[1]);
    execl("/proc/self/exe", "contexts", "--child", out.c_str(), nullptr);
    _exit(1);
  }
  close(ends[1]);
  return {pid, ends[0]};
}

Steps ready(const Process& process) {
  Steps steps;
  if (read(process.in, &steps, sizeof steps) != sizeof steps) {
    std::printf("a child failed\n");
    exit(1);
  }
  close(process.in);
  return steps;
}

double finish(const std::vector<Process>& all) {
  const auto t = Clock::now();
  for (const Process& one : all) {
    kill(one.pid, SIGKILL);
  }
  for (const Process& one : all) {
    waitpid(one.pid, nullptr, 0);
  }
  return since(t);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void measure(const char* label, int others) {
  std::vector<Process> background(others);
  for (Process& one : background) {
    one = begin();
    ready(one);
  }
  std::vector<double> whole, init, context, first, over;
  for (int i = 0; i < 5; i++) {
    const auto t = Clock::now();
    const Process one = begin();
    const Steps steps = ready(one);
    whole.push_back(since(t));
    init.push_back(steps.init);
    context.push_back(steps.context);
    first.push_back(steps.first);
    over.push_back(finish({one}));
  }
  const auto t = Clock::now();
  std::vector<Process> six(6);
  for (Process& one : six) {
    one = begin();
  }
  for (const Process& one : six) {
    ready(one);
  }
  const double made = since(t), ended = finish(six);
  std::printf("%-28s %2d others: made %.3f (cuInit %.3f, context %.3f, first call %.3f), ended %.3f; ", label, others,
              median(whole), median(init), median(context), median(first), median(over));
  std::printf("six made %.2f, ended %.2f\n", made, ended);
  std::fflush(stdout);
  finish(background);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "--child") {
    return child(std::atoi(argv[2]));
  }
  std::vector<int> others;
  for (int i = 1; i < argc; i++) {
    others.push_back(std::atoi(argv[i]));
  }
  if (others.empty()) {
    others = {0, 16};
  }
  setenv("CUDA_MODULE_LOADING", "LAZY", 1);
  const std::vector<std::vector<std::pair<const char*, const char*>>> settings = {
      {},
      {{"CUDA_DEVICE_MAX_COPY_CONNECTIONS", "1"}},
      {{"CUDA_DEVICE_MAX_CONNECTIONS", "4"}},
      {{"CUDA_DEVICE_MAX_CONNECTIONS", "1"}},
      {{"CUDA_DEVICE_MAX_CONNECTIONS", "1"}, {"CUDA_DEVICE_MAX_COPY_CONNECTIONS", "1"}},
      {{"CUDA_SCALE_LAUNCH_QUEUES", "0.25x"}},
      {{"CUDA_CACHE_DISABLE", "1"}}};
  for (const int count : others) {
    for (const auto& setting : settings) {
      std::string label = setting.empty() ? "as it comes" : "";
      for (const auto& [name, value] : setting) {
        setenv(name, value, 1);
        label += std::string(label.empty() ? "" : " ") + (name + 5) + "=" + value;
      }
      measure(label.c_str(), count);
      for (const auto& [name, value] : setting) {
        unsetenv(name);
      }
    }
  }
}
