// Ranks over c10d: Gloo for what the host holds and for noticing that a rank is gone, NCCL for the tensors of cards.
// See gloo_names/gloo/names.h for where Gloo's classes come from.
#include "trainer/learn/ranks.h"

#include <chrono>
#include <stdexcept>
#include <thread>

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
  bool whole() const override { return options_.whole; }

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

  Status tell(std::string& text) override {
    at::Tensor length = at::full({1}, static_cast<int64_t>(text.size()), at::TensorOptions(at::kLong));
    if (const Status told = broadcast(length, 0); !told) {
      return told;
    }
    text.resize(static_cast<size_t>(length.item<int64_t>()));
    at::Tensor bytes = at::from_blob(text.data(), {static_cast<int64_t>(text.size())}, at::TensorOptions(at::kByte));
    return broadcast(bytes, 0);
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

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
}

std::string here(int rank) {
  return "here/" + std::to_string(rank);
}

// Says that this rank is here and waits for all others. A wait within the store could not be given up.
void meet(c10d::Store& store, const RanksOptions& options, const std::atomic<bool>& given_up) {
  store.set(here(options.rank), std::vector<uint8_t>{1});
  const auto deadline = std::chrono::steady_clock::now() + milliseconds(options.meeting_s);
  for (int rank = 0; rank < options.size; ++rank) {
    while (!store.check({here(rank)})) {
      if (given_up) {
        throw std::runtime_error("nobody waits for it any more");
      }
      if (std::chrono::steady_clock::now() > deadline) {
        throw std::runtime_error("rank " + std::to_string(rank) + " did not come in " +
                                 std::to_string(static_cast<int>(options.meeting_s)) + " s");
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
}

}  // namespace

Result<std::shared_ptr<Ranks>> Ranks::join(const RanksOptions& options, const std::atomic<bool>& given_up) {
  const auto timeout = milliseconds(options.timeout_s);
  try {
    c10d::TCPStoreOptions meeting;
    meeting.port = static_cast<uint16_t>(options.port);
    meeting.isServer = options.rank == 0 && options.host_store;
    meeting.timeout = milliseconds(options.meeting_s);
    c10::intrusive_ptr<c10d::Store> store = c10::make_intrusive<c10d::TCPStore>(options.address, meeting);
    if (!options.prefix.empty()) {
      store = c10::make_intrusive<c10d::PrefixStore>(options.prefix, store);
    }
    meet(*store, options, given_up);
    store->setTimeout(timeout);
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
