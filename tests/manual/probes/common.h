// What every probe shares: checked calls, a clock, bounded waits, and children that cannot outlive their parent.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <vector>

namespace probe {

inline const char* who = "judge";

inline const char* text(cudaError_t e) {
  return cudaGetErrorString(e);
}
inline const char* text(CUresult e) {
  const char* s = nullptr;
  cuGetErrorString(e, &s);
  return s ? s : "unknown driver error";
}

#define CK(call)                                                                    \
  do {                                                                              \
    if (auto e_ = (call); e_ != decltype(e_)(0)) {                                  \
      printf("  %s, %s:%d: %s\n", probe::who, __FILE__, __LINE__, probe::text(e_)); \
      fflush(stdout);                                                               \
      _exit(3);                                                                     \
    }                                                                               \
  } while (0)

inline double now_us() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Spins, never longer than the limit; false when the limit passed.
template <class Condition>
bool wait_until(double seconds, Condition done) {
  const double end = now_us() + seconds * 1e6;
  while (!done())
    if (now_us() > end)
      return false;
  return true;
}

template <class T>
T* shared() {
  void* p = mmap(nullptr, (sizeof(T) + 4095) / 4096 * 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return new (p) T{};
}

// A child that dies with its parent and after `seconds` in any case. Fork before the parent touches CUDA.
template <class Body>
pid_t spawn(unsigned seconds, Body body) {
  fflush(stdout);
  const pid_t pid = fork();
  if (pid)
    return pid;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  alarm(seconds);
  who = "subject";
  body();
  fflush(stdout);
  _exit(0);
}

inline void reap(pid_t pid, double seconds) {
  int status;
  if (!wait_until(seconds, [&] { return waitpid(pid, &status, WNOHANG) != 0; })) {
    kill(pid, SIGKILL);
    if (!wait_until(5, [&] { return waitpid(pid, &status, WNOHANG) != 0; }))
      printf("  child %d did not die\n", pid);
  }
}

inline double quantile(std::vector<double> v, double q) {
  if (v.empty())
    return -1;
  std::sort(v.begin(), v.end());
  return v[std::min(v.size() - 1, size_t(q * v.size()))];
}

inline int attribute(cudaDeviceAttr a) {
  int v = 0;
  cudaDeviceGetAttribute(&v, a, 0);
  return v;
}

inline const char* sharing() {
  return attribute(cudaDevAttrMpsEnabled) ? "mps" : "sliced";
}

__device__ inline unsigned long long device_ns() {
  unsigned long long t;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
  return t;
}

}  // namespace probe
