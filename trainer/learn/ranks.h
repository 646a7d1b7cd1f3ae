// The processes that train together: they keep the same weights, sums of gradients cross between them, each rank keeps
// one slice of the optimizer's moments. Every rank either packs episodes of its own, and denominators are summed too;
// or all hold the same batches (`whole`), and each passes over its part of them.
// Free of LibTorch headers. Calls block, and must come in the same order on every rank.
#pragma once

#include <atomic>
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
  bool whole = false;      // every rank holds the same batches
  double timeout_s = 600;  // of one exchange; then a silent rank is given up
  double meeting_s = 600;  // until all ranks have come
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
  // Waits for the other ranks, until `given_up` says that nobody waits for the answer.
  static Result<std::shared_ptr<Ranks>> join(const RanksOptions& options, const std::atomic<bool>& given_up);

  // What this process has joined, or null: then it trains alone. Set once, before the first trainer opens.
  static std::shared_ptr<Ranks> current();
  static void set_current(std::shared_ptr<Ranks> ranks);

  virtual ~Ranks() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual bool whole() const = 0;

  // In place, the sum over all ranks. A failure names this rank and means that another one is gone.
  virtual Status sum(at::Tensor& tensor) = 0;
  virtual Status sum(std::vector<double>& numbers) = 0;
  // In place, what rank `root` holds.
  virtual Status broadcast(at::Tensor& tensor, int root) = 0;
  // The text of rank 0, on every rank.
  virtual Status tell(std::string& text) = 0;
};

// The sum over all ranks of a column that each has filled in part, with zeros elsewhere.
Status sum_parts(Ranks& ranks, std::vector<float>& column);

// Of the passes over a batch that every rank holds, those of one rank: whole ones while there is one for each rank, and
// of every pass that is left a share of its trajectories.
std::vector<std::vector<int64_t>> share_of(const std::vector<std::vector<int64_t>>& passes, int rank, int size);

// A port of this machine that nobody listens at.
Result<int> free_port();

// The part of `count` things that a rank keeps.
struct Slice {
  int64_t begin = 0, length = 0;
};
Slice slice_of(int64_t count, int rank, int size);

}  // namespace khost::trainer
