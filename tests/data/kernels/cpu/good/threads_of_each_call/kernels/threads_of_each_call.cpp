#include <thread>
#include <vector>

#include "khost.h"

constexpr int64_t kThreads = 4;

extern "C" int threads_of_each_call(const float* x, float* out, int64_t n) {
  std::vector<std::thread> threads;
  for (int64_t t = 0; t < kThreads; t++) {
    threads.emplace_back([=] {
      for (int64_t i = n * t / kThreads; i < n * (t + 1) / kThreads; i++) {
        out[i] = (x[i] > 0 ? x[i] : 0) + 1;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  return 0;
}
KHOST_EXPORT(threads_of_each_call)
