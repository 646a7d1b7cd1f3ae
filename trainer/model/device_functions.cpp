#include "trainer/model/device_functions.h"

#include <ATen/ops/_flash_attention_backward.h>
#include <ATen/ops/_flash_attention_forward.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "trainer/accelerator.h"
#include "trainer/torch_function.h"

namespace khost::trainer {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

constexpr int64_t kLogitElements = 256 << 20;  // logits that are computed at once
constexpr int64_t kKeptLogits = 1 << 30;       // logits that are kept for the backward pass

// x + delta and its norm: {sum, y}.
struct AddNorm : Function<AddNorm> {
  static variable_list forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& delta,
                               const at::Tensor& weight, double epsilon) {
    context->set_materialize_grads(false);
    const Accelerator::Normed out = accelerator().add_norm(x, delta, weight, epsilon);
    context->save_for_backward({out.sum_NC, weight, out.inverse_N});
    return {out.sum_NC, out.y_NC};
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor dsum = gradients[0].defined() ? gradients[0].contiguous() : at::Tensor();
    const Accelerator::NormGradients out =
        accelerator().add_norm_backward(saved[0], saved[1], saved[2], dsum, gradients[1].contiguous());
    return {out.dx_NC, out.dx_NC, out.dweight_C, at::Tensor()};
  }
};

struct Norm : Function<Norm> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight, double epsilon) {
    const at::Tensor source = x.contiguous();
    const Accelerator::Normed out = accelerator().add_norm(source, {}, weight, epsilon);
    context->save_for_backward({source, weight, out.inverse_N});
    return out.y_NC;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const Accelerator::NormGradients out =
        accelerator().add_norm_backward(saved[0], saved[1], saved[2], {}, gradients[0].contiguous());
    return {out.dx_NC, out.dweight_C, at::Tensor()};
  }
};

struct DeviceSwiGlu : Function<DeviceSwiGlu> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& gate_up) {
    context->save_for_backward({gate_up});
    return accelerator().swiglu(gate_up);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    return {accelerator().swiglu_backward(context->get_saved_variables()[0], gradients[0].contiguous())};
  }
};

struct HeadParts {
  at::Tensor q_NHD, k_NHD, v_NHD;
};

HeadParts cut(const at::Tensor& rows, const HeadShape& s) {
  const at::Tensor heads = rows.view({rows.size(0), s.heads + 2 * s.kv_heads, s.width});
  return {heads.narrow(1, 0, s.heads), heads.narrow(1, s.heads, s.kv_heads),
          heads.narrow(1, s.heads + s.kv_heads, s.kv_heads)};
}

std::vector<int64_t> to_list(const HeadShape& s) {
  return {s.batch, s.time, s.heads, s.kv_heads, s.width};
}

HeadShape from_list(const std::vector<int64_t>& l) {
  return {l[0], l[1], l[2], l[3], l[4]};
}

// Rows with q and k turned by their positions.
struct RotateRows : Function<RotateRows> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& qkv, const at::Tensor& positions,
                            const at::Tensor& cosine, const at::Tensor& sine, HeadShape s) {
    context->saved_data["shape"] = to_list(s);
    context->save_for_backward({positions, cosine, sine});
    const HeadParts parts = cut(qkv.contiguous(), s);
    return accelerator().rotate(parts.q_NHD, parts.k_NHD, parts.v_NHD, positions, cosine, sine, 1);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const HeadParts parts = cut(gradients[0].contiguous(), from_list(context->saved_data["shape"].toIntVector()));
    return {accelerator().rotate(parts.q_NHD, parts.k_NHD, parts.v_NHD, saved[0], saved[1], saved[2], -1), at::Tensor(),
            at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

// Rotation and causal attention over packed sequences; s.time is the longest.
struct PackedAttention : Function<PackedAttention> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& qkv, const at::Tensor& positions,
                            const at::Tensor& starts, const at::Tensor& cosine, const at::Tensor& sine, HeadShape s) {
    HeadParts parts = cut(qkv, s);
    const at::Tensor rotated = accelerator().rotate(parts.q_NHD, parts.k_NHD, parts.v_NHD, positions, cosine, sine, 1);
    parts = cut(rotated, s);
    const auto [out, log_sum, random, unused, mask] =
        at::_flash_attention_forward(parts.q_NHD, parts.k_NHD, parts.v_NHD, starts, starts, s.time, s.time, 0.0,
                                     /*is_causal=*/true, /*return_debug_mask=*/false);
    context->saved_data["shape"] = to_list(s);
    context->save_for_backward({rotated, out, log_sum, random, unused, positions, starts, cosine, sine});
    return out.reshape({qkv.size(0), s.heads * s.width});
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const HeadShape s = from_list(context->saved_data["shape"].toIntVector());
    const variable_list saved = context->get_saved_variables();
    const HeadParts parts = cut(saved[0], s);
    const at::Tensor dout = gradients[0].contiguous().view({saved[0].size(0), s.heads, s.width});
    const auto [dq, dk, dv] =
        at::_flash_attention_backward(dout, parts.q_NHD, parts.k_NHD, parts.v_NHD, saved[1], saved[2], saved[6],
                                      saved[6], s.time, s.time, 0.0, /*is_causal=*/true, saved[3], saved[4]);
    const auto rows = [](const at::Tensor& d) {
      return d.stride(2) == 1 && d.stride(1) == d.size(2) ? d : d.contiguous();
    };
    return {accelerator().rotate(rows(dq), rows(dk), rows(dv), saved[5], saved[7], saved[8], -1),
            at::Tensor(),
            at::Tensor(),
            at::Tensor(),
            at::Tensor(),
            at::Tensor()};
  }
};

struct DeviceScores : Function<DeviceScores> {
  static at::Tensor multiply(const at::Tensor& a, const at::Tensor& b) {  // fp32 from either type
    return a.scalar_type() == at::kFloat ? at::mm(a, b) : at::mm(a, b, at::kFloat);
  }

  template <class Visit>
  static void each_chunk(const at::Tensor& hidden, const at::Tensor& head, bool keeps, Visit visit) {
    const int64_t rows = hidden.size(0);
    const int64_t most = keeps ? rows : std::max<int64_t>(1, kLogitElements / head.size(0));
    for (int64_t begin = 0; begin < rows; begin += most) {
      visit(begin, std::min(most, rows - begin));
    }
  }

  static variable_list forward(AutogradContext* context, const at::Tensor& hidden, const at::Tensor& head,
                               const at::Tensor& targets, double temperature, bool learns) {
    const at::TensorOptions type = hidden.options().dtype(at::kFloat);
    const Accelerator::Scores all{at::empty({hidden.size(0)}, type), at::empty({hidden.size(0)}, type),
                                  at::empty({hidden.size(0)}, type)};
    variable_list saved = {hidden, head, targets, all.entropy_N, all.log_sum_N};
    const bool keeps = learns && hidden.size(0) * head.size(0) <= kKeptLogits;
    each_chunk(hidden, head, keeps, [&](int64_t begin, int64_t count) {
      const at::Tensor logits = multiply(hidden.narrow(0, begin, count), head.t());
      accelerator().score(logits, targets.narrow(0, begin, count), static_cast<float>(1 / temperature),
                          {all.logp_N.narrow(0, begin, count), all.entropy_N.narrow(0, begin, count),
                           all.log_sum_N.narrow(0, begin, count)});
      if (keeps) {
        saved.push_back(logits);
      }
    });
    context->saved_data["temperature"] = temperature;
    context->save_for_backward(saved);
    return {all.logp_N, all.entropy_N};
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& hidden = saved[0];
    const at::Tensor& head = saved[1];
    const auto scale = static_cast<float>(1 / context->saved_data["temperature"].toDouble());
    const at::Tensor g = gradients[0].contiguous();
    const at::Tensor e = gradients[1].contiguous();
    at::Tensor dhidden = at::empty_like(hidden);
    at::Tensor dhead;
    size_t kept = 5;
    each_chunk(hidden, head, saved.size() > 5, [&](int64_t begin, int64_t count) {
      const at::Tensor part = hidden.narrow(0, begin, count);
      const at::Tensor logits = kept < saved.size() ? saved[kept++] : multiply(part, head.t());
      const at::Tensor dz = accelerator().score_backward(
          logits, saved[2].narrow(0, begin, count), scale,
          {at::Tensor(), saved[3].narrow(0, begin, count), saved[4].narrow(0, begin, count)}, g.narrow(0, begin, count),
          e.narrow(0, begin, count), hidden.scalar_type());
      dhidden.narrow(0, begin, count).copy_(at::mm(dz, head));
      const at::Tensor more = multiply(dz.t(), part);
      dhead = dhead.defined() ? dhead.add_(more) : more;
    });
    return {dhidden, dhead.to(head.scalar_type()), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

struct Residual {
  at::Tensor x_NC, delta_NC;  // their sum is the stream; delta may be undefined
};

Residual add_norm(Residual& stream, const at::Tensor& weight, double epsilon) {
  if (!stream.delta_NC.defined()) {
    return {stream.x_NC, Norm::apply(stream.x_NC, weight, epsilon)};
  }
  variable_list out = AddNorm::apply(stream.x_NC, stream.delta_NC, weight, epsilon);
  return {out[0], out[1]};
}

at::Tensor attention(const Weights& w, const Sequences& s, const at::Tensor& qkv_N, const HeadShape& shape) {
  if (reads_packed(w)) {
    return PackedAttention::apply(qkv_N, s.positions_N, s.starts, w.cosine, w.sine, shape);
  }
  const HeadParts parts = cut(RotateRows::apply(qkv_N, s.positions_N, w.cosine, w.sine, shape), shape);
  const auto heads = [&](const at::Tensor& x_NHD, int64_t copies) {
    const at::Tensor x_BHTD = x_NHD.view({shape.batch, shape.time, x_NHD.size(1), shape.width}).transpose(1, 2);
    return copies > 1 ? x_BHTD.repeat_interleave(copies, 1) : x_BHTD;
  };
  const int64_t group = shape.heads / shape.kv_heads;
  const at::Tensor out_BHTD = at::scaled_dot_product_attention(heads(parts.q_NHD, 1), heads(parts.k_NHD, group),
                                                               heads(parts.v_NHD, group), {}, 0.0, /*is_causal=*/true);
  return out_BHTD.transpose(1, 2).reshape({qkv_N.size(0), shape.heads * shape.width});
}

at::Tensor norm_heads(const Weights& w, const Layer& layer, const at::Tensor& qkv_N) {
  const ModelConfig& c = w.config;
  const int64_t q = c.heads * c.head_width;
  const int64_t k = c.kv_heads * c.head_width;
  const auto normed = [&](int64_t from, int64_t width, const at::Tensor& weight) {
    const at::Tensor heads = qkv_N.narrow(1, from, width).reshape({-1, c.head_width});
    return at::Tensor(Norm::apply(heads, weight, c.norm_epsilon)).view({qkv_N.size(0), width});
  };
  return at::cat({normed(0, q, layer.q_norm), normed(q, k, layer.k_norm), qkv_N.narrow(1, q + k, k)}, 1);
}

Residual run_layer(const Weights& w, const Layer& layer, const Sequences& s, const HeadShape& shape, Residual stream) {
  const double epsilon = w.config.norm_epsilon;
  Residual normed = add_norm(stream, layer.norm_attention, epsilon);
  at::Tensor qkv_N = at::linear(normed.delta_NC, layer.qkv, layer.qkv_bias);
  if (w.config.qk_norm) {
    qkv_N = norm_heads(w, layer, qkv_N);
  }
  stream = {normed.x_NC, at::linear(attention(w, s, qkv_N, shape), layer.attention_out)};
  normed = add_norm(stream, layer.norm_mlp, epsilon);
  const at::Tensor mlp_NM = DeviceSwiGlu::apply(at::linear(normed.delta_NC, layer.gate_up));
  return {normed.x_NC, at::linear(mlp_NM, layer.mlp_out)};
}

}  // namespace

at::Tensor device_hidden_states(const Weights& w, const Sequences& s, Keep keep) {
  const ModelConfig& c = w.config;
  if (!s.even && !reads_packed(w)) {
    throw std::logic_error("sequences of different lengths without packed attention");
  }
  const HeadShape shape{s.batch, s.longest, c.heads, c.kv_heads, c.head_width};
  Residual stream{at::embedding(w.embedding, s.tokens_N), {}};
  for (const Layer& layer : w.layers) {
    if (keep == Keep::all) {
      stream = run_layer(w, layer, s, shape, stream);
      continue;
    }
    const auto compute = [&w, &layer, s, shape](const at::Tensor& x) {
      const Residual out = run_layer(w, layer, s, shape, {x, {}});
      return out.x_NC + out.delta_NC;
    };
    stream = {recompute(compute, stream.x_NC), {}};
  }
  return add_norm(stream, w.final_norm, c.norm_epsilon).delta_NC;
}

TokenScores device_score_tokens(const at::Tensor& hidden_NC, const at::Tensor& head_VC, const at::Tensor& targets_N,
                                double temperature) {
  const bool learns = hidden_NC.requires_grad() || head_VC.requires_grad();
  variable_list out = DeviceScores::apply(hidden_NC, head_VC, targets_N.contiguous(), temperature,
                                          learns && at::GradMode::is_enabled());
  return {out[0], out[1]};
}

}  // namespace khost::trainer
