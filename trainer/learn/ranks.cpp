// Ranks over c10d: Gloo for what the host holds and for noticing that a rank is gone, NCCL for the tensors of cards.
// See gloo_names/gloo/names.h for where Gloo's classes come from.
#include "trainer/learn/ranks.h"

#include "trainer/accelerator.h"
#include "trainer/torch.h"

#define USE_C10D_GLOO
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

namespace khost::trainer {
namespace {

class JoinedRanks : public Ranks {
 public:
  JoinedRanks(const RanksOptions& options, c10::intrusive_ptr<c10d::Store> store,
              c10::intrusive_ptr<c10d::Backend> backend)
      : options_(options), store_(std::move(store)), backend_(std::move(backend)) {}

  int rank() const override { return options_.rank; }
  int size() const override { return options_.size; }

  Status sum(at::Tensor& tensor) override {
    return exchange("sum", [&] {
      if (DeviceRanks* cards = cards_for(tensor)) {
        return cards->sum(tensor);
      }
      std::vector<at::Tensor> tensors = {tensor.cpu()};
      backend_->allreduce(tensors)->wait();
      if (tensor.is_cuda()) {
        tensor.copy_(tensors[0]);
      }
    });
  }

  Status sum(std::vector<double>& numbers) override {
    at::Tensor tensor =
        at::from_blob(numbers.data(), {static_cast<int64_t>(numbers.size())}, at::TensorOptions(at::kDouble));
    return sum(tensor);
  }

  Status broadcast(at::Tensor& tensor, int root) override {
    if (tensor.numel() == 0) {
      return ok();
    }
    return exchange("broadcast", [&] {
      if (DeviceRanks* cards = cards_for(tensor)) {
        return cards->broadcast(tensor, root);
      }
      std::vector<at::Tensor> tensors = {tensor.cpu()};
      c10d::BroadcastOptions from;
      from.rootRank = root;
      backend_->broadcast(tensors, from)->wait();
      if (tensor.is_cuda()) {
        tensor.copy_(tensors[0]);
      }
    });
  }

 private:
  // What exchanges the tensor between cards, or null: then it goes through the host. A card that waits for a rank that
  // is gone waits long, so all ranks meet first, which fails at once.
  DeviceRanks* cards_for(const at::Tensor& tensor) {
    if (!tensor.is_cuda()) {
      return nullptr;
    }
    std::vector<at::Tensor> here = {at::zeros({1})};
    backend_->allreduce(here)->wait();
    if (!asked_for_cards_) {
      asked_for_cards_ = true;
      cards_ = accelerator().join(store_, options_.rank, options_.size, options_.timeout_s);
    }
    return cards_.get();
  }

  // Gloo throws when a peer closes its connection or says nothing for too long.
  template <class F>
  Status exchange(const char* what, F work) {
    try {
      work();
      return ok();
    } catch (const std::exception& error) {
      const std::string text = error.what();
      return Failure{"rank " + std::to_string(options_.rank) + " of " + std::to_string(options_.size) + ": " + what +
                         ": another rank is gone or silent: " + text.substr(0, text.find('\n')),
                     "gone"};
    }
  }

  const RanksOptions options_;
  c10::intrusive_ptr<c10d::Store> store_;
  c10::intrusive_ptr<c10d::Backend> backend_;
  bool asked_for_cards_ = false;
  std::unique_ptr<DeviceRanks> cards_;
};

}  // namespace

Result<std::shared_ptr<Ranks>> Ranks::join(const RanksOptions& options) {
  const auto timeout = std::chrono::milliseconds(static_cast<int64_t>(options.timeout_s * 1000));
  try {
    c10d::TCPStoreOptions meeting;
    meeting.port = static_cast<uint16_t>(options.port);
    meeting.isServer = options.rank == 0 && options.host_store;
    meeting.timeout = timeout;
    c10::intrusive_ptr<c10d::Store> store = c10::make_intrusive<c10d::TCPStore>(options.address, meeting);
    if (!options.prefix.empty()) {
      store = c10::make_intrusive<c10d::PrefixStore>(options.prefix, store);
    }
    auto gloo = c10d::ProcessGroupGloo::Options::create(timeout);
    // Ranks that meet at this machine's own address talk over the loopback: host names need not resolve to it.
    const bool local = options.address == "127.0.0.1" || options.address == "localhost";
    gloo->devices.push_back(local ? c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1")
                                  : c10d::ProcessGroupGloo::createDefaultDevice());
    c10::intrusive_ptr<c10d::Backend> backend =
        c10::make_intrusive<c10d::ProcessGroupGloo>(store, options.rank, options.size, gloo);
    return std::shared_ptr<Ranks>(std::make_shared<JoinedRanks>(options, store, backend));
  } catch (const std::exception& error) {
    const std::string text = error.what();
    return Failure{"rank " + std::to_string(options.rank) + " of " + std::to_string(options.size) + " cannot join at " +
                       options.address + ":" + std::to_string(options.port) + ": " + text.substr(0, text.find('\n')),
                   "gone"};
  }
}

}  // namespace khost::trainer
