// The decoder's forward pass over whole sequences, with gradients where enabled. Generation runs the same operators
// over a cache (generate/decode.h).
#pragma once

#include "trainer/model/weights.h"
#include "trainer/torch.h"

namespace khost::trainer {

// tokens_BT int64, padded on the right with any legal id: causal attention keeps padding out of what stands before it.
// Returns the normed hidden states, [B*T, C]; row b*T+t predicts token t+1 and values the state before it.
// With Keep::inputs the backward pass computes every layer again from its input, in exchange for memory.
enum class Keep { all, inputs };
at::Tensor hidden_states(const Weights& weights, const at::Tensor& tokens_BT, Keep keep = Keep::all);

// Rows [q heads | k heads | v heads] of a layer's input, q and k normed where the family does so; not yet rotated.
at::Tensor project_heads(const Weights& weights, const Layer& layer, const at::Tensor& x_NC);

// x + attention_out(attention) and then the MLP block; shared with generation.
at::Tensor finish_layer(const Weights& weights, const Layer& layer, const at::Tensor& x_NC,
                        const at::Tensor& attention_NC);

// Value of each hidden row, [N].
at::Tensor values(const Weights& weights, const at::Tensor& hidden_NC);

}  // namespace khost::trainer
