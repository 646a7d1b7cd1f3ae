// What a CUDA device adds to LibTorch's own operators. The code stands in a library beside the program,
// libkhost_trainer_cuda.so, which brings LibTorch's CUDA half along: a program that never asks for the device starts
// without either, and runs on machines without a driver.
//
// All tensors are contiguous on the device, fp32 or bf16, unless said otherwise; work is queued on the current stream.
// Shapes: N rows, C width, M width of the MLP, H heads, D head width, V vocabulary.
#pragma once

#include <functional>
#include <memory>

#include "host/base/result.h"
#include "trainer/generate/device_decoder.h"
#include "trainer/torch.h"

namespace c10d {
class Store;
}

namespace khost::trainer {

struct TokenMask;
struct Weights;

// Exchanges of the device's tensors between ranks, each of which has a device of its own. Calls come in the same order
// on every rank, return when the exchange is done, and throw when it cannot be.
class DeviceRanks {
 public:
  virtual ~DeviceRanks() = default;
  virtual void sum(at::Tensor& tensor) = 0;
  virtual void broadcast(at::Tensor& tensor, int root) = 0;
};

struct AdamNumbers {
  float grad_scale, beta1, beta2, epsilon, rate, rate_decay, bias1, bias2;  // bias2 is already a square root
};

class Accelerator {
 public:
  virtual ~Accelerator() = default;

  virtual std::string name() const = 0;  // of the card
  // Bounds what this process's tensors hold of the card's memory, cached blocks included; `share` is above 0 and at
  // most 1. Beyond it cached blocks are freed, and an allocation that still does not fit throws.
  virtual void limit_memory(double share) = 0;
  // Waits until everything queued on the device is done.
  virtual void finish() = 0;

  // A copy to the host that does not hold up what is queued after it: `host` may be read once `wait` returned.
  struct HostCopy {
    at::Tensor host;
    std::function<void()> wait;
  };
  virtual HostCopy copy_out(const at::Tensor& tensor) = 0;

  struct Normed {
    at::Tensor sum_NC, y_NC, inverse_N;  // x + delta, its norm times the weight, 1 / root mean square
  };
  // Without delta the sum is x itself.
  virtual Normed add_norm(const at::Tensor& x, const at::Tensor& delta, const at::Tensor& weight, double epsilon) = 0;
  struct NormGradients {
    at::Tensor dx_NC, dweight_C;  // dx is the gradient of delta too
  };
  // `dsum` may be undefined.
  virtual NormGradients add_norm_backward(const at::Tensor& sum, const at::Tensor& weight, const at::Tensor& inverse,
                                          const at::Tensor& dsum, const at::Tensor& dy) = 0;

  virtual at::Tensor swiglu(const at::Tensor& gate_up) = 0;
  virtual at::Tensor swiglu_backward(const at::Tensor& gate_up, const at::Tensor& dout) = 0;

  // Joins heads [N, H, D] into rows [q | k | v], q and k turned by `direction` times their position's angle.
  // Parts may be views of rows that are longer.
  virtual at::Tensor rotate(const at::Tensor& q_NHD, const at::Tensor& k_NHD, const at::Tensor& v_NHD,
                            const at::Tensor& positions_N, const at::Tensor& cosine, const at::Tensor& sine,
                            float direction) = 0;

  struct Scores {
    at::Tensor logp_N, entropy_N, log_sum_N;  // fp32
  };
  // Of softmax(logits * scale); logits fp32.
  virtual void score(const at::Tensor& logits_NV, const at::Tensor& targets_N, float scale, const Scores& into) = 0;
  // Gradient of the logits in `type`, given those of logp and of the entropy.
  virtual at::Tensor score_backward(const at::Tensor& logits_NV, const at::Tensor& targets_N, float scale,
                                    const Scores& scores, const at::Tensor& g_N, const at::Tensor& e_N,
                                    at::ScalarType type) = 0;

  // One step over flat fp32 memory. `decay` and `rounded` (bf16) may be undefined.
  virtual void adamw(at::Tensor& weight, const at::Tensor& grad, at::Tensor& first, at::Tensor& second,
                     const at::Tensor& decay, const at::Tensor& rounded, const AdamNumbers& numbers) = 0;

  // Reads the weights by reference, anew in each step. Draws only ids that the mask allows.
  virtual std::unique_ptr<DeviceDecoder> decoder(const Weights& weights, int64_t slots, int64_t positions,
                                                 const TokenMask& mask) = 0;

  // `store` is where the ranks have met. Null where the library was built without NCCL.
  virtual std::unique_ptr<DeviceRanks> join(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                            double timeout_s) = 0;
};

// Loads the library, once. A failure says what is missing: the library, the driver, or a device.
Result<Accelerator*> open_accelerator();

// The one that was opened; asking before is a fault of the program.
Accelerator& accelerator();

// Where a driver is there the library is loaded before the first tensor is made: LibTorch looks for devices only once.
void prepare_devices();

}  // namespace khost::trainer
