// Keys and values of every slot, laid out [slot][layer][key|value][head][position][width]: one head of one slot is
// contiguous in position. Memory is reserved at once and touched as sequences grow.
#pragma once

#include <cstdint>

#include "trainer/model/config.h"
#include "trainer/torch.h"

namespace khost::trainer {

class KvCache {
 public:
  KvCache(const ModelConfig& config, int64_t slots, int64_t positions);

  int64_t slots() const { return slots_; }
  int64_t positions() const { return positions_; }
  float* keys(int64_t slot, int64_t layer, int64_t head) { return at(slot, layer, 0, head); }
  float* values(int64_t slot, int64_t layer, int64_t head) { return at(slot, layer, 1, head); }

  // Copies the first `length` positions of every layer.
  void copy_prefix(int64_t from, int64_t to, int64_t length);

 private:
  float* at(int64_t slot, int64_t layer, int64_t kind, int64_t head) {
    return data_.data_ptr<float>() + (((slot * layers_ + layer) * 2 + kind) * heads_ + head) * positions_ * width_;
  }

  int64_t slots_, positions_, layers_, heads_, width_;
  at::Tensor data_;
};

}  // namespace khost::trainer
