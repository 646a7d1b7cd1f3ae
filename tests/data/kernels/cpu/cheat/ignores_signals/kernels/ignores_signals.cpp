#include <pthread.h>
#include <signal.h>

#include "khost.h"

// Blocks every signal that can be blocked and never returns.
extern "C" int ignores_signals(const float* x, float* out, int64_t rows, int64_t cols) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  for (int number = 1; number < 65; number++) {
    signal(number, SIG_IGN);
  }
  volatile float sum = x[0];
  while (true) {
    sum = sum + 1;
  }
  return 0;
}
KHOST_EXPORT(ignores_signals)
