#include "trainer/cuda/decoder.h"

#include <ATen/cuda/CUDAGraph.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/mm.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <deque>
#include <map>

#include "trainer/cuda/decoder_buffers.h"
#include "trainer/cuda/kernels.h"

namespace khost::trainer::cuda {
namespace {

constexpr int64_t kBuckets[] = {1, 2, 4, 8, 16, 32, 64, 96, 128, 192, 256, 384, 512, 768, 1024};

void must(cudaError_t error, const char* what) {
  if (error != cudaSuccess) {
    throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error));
  }
}

struct Step {
  Buffers buffers;
  std::unique_ptr<Products> products;  // where weights are folded
  at::cuda::CUDAGraph graph;
  explicit Step(const Weights& w, int64_t rows) : buffers(w, rows, rows, rows) {}
};

class Decoder : public DeviceDecoder {
 public:
  Decoder(const Weights& weights, int64_t slots, int64_t positions, const TokenMask& mask)
      : weights_(weights),
        half_(weights.embedding.scalar_type() == at::kBFloat16),
        slot_count_(slots),
        positions_(positions),
        stream_(c10::cuda::getStreamFromPool(/*isHighPriority=*/true)) {
    const c10::cuda::CUDAStreamGuard guard(stream_);
    const ModelConfig& c = weights.config;
    const at::TensorOptions type = weights.embedding.options().requires_grad(false);
    cache_ = at::empty({slots * c.layers * 2 * c.kv_heads * positions * c.head_width}, type);
    states_ = at::zeros({slots * static_cast<int64_t>(sizeof(SlotState))}, type.dtype(at::kByte));
    drawn_ = at::zeros({slots * static_cast<int64_t>(sizeof(SlotDrawn))}, type.dtype(at::kByte));
    active_ = at::zeros({std::max(slots, bucket(slots))}, type.dtype(at::kInt));
    if (!mask.bits.empty()) {
      mask_ = at::empty({static_cast<int64_t>(mask.bits.size())}, type.dtype(at::kInt));
      must(cudaMemcpy(mask_.data_ptr<int32_t>(), mask.bits.data(), mask.bits.size() * 4, cudaMemcpyHostToDevice),
           "cudaMemcpy");
    }
    refresh();
    // The weights were written on another stream.
    must(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }

  ~Decoder() override {
    cudaStreamSynchronize(stream_);
    for (std::deque<Marked>* list : {&marked_, &free_}) {
      for (Marked& m : *list) {
        cudaFreeHost(m.drawn);
        cudaEventDestroy(m.event);
      }
    }
  }

  int64_t positions() const override { return positions_; }

  void refresh() override {
    if (FoldedWeights::serves(weights_)) {
      const c10::cuda::CUDAStreamGuard guard(stream_);
      folded_.fold(weights_);
    }
  }

  void copy_prefix(int64_t from, int64_t to, int64_t length) override {
    const c10::cuda::CUDAStreamGuard guard(stream_);
    const ModelConfig& c = weights_.config;
    const at::Tensor whole = cache_.view({slot_count_, c.layers * 2 * c.kv_heads, positions_, c.head_width});
    whole.select(0, to).narrow(1, 0, length).copy_(whole.select(0, from).narrow(1, 0, length));
  }

  void read(const std::vector<StepToken>& tokens, const std::vector<SlotDraw>& draws) override {
    const at::NoGradGuard no_grad;
    const c10::cuda::CUDAStreamGuard guard(stream_);
    const int64_t rows = static_cast<int64_t>(tokens.size());
    const ModelConfig& c = weights_.config;
    const int64_t most = tokens_a_tile(half_, c.heads, c.kv_heads, c.head_width);
    std::vector<int32_t> ids, slots, positions, last_rows, last_slots;
    std::vector<Tile> tiles;
    std::map<int64_t, int32_t> last_row;  // of each slot
    for (const StepToken& t : tokens) {
      const auto row = static_cast<int32_t>(ids.size());
      ids.push_back(static_cast<int32_t>(t.token));
      slots.push_back(static_cast<int32_t>(t.slot));
      positions.push_back(static_cast<int32_t>(t.position));
      last_row[t.slot] = row;
      if (!tiles.empty() && tiles.back().slot == t.slot && tiles.back().count < most) {
        ++tiles.back().count;
      } else {
        tiles.push_back({row, 1, static_cast<int32_t>(t.slot), static_cast<int32_t>(t.position)});
      }
    }
    std::vector<SlotState> states;
    for (const SlotDraw& d : draws) {
      const int32_t row = last_row.at(d.slot);
      last_rows.push_back(row);
      last_slots.push_back(static_cast<int32_t>(d.slot));
      states.push_back({0, positions[static_cast<size_t>(row)], 0, static_cast<int32_t>(d.top_k), d.seed,
                        static_cast<float>(d.temperature), static_cast<float>(d.top_p)});
    }
    Buffers b(weights_, rows, 0, static_cast<int64_t>(tiles.size()));
    upload(b.ids, ids.data(), ids.size() * 4);
    upload(b.slots, slots.data(), slots.size() * 4);
    upload(b.positions, positions.data(), positions.size() * 4);
    upload(b.tiles, tiles.data(), tiles.size() * sizeof(Tile));
    for (size_t i = 0; i < draws.size(); ++i) {
      must(
          cudaMemcpyAsync(state_data() + draws[i].slot, &states[i], sizeof(SlotState), cudaMemcpyHostToDevice, stream_),
          "cudaMemcpyAsync");
    }
    forward(b, static_cast<int64_t>(tiles.size()), most);
    if (draws.empty()) {
      return;
    }
    const at::TensorOptions ints = b.ids.options();
    at::Tensor rows_N = at::empty({static_cast<int64_t>(last_rows.size())}, ints);
    at::Tensor slots_N = at::empty_like(rows_N);
    upload(rows_N, last_rows.data(), last_rows.size() * 4);
    upload(slots_N, last_slots.data(), last_slots.size() * 4);
    draw_rows(b.h.index_select(0, rows_N), slots_N, {});
  }

  void advance(const std::vector<int64_t>& slots) override {
    if (slots.empty()) {
      return;
    }
    const at::NoGradGuard no_grad;
    const c10::cuda::CUDAStreamGuard guard(stream_);
    const int64_t rows = bucket(static_cast<int64_t>(slots.size()));
    std::vector<int32_t> active(static_cast<size_t>(rows), -1);
    std::copy(slots.begin(), slots.end(), active.begin());
    if (active != uploaded_) {
      upload(active_, active.data(), active.size() * 4);
      uploaded_ = std::move(active);
    }
    std::unique_ptr<Step>& step = steps_[rows];
    if (!step) {
      step = record(rows);
    }
    step->graph.replay();
  }

  void mark() override {
    Marked m;
    if (!free_.empty()) {
      m = free_.front();
      free_.pop_front();
    } else {
      void* memory = nullptr;
      must(cudaMallocHost(&memory, static_cast<size_t>(slot_count_) * sizeof(SlotDrawn)), "cudaMallocHost");
      m.drawn = static_cast<SlotDrawn*>(memory);
      must(cudaEventCreateWithFlags(&m.event, cudaEventDisableTiming), "cudaEventCreate");
    }
    must(cudaMemcpyAsync(m.drawn, drawn_.data_ptr(), static_cast<size_t>(drawn_.numel()), cudaMemcpyDeviceToHost,
                         stream_),
         "cudaMemcpyAsync");
    must(cudaEventRecord(m.event, stream_), "cudaEventRecord");
    marked_.push_back(m);
  }

  const std::vector<SlotDrawn>& collect() override {
    Marked m = marked_.front();
    marked_.pop_front();
    must(cudaEventSynchronize(m.event), "generation");
    collected_.assign(m.drawn, m.drawn + slot_count_);
    free_.push_back(m);
    return collected_;
  }

 private:
  struct Marked {
    SlotDrawn* drawn = nullptr;  // pinned, one a slot
    cudaEvent_t event = nullptr;
  };

  static int64_t bucket(int64_t rows) {
    const auto found = std::lower_bound(std::begin(kBuckets), std::end(kBuckets), rows);
    return found != std::end(kBuckets) ? *found : (rows + 255) / 256 * 256;
  }

  SlotState* state_data() const { return reinterpret_cast<SlotState*>(states_.data_ptr<uint8_t>()); }
  SlotDrawn* drawn_data() const { return reinterpret_cast<SlotDrawn*>(drawn_.data_ptr<uint8_t>()); }

  void upload(const at::Tensor& to, const void* from, size_t bytes) {
    must(cudaMemcpyAsync(to.data_ptr(), from, bytes, cudaMemcpyHostToDevice, stream_), "cudaMemcpyAsync");
  }

  std::unique_ptr<Step> record(int64_t rows) {
    auto step = std::make_unique<Step>(weights_, rows);
    Buffers& b = step->buffers;
    if (folded_.head.defined()) {
      step->products = std::make_unique<Products>(weights_.config, rows);
      step->products->tune(weights_, folded_, b, stream_);
    }
    const auto run = [&] {
      gather_rows(state_data(), active_.data_ptr<int32_t>(), rows, positions_, tile_data(b),
                  b.slots.data_ptr<int32_t>(), b.positions.data_ptr<int32_t>(), b.ids.data_ptr<int32_t>(), stream_);
      if (step->products) {
        forward_folded(b, rows, *step->products);
      } else {
        forward(b, rows, 1);
        draw_rows(b.h, b.slots, b.logits);
      }
    };
    // Once without effect (all rows are padding), so that libraries make what they need outside of the recording.
    std::vector<int32_t> nobody(static_cast<size_t>(rows), -1);
    upload(active_, nobody.data(), nobody.size() * 4);
    run();
    must(cudaStreamSynchronize(stream_), "generation");
    step->graph.capture_begin(at::cuda::graph_pool_handle(), cudaStreamCaptureModeThreadLocal);
    run();
    step->graph.capture_end();
    upload(active_, uploaded_.data(), uploaded_.size() * 4);
    return step;
  }

  const uint32_t* mask_data() const {
    return mask_.defined() ? reinterpret_cast<const uint32_t*>(mask_.const_data_ptr<int32_t>()) : nullptr;
  }
  static Tile* tile_data(const Buffers& b) { return reinterpret_cast<Tile*>(b.tiles.data_ptr<int32_t>()); }

  static void multiply(at::Tensor& out, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias = {}) {
    if (bias.defined()) {
      at::addmm_out(out, bias.detach(), x, weight.detach().t());
    } else {
      at::mm_out(out, x, weight.detach().t());
    }
  }

  // Leaves the normed hidden rows in b.h.
  void forward(Buffers& b, int64_t tile_count, int64_t rows_a_tile) {
    const ModelConfig& c = weights_.config;
    const int64_t rows = b.ids.numel();
    embed(half_, weights_.embedding.data_ptr(), b.ids.data_ptr<int32_t>(), b.x[0].data_ptr(), rows, c.width, stream_);
    int from = 0;
    bool pending = false;  // whether b.delta is still to be added
    const auto norm = [&](const at::Tensor& weight) {
      add_norm({half_, rows, c.width, b.x[from].data_ptr(), pending ? b.delta.data_ptr() : nullptr, weight.data_ptr(),
                b.x[1 - from].data_ptr(), b.h.data_ptr(), nullptr, static_cast<float>(c.norm_epsilon)},
               stream_);
      from = pending ? 1 - from : from;
      pending = true;
    };
    for (int64_t l = 0; l < c.layers; ++l) {
      const Layer& layer = weights_.layers[static_cast<size_t>(l)];
      norm(layer.norm_attention);
      multiply(b.qkv, b.h, layer.qkv, layer.qkv_bias);
      attend_layer(b, l, tile_count, rows_a_tile, {});
      multiply(b.delta, b.attention, layer.attention_out);
      norm(layer.norm_mlp);
      multiply(b.gate_up, b.h, layer.gate_up);
      swiglu(half_, b.gate_up.data_ptr(), b.mlp.data_ptr(), rows, c.mlp_width, stream_);
      multiply(b.delta, b.mlp, layer.mlp_out);
    }
    norm(weights_.final_norm);
  }

  void attend_layer(Buffers& b, int64_t l, int64_t tile_count, int64_t rows_a_tile, const Folded& folded) {
    const ModelConfig& c = weights_.config;
    const Layer& layer = weights_.layers[static_cast<size_t>(l)];
    const CacheView cache{
        cache_.data_ptr(), c.layers * 2 * c.kv_heads * positions_ * c.head_width, l, c.kv_heads, positions_,
        c.head_width};
    const Append add{half_,
                     b.ids.numel(),
                     c.heads,
                     b.qkv.data_ptr(),
                     c.qk_norm ? layer.q_norm.data_ptr() : nullptr,
                     c.qk_norm ? layer.k_norm.data_ptr() : nullptr,
                     static_cast<float>(c.norm_epsilon),
                     b.slots.data_ptr<int32_t>(),
                     b.positions.data_ptr<int32_t>(),
                     weights_.cosine.data_ptr<float>(),
                     weights_.sine.data_ptr<float>(),
                     cache,
                     folded};
    const Attend look{half_, tile_count, rows_a_tile, c.heads, tile_data(b), b.qkv.data_ptr(), b.attention.data_ptr(),
                      cache};
    if (rows_a_tile == 1) {
      append_and_attend(add, look, stream_);
    } else {
      append(add, stream_);
      attend(look, stream_);
    }
  }

  // One token a row with folded weights, through to what is drawn. The stream of hidden rows stays in one place, which
  // products add to.
  void forward_folded(Buffers& b, int64_t rows, const Products& products) {
    const ModelConfig& c = weights_.config;
    void* x = b.x[0].data_ptr();
    const Folded folded{x, c.width, static_cast<float>(c.norm_epsilon)};
    embed(half_, weights_.embedding.data_ptr(), b.ids.data_ptr<int32_t>(), x, rows, c.width, stream_);
    for (int64_t l = 0; l < c.layers; ++l) {
      const auto index = static_cast<size_t>(l);
      const Layer& layer = weights_.layers[index];
      products.qkv.run(folded_.qkv[index].const_data_ptr(), x, b.qkv.data_ptr(), stream_);
      attend_layer(b, l, rows, 1, folded);
      products.attention_out.run(layer.attention_out.const_data_ptr(), b.attention.data_ptr(), x, stream_);
      products.gate_up.run(folded_.gate_up[index].const_data_ptr(), x, b.gate_up.data_ptr(), stream_);
      swiglu_folded(b.gate_up.data_ptr(), b.mlp.data_ptr(), rows, c.mlp_width, folded, stream_);
      products.mlp_out.run(layer.mlp_out.const_data_ptr(), b.mlp.data_ptr(), x, stream_);
    }
    products.head.run(folded_.head.const_data_ptr(), x, b.logits.data_ptr(), stream_);
    draw({rows, c.vocabulary, b.logits.data_ptr<float>(), b.slots.data_ptr<int32_t>(), state_data(), drawn_data(),
          mask_data(), folded},
         stream_);
  }

  // Draws for hidden rows; `logits` may be memory to use.
  void draw_rows(const at::Tensor& hidden_NC, const at::Tensor& slots_N, at::Tensor logits) {
    const at::Tensor head = weights_.vocabulary_weight().detach().t();
    if (!logits.defined()) {
      logits = at::empty({hidden_NC.size(0), weights_.config.vocabulary}, hidden_NC.options().dtype(at::kFloat));
    }
    if (half_) {
      at::mm_out(logits, hidden_NC, head, at::kFloat);
    } else {
      at::mm_out(logits, hidden_NC, head);
    }
    draw({hidden_NC.size(0),
          weights_.config.vocabulary,
          logits.data_ptr<float>(),
          slots_N.data_ptr<int32_t>(),
          state_data(),
          drawn_data(),
          mask_data(),
          {}},
         stream_);
  }

  const Weights& weights_;
  const bool half_;
  const int64_t slot_count_, positions_;
  const c10::cuda::CUDAStream stream_;
  FoldedWeights folded_;  // empty where it does not serve
  at::Tensor cache_, states_, drawn_;
  at::Tensor mask_;                // int32 words of the TokenMask; undefined: all ids may be drawn
  at::Tensor active_;              // the slots that advance, one a row of the bucket
  std::vector<int32_t> uploaded_;  // what active_ holds
  std::map<int64_t, std::unique_ptr<Step>> steps_;
  std::deque<Marked> marked_, free_;
  std::vector<SlotDrawn> collected_;
};

}  // namespace

std::unique_ptr<DeviceDecoder> make_decoder(const Weights& weights, int64_t slots, int64_t positions,
                                            const TokenMask& mask) {
  return std::make_unique<Decoder>(weights, slots, positions, mask);
}

}  // namespace khost::trainer::cuda
