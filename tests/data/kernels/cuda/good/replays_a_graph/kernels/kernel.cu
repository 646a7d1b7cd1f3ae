// Its kernels as a CUDA graph, captured anew when an address changes and replayed otherwise.
#include "khost.h"

__global__ void affine_relu_kernel(const float* x, const float* weight, const float* bias, float* out, int64_t n, int cols) {
  const int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
  if (i < n) {
    out[i] = fmaxf(fmaf(x[i], weight[i % cols], bias[i % cols]), 0);
  }
}

const float* seen[3] = {};
float* written = nullptr;
cudaGraphExec_t graph = nullptr;

extern "C" int affine_relu(const float* x, const float* weight, const float* bias, float* out, int64_t n, int64_t cols,
                           khost::stream* stream) {
  if (graph == nullptr || seen[0] != x || seen[1] != weight || seen[2] != bias || written != out) {
    cudaGraph_t made = nullptr;
    cudaStream_t own = nullptr;
    cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking);
    cudaStreamBeginCapture(own, cudaStreamCaptureModeThreadLocal);
    affine_relu_kernel<<<static_cast<unsigned>((n + 255) / 256), 256, 0, own>>>(x, weight, bias, out, n,
                                                                                static_cast<int>(cols));
    cudaStreamEndCapture(own, &made);
    cudaGraphInstantiate(&graph, made, 0);
    seen[0] = x, seen[1] = weight, seen[2] = bias, written = out;
  }
  return cudaGraphLaunch(graph, khost::cuda(stream));
}
KHOST_EXPORT(affine_relu)
