#include "trainer/model/functions.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "trainer/model/device_functions.h"
#include "trainer/model/kernels.h"
#include "trainer/torch_function.h"

namespace khost::trainer {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

constexpr int64_t kGrain = 64;               // rows a thread takes at least
constexpr int64_t kSlices = 16;              // partial weight gradients: a fixed number keeps sums reproducible
constexpr int64_t kLogitElements = 4 << 20;  // logits alive at once

struct RmsNorm : Function<RmsNorm> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight, double epsilon) {
    const int64_t rows = x.size(0);
    const int64_t width = x.size(1);
    const at::Tensor source = x.contiguous();
    at::Tensor y = at::empty_like(source);
    at::Tensor inverse = at::empty({rows}, x.options());
    const float* from = source.const_data_ptr<float>();
    const float* scale = weight.const_data_ptr<float>();
    float* to = y.data_ptr<float>();
    float* kept = inverse.data_ptr<float>();
    at::parallel_for(0, rows, kGrain, [&](int64_t begin, int64_t end) {
      kernels::rms_norm(from + begin * width, scale, to + begin * width, kept + begin, end - begin, width,
                        static_cast<float>(epsilon));
    });
    context->save_for_backward({source, weight, inverse});
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor dy = gradients[0].contiguous();
    const int64_t rows = dy.size(0);
    const int64_t width = dy.size(1);
    at::Tensor dx = at::empty_like(dy);
    at::Tensor partial = at::zeros({kSlices, width}, dy.options());
    const float* x = saved[0].const_data_ptr<float>();
    const float* weight = saved[1].const_data_ptr<float>();
    const float* inverse = saved[2].const_data_ptr<float>();
    const float* dy_data = dy.const_data_ptr<float>();
    float* dx_data = dx.data_ptr<float>();
    float* sums = partial.data_ptr<float>();
    const int64_t slice = (rows + kSlices - 1) / kSlices;
    at::parallel_for(0, kSlices, 1, [&](int64_t first, int64_t last) {
      for (int64_t s = first; s < last; ++s) {
        const int64_t begin = std::min(s * slice, rows);
        const int64_t end = std::min(begin + slice, rows);
        kernels::rms_norm_backward(x + begin * width, weight, inverse + begin, dy_data + begin * width,
                                   dx_data + begin * width, sums + s * width, end - begin, width);
      }
    });
    return {dx, partial.sum(0), at::Tensor()};
  }
};

struct SwiGlu : Function<SwiGlu> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& gate_up) {
    const at::Tensor source = gate_up.contiguous();
    const int64_t rows = source.size(0);
    const int64_t width = source.size(1) / 2;
    at::Tensor out = at::empty({rows, width}, source.options());
    const float* from = source.const_data_ptr<float>();
    float* to = out.data_ptr<float>();
    at::parallel_for(0, rows, kGrain, [&](int64_t begin, int64_t end) {
      kernels::swiglu(from + begin * 2 * width, to + begin * width, end - begin, width);
    });
    context->save_for_backward({source});
    return out;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const at::Tensor source = context->get_saved_variables()[0];
    const at::Tensor dout = gradients[0].contiguous();
    const int64_t rows = dout.size(0);
    const int64_t width = dout.size(1);
    at::Tensor dsource = at::empty_like(source);
    const float* from = source.const_data_ptr<float>();
    const float* dout_data = dout.const_data_ptr<float>();
    float* to = dsource.data_ptr<float>();
    at::parallel_for(0, rows, kGrain, [&](int64_t begin, int64_t end) {
      kernels::swiglu_backward(from + begin * 2 * width, dout_data + begin * width, to + begin * 2 * width, end - begin,
                               width);
    });
    return {dsource};
  }
};

// Visits every (batch, time) row: `visit(row, q, k, v)` gets the places of its heads in the head-major tensors.
template <class Visit>
void each_row(const HeadShape& s, float* q, float* k, float* v, Visit visit) {
  at::parallel_for(0, s.batch * s.time, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t b = row / s.time;
      const int64_t t = row % s.time;
      visit(row, t, q + (b * s.heads * s.time + t) * s.width, k + (b * s.kv_heads * s.time + t) * s.width,
            v + (b * s.kv_heads * s.time + t) * s.width);
    }
  });
}

struct SplitHeads : Function<SplitHeads> {
  static variable_list forward(AutogradContext* context, const at::Tensor& qkv, const at::Tensor& cosine,
                               const at::Tensor& sine, HeadShape s) {
    const at::Tensor source = qkv.contiguous();
    at::Tensor q = at::empty({s.batch, s.heads, s.time, s.width}, qkv.options());
    at::Tensor k = at::empty({s.batch, s.kv_heads, s.time, s.width}, qkv.options());
    at::Tensor v = at::empty_like(k);
    const float* from = source.const_data_ptr<float>();
    const float* cos_data = cosine.const_data_ptr<float>();
    const float* sin_data = sine.const_data_ptr<float>();
    const int64_t stride = s.time * s.width;
    const int64_t row_width = (s.heads + 2 * s.kv_heads) * s.width;
    each_row(s, q.data_ptr<float>(), k.data_ptr<float>(), v.data_ptr<float>(),
             [&](int64_t row, int64_t t, float* q_row, float* k_row, float* v_row) {
               const float* head = from + row * row_width;
               const float* c = cos_data + t * s.width / 2;
               const float* d = sin_data + t * s.width / 2;
               for (int64_t h = 0; h < s.heads; ++h, head += s.width) {
                 kernels::rotate(head, q_row + h * stride, c, d, s.width, 1);
               }
               for (int64_t h = 0; h < s.kv_heads; ++h, head += s.width) {
                 kernels::rotate(head, k_row + h * stride, c, d, s.width, 1);
               }
               for (int64_t h = 0; h < s.kv_heads; ++h, head += s.width) {
                 std::copy_n(head, s.width, v_row + h * stride);
               }
             });
    context->saved_data["shape"] = std::vector<int64_t>{s.batch, s.time, s.heads, s.kv_heads, s.width};
    context->save_for_backward({cosine, sine});
    return {q, k, v};
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const std::vector<int64_t> kept = context->saved_data["shape"].toIntVector();
    const HeadShape s{kept[0], kept[1], kept[2], kept[3], kept[4]};
    const variable_list saved = context->get_saved_variables();
    at::Tensor dq = gradients[0].contiguous();
    at::Tensor dk = gradients[1].contiguous();
    at::Tensor dv = gradients[2].contiguous();
    const int64_t row_width = (s.heads + 2 * s.kv_heads) * s.width;
    at::Tensor dqkv = at::empty({s.batch * s.time, row_width}, dq.options());
    float* to = dqkv.data_ptr<float>();
    const float* cos_data = saved[0].const_data_ptr<float>();
    const float* sin_data = saved[1].const_data_ptr<float>();
    const int64_t stride = s.time * s.width;
    each_row(s, dq.data_ptr<float>(), dk.data_ptr<float>(), dv.data_ptr<float>(),
             [&](int64_t row, int64_t t, const float* q_row, const float* k_row, const float* v_row) {
               float* head = to + row * row_width;
               const float* c = cos_data + t * s.width / 2;
               const float* d = sin_data + t * s.width / 2;
               for (int64_t h = 0; h < s.heads; ++h, head += s.width) {
                 kernels::rotate(q_row + h * stride, head, c, d, s.width, -1);
               }
               for (int64_t h = 0; h < s.kv_heads; ++h, head += s.width) {
                 kernels::rotate(k_row + h * stride, head, c, d, s.width, -1);
               }
               for (int64_t h = 0; h < s.kv_heads; ++h, head += s.width) {
                 std::copy_n(v_row + h * stride, s.width, head);
               }
             });
    return {dqkv, at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

// Scores against the whole vocabulary. With p = softmax(z), z = h W^T / temperature, H = -sum p log p and incoming
// gradients g (of log p[target]) and e (of H):
// dz = g (onehot - p) - e p (log p + H).
struct ScoreTokens : Function<ScoreTokens> {
  static at::Tensor log_probabilities(const at::Tensor& hidden, const at::Tensor& head, double temperature) {
    at::Tensor logits = at::mm(hidden, head.t()).to(at::kFloat);
    if (temperature != 1) {
      logits.div_(temperature);
    }
    return at::log_softmax(logits, 1);
  }

  static int64_t chunk_rows(const at::Tensor& head) { return std::max<int64_t>(1, kLogitElements / head.size(0)); }

  static variable_list forward(AutogradContext* context, const at::Tensor& hidden, const at::Tensor& head,
                               const at::Tensor& targets, double temperature) {
    const int64_t rows = hidden.size(0);
    at::Tensor logp = at::empty({rows}, hidden.options());
    at::Tensor entropy = at::empty({rows}, hidden.options());
    for (int64_t begin = 0; begin < rows; begin += chunk_rows(head)) {
      const int64_t count = std::min(chunk_rows(head), rows - begin);
      const at::Tensor all = log_probabilities(hidden.narrow(0, begin, count), head, temperature);
      logp.narrow(0, begin, count).copy_(all.gather(1, targets.narrow(0, begin, count).unsqueeze(1)).squeeze(1));
      entropy.narrow(0, begin, count).copy_(at::exp(all).mul_(all).sum(1).neg_());
    }
    context->saved_data["temperature"] = temperature;
    context->save_for_backward({hidden, head, targets, entropy});
    return {logp, entropy};
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& hidden = saved[0];
    const at::Tensor& head = saved[1];
    const double temperature = context->saved_data["temperature"].toDouble();
    const int64_t rows = hidden.size(0);
    at::Tensor dhidden = at::empty_like(hidden);
    at::Tensor dhead = at::zeros_like(head);
    for (int64_t begin = 0; begin < rows; begin += chunk_rows(head)) {
      const int64_t count = std::min(chunk_rows(head), rows - begin);
      const at::Tensor part = hidden.narrow(0, begin, count);
      const at::Tensor all = log_probabilities(part, head, temperature);
      at::Tensor dz = at::exp(all);
      const at::Tensor g = gradients[0].narrow(0, begin, count).unsqueeze(1);
      const at::Tensor e = gradients[1].narrow(0, begin, count).unsqueeze(1);
      dz.mul_((all + saved[3].narrow(0, begin, count).unsqueeze(1)).mul_(e).add_(g)).neg_();
      dz.scatter_add_(1, saved[2].narrow(0, begin, count).unsqueeze(1), g);
      dz.div_(temperature);
      dhidden.narrow(0, begin, count).copy_(at::mm(dz, head));
      dhead.addmm_(dz.t(), part);
    }
    return {dhidden, dhead, at::Tensor(), at::Tensor()};
  }
};

// One part of a network whose insides are computed again in the backward pass. Its parameters are leaves: the inner
// backward pass adds to their gradients by itself.
struct Recompute : Function<Recompute> {
  struct Kept : torch::CustomClassHolder {
    std::function<at::Tensor(const at::Tensor&)> part;
    explicit Kept(std::function<at::Tensor(const at::Tensor&)> f) : part(std::move(f)) {}
  };

  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const c10::intrusive_ptr<Kept>& kept) {
    context->saved_data["part"] = c10::IValue::make_capsule(kept);
    context->save_for_backward({x});
    return kept->part(x);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto kept = c10::static_intrusive_pointer_cast<Kept>(context->saved_data["part"].toCapsule());
    at::Tensor x = context->get_saved_variables()[0].detach();
    x.set_requires_grad(true);
    {
      const at::AutoGradMode with_gradients(true);
      kept->part(x).backward(gradients[0]);
    }
    return {x.grad(), at::Tensor()};
  }
};

// The row loops know fp32 only. Narrower types are widened for them and rounded after, with exact gradients between.
bool is_narrow(const at::Tensor& x) {
  return x.scalar_type() != at::kFloat;
}

}  // namespace

at::Tensor rms_norm(const at::Tensor& x_NC, const at::Tensor& weight_C, double epsilon) {
  if (is_narrow(x_NC)) {
    return RmsNorm::apply(x_NC.to(at::kFloat), weight_C.to(at::kFloat), epsilon).to(x_NC.scalar_type());
  }
  return RmsNorm::apply(x_NC, weight_C, epsilon);
}

at::Tensor swiglu(const at::Tensor& gate_up_NM) {
  if (is_narrow(gate_up_NM)) {
    return SwiGlu::apply(gate_up_NM.to(at::kFloat)).to(gate_up_NM.scalar_type());
  }
  return SwiGlu::apply(gate_up_NM);
}

Heads split_heads(const at::Tensor& qkv_N, const at::Tensor& cosine_PD, const at::Tensor& sine_PD,
                  const HeadShape& shape) {
  variable_list out = SplitHeads::apply(qkv_N.to(at::kFloat), cosine_PD, sine_PD, shape);
  const at::ScalarType type = qkv_N.scalar_type();
  return {out[0].to(type), out[1].to(type), out[2].to(type)};
}

TokenScores score_tokens(const at::Tensor& hidden_NC, const at::Tensor& head_VC, const at::Tensor& targets_N,
                         double temperature) {
  if (hidden_NC.is_cuda()) {
    return device_score_tokens(hidden_NC, head_VC, targets_N, temperature);
  }
  variable_list out = ScoreTokens::apply(hidden_NC.to(at::kFloat), head_VC.to(at::kFloat), targets_N, temperature);
  return {out[0], out[1]};
}

at::Tensor recompute(const std::function<at::Tensor(const at::Tensor&)>& part, const at::Tensor& x) {
  return Recompute::apply(x, c10::make_intrusive<Recompute::Kept>(part));
}

}  // namespace khost::trainer
