// A convolution by cuDNN in single precision, with the handle of the call, and a kernel of its own behind it.
#include <cudnn.h>

#include "khost.h"

namespace {

constexpr int kChannels = 64, kSize = 56;

struct Descriptors {
  cudnnTensorDescriptor_t image = nullptr;
  cudnnFilterDescriptor_t filter = nullptr;
  cudnnConvolutionDescriptor_t convolution = nullptr;
  ~Descriptors() {
    cudnnDestroyTensorDescriptor(image);
    cudnnDestroyFilterDescriptor(filter);
    cudnnDestroyConvolutionDescriptor(convolution);
  }
};

__global__ void bias_relu_kernel(const float* bias, float* out, int64_t n) {
  const int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
  if (i < n) {
    out[i] = fmaxf(out[i] + bias[i / (kSize * kSize) % kChannels], 0.0f);
  }
}

int convolve(const float* x, const float* weight, float* out, int batch, cudnnHandle_t handle) {
  const float one = 1, zero = 0;
  Descriptors d;
  cudnnStatus_t status = cudnnCreateTensorDescriptor(&d.image);
  for (int step = 0; status == CUDNN_STATUS_SUCCESS && step < 7; step++) {
    switch (step) {
      case 0: status = cudnnCreateFilterDescriptor(&d.filter); break;
      case 1: status = cudnnCreateConvolutionDescriptor(&d.convolution); break;
      case 2:
        status = cudnnSetTensor4dDescriptor(d.image, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, batch, kChannels, kSize,
                                            kSize);
        break;
      case 3:
        status = cudnnSetFilter4dDescriptor(d.filter, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, kChannels, kChannels, 3, 3);
        break;
      case 4:
        status = cudnnSetConvolution2dDescriptor(d.convolution, 1, 1, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION,
                                                 CUDNN_DATA_FLOAT);
        break;
      case 5: status = cudnnSetConvolutionMathType(d.convolution, CUDNN_FMA_MATH); break;
      case 6:
        status = cudnnConvolutionForward(handle, &one, d.image, x, d.filter, weight, d.convolution,
                                         CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, nullptr, 0, &zero, d.image, out);
        break;
    }
  }
  return status == CUDNN_STATUS_SUCCESS ? 0 : 2000 + status;
}

}  // namespace

extern "C" int conv_relu(const float* x, const float* conv_weight, const float* conv_bias, float* out, int64_t n,
                         khost::handles* handles, khost::stream* stream) {
  const int batch = static_cast<int>(n / (kChannels * kSize * kSize));
  const int failed = convolve(x, conv_weight, out, batch, static_cast<cudnnHandle_t>(handles->cudnn));
  if (failed != 0) {
    return failed;
  }
  bias_relu_kernel<<<static_cast<unsigned>((n + 255) / 256), 256, 0, khost::cuda(stream)>>>(conv_bias, out, n);
  return cudaGetLastError();
}
KHOST_EXPORT(conv_relu)
