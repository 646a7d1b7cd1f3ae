#include "trainer/learn/pass.h"

#include <algorithm>
#include <numeric>

#include "trainer/accelerator.h"

namespace khost::trainer {

// The last token of a trajectory is never an input: nothing follows it.
Pass make_pass(const Batch& batch, const std::vector<int64_t>& trajectories, const Weights& weights) {
  std::vector<int64_t> first_ordinal(static_cast<size_t>(batch.trajectories()) + 1, 0);
  for (int64_t i = 0; i < batch.trajectories(); ++i) {
    first_ordinal[static_cast<size_t>(i) + 1] = first_ordinal[static_cast<size_t>(i)] + batch.actions(i);
  }
  const bool packed = reads_packed(weights);
  const at::Device device = weights.embedding.device();
  std::vector<int64_t> lengths;
  int64_t time = 1;
  int64_t actions = 0;
  for (const int64_t i : trajectories) {
    lengths.push_back(batch.end(i) - batch.begin(i) - 1);
    time = std::max(time, lengths.back());
    actions += batch.actions(i);
  }
  if (!packed) {
    lengths.assign(lengths.size(), time);
  }
  Pass pass;
  at::Tensor tokens_N = at::zeros({std::accumulate(lengths.begin(), lengths.end(), int64_t{0})}, at::kLong);
  pass.rows_N = at::empty({actions}, at::kLong);
  pass.targets_N = at::empty({actions}, at::kLong);
  int64_t* tokens = tokens_N.data_ptr<int64_t>();
  int64_t* rows = pass.rows_N.data_ptr<int64_t>();
  int64_t* targets = pass.targets_N.data_ptr<int64_t>();
  int64_t row = 0;
  for (size_t b = 0; b < trajectories.size(); row += lengths[b++]) {
    const int64_t i = trajectories[b];
    int64_t ordinal = first_ordinal[static_cast<size_t>(i)];
    for (int64_t place = batch.begin(i); place < batch.end(i); ++place) {
      const int64_t t = place - batch.begin(i);
      const int32_t id = batch.ids()[static_cast<size_t>(place)];
      if (place + 1 < batch.end(i)) {
        tokens[row + t] = id;
      }
      if (batch.mask()[static_cast<size_t>(place)] != 0) {
        *rows++ = row + t - 1;
        *targets++ = id;
        pass.places.push_back(place);
        pass.ordinals.push_back(ordinal++);
      }
    }
  }
  pass.sequences = make_sequences(tokens_N, lengths, device);
  pass.rows_N = pass.rows_N.to(device);
  pass.targets_N = pass.targets_N.to(device);
  return pass;
}

at::Tensor gather(const std::vector<float>& column, const std::vector<int64_t>& at, at::Device device) {
  at::Tensor out = at::empty({static_cast<int64_t>(at.size())}, at::kFloat);
  float* data = out.data_ptr<float>();
  for (const int64_t index : at) {
    *data++ = column[static_cast<size_t>(index)];
  }
  return out.to(device);
}

void scatter(const at::Tensor& values_N, const std::vector<int64_t>& at, std::vector<float>& column) {
  const at::Tensor host = values_N.cpu();
  const float* data = host.const_data_ptr<float>();
  for (const int64_t index : at) {
    column[static_cast<size_t>(index)] = *data++;
  }
}

std::function<void()> scatter_later(const at::Tensor& values_N, const std::vector<int64_t>& at,
                                    std::vector<float>& column) {
  if (!values_N.is_cuda()) {
    return [values_N, &at, &column] { scatter(values_N, at, column); };
  }
  return [copy = accelerator().copy_out(values_N), &at, &column] {
    copy.wait();
    scatter(copy.host, at, column);
  };
}

}  // namespace khost::trainer
