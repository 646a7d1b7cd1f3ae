#include "trainer/generate/kv_cache.h"

#include <algorithm>

namespace khost::trainer {

KvCache::KvCache(const ModelConfig& config, int64_t slots, int64_t positions)
    : slots_(slots),
      positions_(positions),
      layers_(config.layers),
      heads_(config.kv_heads),
      width_(config.head_width),
      data_(at::empty({slots * layers_ * 2 * heads_ * positions * width_}, at::kFloat)) {}

void KvCache::copy_prefix(int64_t from, int64_t to, int64_t length) {
  for (int64_t layer = 0; layer < layers_; ++layer) {
    for (int64_t kind = 0; kind < 2; ++kind) {
      for (int64_t head = 0; head < heads_; ++head) {
        std::copy_n(at(from, layer, kind, head), length * width_, at(to, layer, kind, head));
      }
    }
  }
}

}  // namespace khost::trainer
