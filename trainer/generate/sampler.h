// Draws tokens. Every request owns its random stream, so that what it draws does not depend on its neighbours.
#pragma once

#include <cstdint>
#include <vector>

#include "trainer/generate/random.h"
#include "trainer/generate/token_mask.h"
#include "trainer/model/weights.h"

namespace khost::trainer {

struct Draw {
  double temperature;  // 0: the most likely token
  RandomStream* random;
  int64_t top_k = 0;  // 0: all
  double top_p = 1;
};

struct Drawn {
  int32_t token;
  float logp;  // under the temperature, before top_k and top_p; under temperature 1 for the most likely token
};

// One token for each hidden row, among those that the mask allows. Log-probabilities are over the whole vocabulary, so
// that the trainer's recomputed numbers compare.
std::vector<Drawn> sample(const Weights& weights, const at::Tensor& hidden_NC, const std::vector<Draw>& draws,
                          const TokenMask& mask = {});

}  // namespace khost::trainer
