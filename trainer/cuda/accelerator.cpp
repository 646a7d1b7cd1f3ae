// The face of libkhost_trainer_cuda.so.
#include "trainer/accelerator.h"

#include <ATen/Context.h>
#include <ATen/cuda/CUDAContextLight.h>
#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include "trainer/cuda/decoder.h"
#include "trainer/cuda/kernels.h"
#include "trainer/cuda/ranks.h"

namespace khost::trainer::cuda {
namespace {

bool is_half(const at::Tensor& x) {
  return x.scalar_type() == at::kBFloat16;
}

cudaStream_t stream() {
  return c10::cuda::getCurrentCUDAStream().stream();
}

const void* data_or_null(const at::Tensor& x) {
  return x.defined() ? x.const_data_ptr() : nullptr;
}

class Cuda : public Accelerator {
 public:
  std::string name() const override { return at::cuda::getCurrentDeviceProperties()->name; }

  // The allocator exists once the device was initialised, which otherwise the first tensor does.
  void limit_memory(double share) override {
    at::globalContext().lazyInitDevice(at::kCUDA);
    c10::cuda::CUDACachingAllocator::setMemoryFraction(share, 0);
  }

  void finish() override {
    if (const cudaError_t error = cudaDeviceSynchronize(); error != cudaSuccess) {
      throw std::runtime_error(std::string("device cuda: ") + cudaGetErrorString(error));
    }
  }

  HostCopy copy_out(const at::Tensor& tensor) override {
    HostCopy copy{tensor.to(at::kCPU, /*non_blocking=*/true), {}};
    auto event = std::make_shared<at::cuda::CUDAEvent>();
    event->record();
    copy.wait = [event] { event->synchronize(); };
    return copy;
  }

  Normed add_norm(const at::Tensor& x, const at::Tensor& delta, const at::Tensor& weight, double epsilon) override {
    const int64_t rows = x.size(0);
    const int64_t width = x.size(1);
    Normed out{delta.defined() ? at::empty_like(x) : x, at::empty_like(x),
               at::empty({rows}, x.options().dtype(at::kFloat))};
    cuda::add_norm({is_half(x), rows, width, x.const_data_ptr(), data_or_null(delta), weight.const_data_ptr(),
                    delta.defined() ? out.sum_NC.data_ptr() : nullptr, out.y_NC.data_ptr(),
                    out.inverse_N.data_ptr<float>(), static_cast<float>(epsilon)},
                   stream());
    return out;
  }

  NormGradients add_norm_backward(const at::Tensor& sum, const at::Tensor& weight, const at::Tensor& inverse,
                                  const at::Tensor& dsum, const at::Tensor& dy) override {
    const int64_t rows = sum.size(0);
    const int64_t width = sum.size(1);
    at::Tensor dx = at::empty_like(dy);
    at::Tensor dweight = at::empty_like(weight);
    at::Tensor partial = at::empty({norm_blocks(rows), width}, inverse.options());
    cuda::add_norm_backward({is_half(sum), rows, width, sum.const_data_ptr(), weight.const_data_ptr(),
                             data_or_null(dsum), dy.const_data_ptr(), inverse.const_data_ptr<float>(), dx.data_ptr(),
                             dweight.data_ptr(), partial.data_ptr<float>()},
                            stream());
    return {dx, dweight};
  }

  at::Tensor swiglu(const at::Tensor& gate_up) override {
    const int64_t width = gate_up.size(1) / 2;
    at::Tensor out = at::empty({gate_up.size(0), width}, gate_up.options());
    cuda::swiglu(is_half(gate_up), gate_up.const_data_ptr(), out.data_ptr(), gate_up.size(0), width, stream());
    return out;
  }

  at::Tensor swiglu_backward(const at::Tensor& gate_up, const at::Tensor& dout) override {
    at::Tensor dgate_up = at::empty_like(gate_up);
    cuda::swiglu_backward(is_half(gate_up), gate_up.const_data_ptr(), dout.const_data_ptr(), dgate_up.data_ptr(),
                          gate_up.size(0), gate_up.size(1) / 2, stream());
    return dgate_up;
  }

  at::Tensor rotate(const at::Tensor& q_NHD, const at::Tensor& k_NHD, const at::Tensor& v_NHD,
                    const at::Tensor& positions_N, const at::Tensor& cosine, const at::Tensor& sine,
                    float direction) override {
    const int64_t rows = q_NHD.size(0);
    const int64_t heads = q_NHD.size(1);
    const int64_t kv_heads = k_NHD.size(1);
    const int64_t width = q_NHD.size(2);
    at::Tensor out = at::empty({rows, (heads + 2 * kv_heads) * width}, q_NHD.options());
    cuda::rotate({is_half(q_NHD), rows, heads, kv_heads, width, q_NHD.const_data_ptr(), k_NHD.const_data_ptr(),
                  v_NHD.const_data_ptr(), q_NHD.stride(0), k_NHD.stride(0), v_NHD.stride(0), out.data_ptr(),
                  positions_N.const_data_ptr<int32_t>(), cosine.const_data_ptr<float>(), sine.const_data_ptr<float>(),
                  direction},
                 stream());
    return out;
  }

  void score(const at::Tensor& logits_NV, const at::Tensor& targets_N, float scale, const Scores& into) override {
    cuda::score(
        {logits_NV.size(0), logits_NV.size(1), logits_NV.const_data_ptr<float>(), targets_N.const_data_ptr<int64_t>(),
         scale, into.logp_N.data_ptr<float>(), into.entropy_N.data_ptr<float>(), into.log_sum_N.data_ptr<float>()},
        stream());
  }

  at::Tensor score_backward(const at::Tensor& logits_NV, const at::Tensor& targets_N, float scale, const Scores& scores,
                            const at::Tensor& g_N, const at::Tensor& e_N, at::ScalarType type) override {
    at::Tensor dlogits = at::empty(logits_NV.sizes(), logits_NV.options().dtype(type));
    cuda::score_backward({is_half(dlogits), logits_NV.size(0), logits_NV.size(1), logits_NV.const_data_ptr<float>(),
                          targets_N.const_data_ptr<int64_t>(), scale, scores.entropy_N.const_data_ptr<float>(),
                          scores.log_sum_N.const_data_ptr<float>(), g_N.const_data_ptr<float>(),
                          e_N.const_data_ptr<float>(), dlogits.data_ptr()},
                         stream());
    return dlogits;
  }

  void adamw(at::Tensor& weight, const at::Tensor& grad, at::Tensor& first, at::Tensor& second, const at::Tensor& decay,
             const at::Tensor& rounded, const AdamNumbers& n) override {
    cuda::adamw({weight.numel(), weight.data_ptr<float>(), first.data_ptr<float>(), second.data_ptr<float>(),
                 grad.const_data_ptr<float>(), static_cast<const float*>(data_or_null(decay)),
                 rounded.defined() ? rounded.data_ptr() : nullptr, n.grad_scale, n.beta1, n.beta2, n.epsilon, n.rate,
                 n.rate_decay, n.bias1, n.bias2},
                stream());
  }

  std::unique_ptr<DeviceDecoder> decoder(const Weights& weights, int64_t slots, int64_t positions,
                                         const TokenMask& mask) override {
    return make_decoder(weights, slots, positions, mask);
  }

  std::unique_ptr<DeviceRanks> join(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                    double timeout_s) override {
    return join_cards(store, rank, size, timeout_s);
  }
};

}  // namespace
}  // namespace khost::trainer::cuda

// One for the program's life, or null with the reason in `why`.
extern "C" khost::trainer::Accelerator* khost_trainer_accelerator(std::string* why) {
  int devices = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&devices); error != cudaSuccess || devices == 0) {
    *why = error != cudaSuccess ? cudaGetErrorString(error) : "no device is visible";
    return nullptr;
  }
  static khost::trainer::cuda::Cuda made;
  return &made;
}
