// The decoder's own operators with their backward passes, on fp32 or bf16 CPU tensors (score_tokens also on those of a
// device; the others stand in device_functions.h). They compute in fp32 and round
// what they return to the type of what they got; scores are always fp32.
// Shapes: N rows (batch x time), B batch, T time, C width, H heads, D head width, V vocabulary.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "trainer/torch.h"

namespace khost::trainer {

at::Tensor rms_norm(const at::Tensor& x_NC, const at::Tensor& weight_C, double epsilon);

// Each row of gate_up is [gate | up].
at::Tensor swiglu(const at::Tensor& gate_up_NM);

struct HeadShape {
  int64_t batch, time, heads, kv_heads, width;
};

struct Heads {
  at::Tensor q_BHTD, k_BHTD, v_BHTD;
};

// Cuts rows [q heads | k heads | v heads] into heads and rotates q and k by their position 0..T-1.
// cosine and sine are tables [positions, D/2].
Heads split_heads(const at::Tensor& qkv_N, const at::Tensor& cosine_PD, const at::Tensor& sine_PD,
                  const HeadShape& shape);

struct TokenScores {
  at::Tensor logp_N;     // log-probability of the target
  at::Tensor entropy_N;  // of the whole distribution
};

// Scores targets under softmax(hidden head^T / temperature). Works on chunks of rows and computes the logits again
// in the backward pass, so that memory stays bounded for vocabularies of 150,000 tokens.
TokenScores score_tokens(const at::Tensor& hidden_NC, const at::Tensor& head_VC, const at::Tensor& targets_N,
                         double temperature);

// part(x), without keeping what `part` computes on the way: the backward pass calls it again (activation
// checkpointing). `part` must be a function of x and of leaf tensors only.
at::Tensor recompute(const std::function<at::Tensor(const at::Tensor&)>& part, const at::Tensor& x);

}  // namespace khost::trainer
