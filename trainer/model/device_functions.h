// The decoder's forward pass on a device, with gradients: fused operators of the accelerator between LibTorch's matrix
// products, and attention over packed rows where reads_packed says so.
#pragma once

#include "trainer/model/functions.h"
#include "trainer/model/transformer.h"

namespace khost::trainer {

// As hidden_states.
at::Tensor device_hidden_states(const Weights& weights, const Sequences& sequences, Keep keep);

// As score_tokens; logits of up to 4 GB are kept for the backward pass, larger ones computed again.
TokenScores device_score_tokens(const at::Tensor& hidden_NC, const at::Tensor& head_VC, const at::Tensor& targets_N,
                                double temperature);

}  // namespace khost::trainer
