// The forward pass of generation on a CUDA device. Steps of running sequences are replayed from one CUDA graph for each
// size of batch; prompts are read by the same kernels, launched one by one.
#pragma once

#include <memory>

#include "trainer/generate/device_decoder.h"
#include "trainer/generate/token_mask.h"
#include "trainer/model/weights.h"

namespace khost::trainer::cuda {

std::unique_ptr<DeviceDecoder> make_decoder(const Weights& weights, int64_t slots, int64_t positions,
                                            const TokenMask& mask);

}  // namespace khost::trainer::cuda
