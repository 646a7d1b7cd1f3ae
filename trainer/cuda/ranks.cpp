// DeviceRanks over c10d with NCCL.
#include "trainer/cuda/ranks.h"

#ifdef KHOST_WITH_NCCL

#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <thread>

#define USE_C10D_NCCL
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

namespace khost::trainer::cuda {
namespace {

using std::chrono::steady_clock;

constexpr auto kLook = std::chrono::microseconds(20);
// c10d ends the whole process when an exchange outlasts its own limit; ours comes first and ends with a message.
constexpr auto kLater = std::chrono::minutes(5);

class Nccl : public DeviceRanks {
 public:
  Nccl(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size, double timeout_s)
      : timeout_(static_cast<int64_t>(timeout_s * 1000)) {
    // Its monitor would go on asking the store of a rank that has ended.
    setenv("TORCH_NCCL_ENABLE_MONITORING", "0", 0);
    auto options = c10d::ProcessGroupNCCL::Options::create();
    options->timeout = timeout_ + kLater;
    group_ = c10::make_intrusive<c10d::ProcessGroupNCCL>(c10::make_intrusive<c10d::PrefixStore>("cards", store), rank,
                                                         size, options);
    last_ = group_;
    // Before CUDA ends: the group has threads that ask it about their work.
    std::atexit([] { last_->abort(); });
  }

  void sum(at::Tensor& tensor) override {
    std::vector<at::Tensor> tensors = {tensor};
    finish(group_->allreduce(tensors));
  }

  void broadcast(at::Tensor& tensor, int root) override {
    std::vector<at::Tensor> tensors = {tensor};
    c10d::BroadcastOptions from;
    from.rootRank = root;
    finish(group_->broadcast(tensors, from));
  }

 private:
  void finish(const c10::intrusive_ptr<c10d::Work>& work) {
    const auto deadline = steady_clock::now() + timeout_;
    while (!work->isCompleted()) {
      if (steady_clock::now() > deadline) {
        group_->abort();
        throw std::runtime_error("its card did not answer in " + std::to_string(timeout_.count() / 1000) + " s");
      }
      std::this_thread::sleep_for(kLook);
    }
    if (const std::exception_ptr error = work->exception()) {
      group_->abort();
      std::rethrow_exception(error);
    }
    work->wait();  // what is queued next comes behind it
  }

  // Of the one group of a process; never freed.
  inline static c10::intrusive_ptr<c10d::ProcessGroupNCCL>& last_ = *new c10::intrusive_ptr<c10d::ProcessGroupNCCL>;

  const std::chrono::milliseconds timeout_;
  c10::intrusive_ptr<c10d::ProcessGroupNCCL> group_;
};

}  // namespace

std::unique_ptr<DeviceRanks> join_cards(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                        double timeout_s) {
  return std::make_unique<Nccl>(store, rank, size, timeout_s);
}

}  // namespace khost::trainer::cuda

#else

namespace khost::trainer::cuda {

std::unique_ptr<DeviceRanks> join_cards(const c10::intrusive_ptr<c10d::Store>&, int, int, double) {
  return nullptr;
}

}  // namespace khost::trainer::cuda

#endif
