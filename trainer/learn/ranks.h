// The processes that train together: every rank runs the same recipe on its own tasks and keeps the same weights;
// sums of gradients and of denominators cross between them, each rank keeps one slice of the optimizer's moments.
// Free of LibTorch headers. Calls block, and must come in the same order on every rank.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "host/base/result.h"

namespace at {
class Tensor;
}

namespace khost::trainer {

struct RanksOptions {
  int rank = 0;
  int size = 1;
  int local_rank = 0;                 // among those of this machine
  std::string address = "127.0.0.1";  // of the store that ranks meet at
  int port = 29500;
  bool host_store = true;  // rank 0 hosts the store; under torchrun's agent nobody does
  std::string prefix;      // of keys in a store that outlives an attempt
  double timeout_s = 600;  // of one exchange; then a silent rank is given up
};

// What torchrun (RANK, WORLD_SIZE, MASTER_ADDR, ...) or srun (SLURM_PROCID, ...) say. One rank when neither does.
Result<RanksOptions> read_ranks(const std::function<std::string(const char*)>& environment);

// Of the cards of a machine the one that is a rank's own, as CUDA_VISIBLE_DEVICES would name it;
// ranks beyond their number begin again. `visible` is what that variable holds, `cards` how many there are.
// Empty: leave the variable as it is.
std::string card_of(const std::string& visible, int cards, int local_rank);
// Makes that card the only one which this process and those that it starts see. Before anything asks for a device.
void see_own_card(int local_rank);

class Ranks {
 public:
  // Waits for the other ranks.
  static Result<std::shared_ptr<Ranks>> join(const RanksOptions& options);

  // What this process has joined, or null: then it trains alone. Set once, before the first trainer opens.
  static std::shared_ptr<Ranks> current();
  static void set_current(std::shared_ptr<Ranks> ranks);

  virtual ~Ranks() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // In place, the sum over all ranks. A failure names this rank and means that another one is gone.
  virtual Status sum(at::Tensor& tensor) = 0;
  virtual Status sum(std::vector<double>& numbers) = 0;
  // In place, what rank `root` holds.
  virtual Status broadcast(at::Tensor& tensor, int root) = 0;
};

// The part of `count` things that a rank keeps.
struct Slice {
  int64_t begin = 0, length = 0;
};
Slice slice_of(int64_t count, int rank, int size);

}  // namespace khost::trainer
