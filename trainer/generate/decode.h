// One forward pass over a ragged set of tokens against the cache: prompts being read and sequences being drawn alike.
#pragma once

#include <vector>

#include "trainer/generate/device_decoder.h"
#include "trainer/generate/kv_cache.h"
#include "trainer/model/weights.h"

namespace khost::trainer {

// Writes the tokens' keys and values and returns the normed hidden rows, [N, C]. Tokens of one slot stand in order of
// position and continue what the cache holds.
at::Tensor decode(const Weights& weights, KvCache& cache, const std::vector<StepToken>& tokens);

}  // namespace khost::trainer
