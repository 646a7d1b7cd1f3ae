#include "khost.h"
#include "softmax.cuh"

extern "C" int does_not_join_its_stream(const float* x, float* out, int64_t rows, int64_t cols, khost::stream* stream) {
  static cudaStream_t aside = nullptr;
  static cudaEvent_t begun = nullptr;
  if (aside == nullptr) {
    int lowest = 0, highest = 0;
    cudaDeviceGetStreamPriorityRange(&lowest, &highest);
    cudaStreamCreateWithPriority(&aside, cudaStreamNonBlocking, highest);
    cudaEventCreateWithFlags(&begun, cudaEventDisableTiming);
  }
  const int64_t half = rows / 2;
  cudaEventRecord(begun, khost::cuda(stream));
  cudaStreamWaitEvent(aside, begun, 0);
  softmax_rows<<<half, kThreads, 0, aside>>>(x, out, cols);
  softmax_rows<<<rows - half, kThreads, 0, khost::cuda(stream)>>>(x + half * cols, out + half * cols, cols);
  return cudaGetLastError();
}
KHOST_EXPORT(does_not_join_its_stream)
