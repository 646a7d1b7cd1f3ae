// What the decoder keeps on the device for its passes: buffers of one size of batch, and weights folded for short
// steps.
#pragma once

#include <cuda_runtime_api.h>

#include <vector>

#include "trainer/cuda/generate_kernels.h"
#include "trainer/cuda/product.h"
#include "trainer/model/weights.h"

namespace khost::trainer::cuda {

// The buffers of one pass over `rows` rows.
struct Buffers {
  at::Tensor ids, slots, positions;  // int32, one a row
  at::Tensor tiles;                  // int32 [tiles, 4]
  at::Tensor x[2], h, qkv, attention, delta, gate_up, mlp;
  at::Tensor logits;

  Buffers(const Weights& w, int64_t rows, int64_t logit_rows, int64_t tile_count) {
    const ModelConfig& c = w.config;
    const at::TensorOptions type = w.embedding.options().requires_grad(false);
    const at::TensorOptions ints = type.dtype(at::kInt);
    ids = at::zeros({rows}, ints);
    slots = at::zeros({rows}, ints);
    positions = at::zeros({rows}, ints);
    tiles = at::zeros({tile_count, 4}, ints);
    x[0] = at::zeros({rows, c.width}, type);
    x[1] = at::zeros({rows, c.width}, type);
    h = at::zeros({rows, c.width}, type);
    qkv = at::zeros({rows, c.qkv_width()}, type);
    attention = at::zeros({rows, c.heads * c.head_width}, type);
    delta = at::zeros({rows, c.width}, type);
    gate_up = at::zeros({rows, 2 * c.mlp_width}, type);
    mlp = at::zeros({rows, c.mlp_width}, type);
    if (logit_rows > 0) {
      logits = at::zeros({logit_rows, c.vocabulary}, type.dtype(at::kFloat));
    }
  }
};

// Matrices times the weights of the norm before them: a step of few rows is a chain of short kernels, and those of the
// norms can be saved. Copies, made anew after every change of the weights.
struct FoldedWeights {
  std::vector<at::Tensor> qkv, gate_up;  // of each layer
  at::Tensor head;

  // Whether kernels for the shape know folded rows. A bias would have to be added after the factor.
  static bool serves(const Weights& w) {
    const ModelConfig& c = w.config;
    return w.embedding.scalar_type() == at::kBFloat16 && !c.qkv_bias && c.width % 8 == 0 && c.mlp_width % 8 == 0 &&
           appends_in_one(true, c.heads, c.kv_heads, c.head_width);
  }

  void fold(const Weights& w) {
    const at::NoGradGuard no_grad;
    const auto put = [](at::Tensor& into, const at::Tensor& matrix, const at::Tensor& norm) {
      const at::Tensor product = (matrix.detach().to(at::kFloat) * norm.detach().to(at::kFloat)).to(at::kBFloat16);
      into.defined() ? static_cast<void>(into.copy_(product)) : static_cast<void>(into = product);
    };
    qkv.resize(w.layers.size());
    gate_up.resize(w.layers.size());
    for (size_t l = 0; l < w.layers.size(); ++l) {
      put(qkv[l], w.layers[l].qkv, w.layers[l].norm_attention);
      put(gate_up[l], w.layers[l].gate_up, w.layers[l].norm_mlp);
    }
    put(head, w.vocabulary_weight(), w.final_norm);
  }
};

// The products of a step with folded weights, tuned for its number of rows.
struct Products {
  Product qkv, attention_out, gate_up, mlp_out, head;

  Products(const ModelConfig& c, int64_t rows)
      : qkv(rows, c.width, c.qkv_width(), Product::Result::bf16),
        attention_out(rows, c.heads * c.head_width, c.width, Product::Result::added),
        gate_up(rows, c.width, 2 * c.mlp_width, Product::Result::bf16),
        mlp_out(rows, c.mlp_width, c.width, Product::Result::added),
        head(rows, c.width, c.vocabulary, Product::Result::fp32) {}

  void tune(const Weights& w, const FoldedWeights& folded, Buffers& b, cudaStream_t stream) {
    const auto data = [](const std::vector<at::Tensor>& tensors) {
      std::vector<const void*> list;
      for (const at::Tensor& tensor : tensors) {
        list.push_back(tensor.const_data_ptr());
      }
      return list;
    };
    std::vector<at::Tensor> out;
    std::vector<at::Tensor> down;
    for (const Layer& layer : w.layers) {
      out.push_back(layer.attention_out);
      down.push_back(layer.mlp_out);
    }
    void* x = b.x[0].data_ptr();
    qkv.tune(data(folded.qkv), x, b.qkv.data_ptr(), stream);
    attention_out.tune(data(out), b.attention.data_ptr(), x, stream);
    gate_up.tune(data(folded.gate_up), x, b.gate_up.data_ptr(), stream);
    mlp_out.tune(data(down), b.mlp.data_ptr(), x, stream);
    head.tune({folded.head.const_data_ptr()}, x, b.logits.data_ptr(), stream);
  }
};

}  // namespace khost::trainer::cuda
