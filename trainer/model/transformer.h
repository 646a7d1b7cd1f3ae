// The decoder's forward pass over whole sequences, with gradients where enabled. Generation runs the same operators
// over a cache (generate/decode.h).
#pragma once

#include "trainer/model/weights.h"
#include "trainer/torch.h"

namespace khost::trainer {

// Sequences one after the other. Where they are padded all have the same length, with any legal id on the right: causal
// attention keeps padding out of what stands before it.
struct Sequences {
  at::Tensor tokens_N;     // int64
  at::Tensor positions_N;  // int32; of devices only, as `starts`
  at::Tensor starts;       // int32 [B + 1]: the rows of sequence b begin at starts[b]
  int64_t batch = 0;
  int64_t longest = 0;
  bool even = true;  // all are of the same length
};
// `tokens_N` on the host.
Sequences make_sequences(const at::Tensor& tokens_N, const std::vector<int64_t>& lengths, at::Device device);
// Whether attention of these weights reads sequences of different lengths without padding: on devices in bf16.
bool reads_packed(const Weights& weights);

// Returns the normed hidden states, [N, C]; the row of a token predicts the next one and values the state before it.
// With Keep::inputs the backward pass computes every layer again from its input, in exchange for memory.
enum class Keep { all, inputs };
at::Tensor hidden_states(const Weights& weights, const Sequences& sequences, Keep keep = Keep::all);
// The same for tokens_BT on the host, padded.
at::Tensor hidden_states(const Weights& weights, const at::Tensor& tokens_BT, Keep keep = Keep::all);

// Rows [q heads | k heads | v heads] of a layer's input, q and k normed where the family does so; not yet rotated.
at::Tensor project_heads(const Weights& weights, const Layer& layer, const at::Tensor& x_NC);

// x + attention_out(attention) and then the MLP block; shared with generation.
at::Tensor finish_layer(const Weights& weights, const Layer& layer, const at::Tensor& x_NC,
                        const at::Tensor& attention_NC);

// Value of each hidden row, [N].
at::Tensor values(const Weights& weights, const at::Tensor& hidden_NC);

}  // namespace khost::trainer
