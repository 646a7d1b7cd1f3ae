#include "trainer/learn/pass.h"

#include <algorithm>

namespace khost::trainer {

// The last token of a trajectory is never an input: nothing follows it.
Pass make_pass(const Batch& batch, const std::vector<int64_t>& trajectories) {
  std::vector<int64_t> first_ordinal(static_cast<size_t>(batch.trajectories()) + 1, 0);
  for (int64_t i = 0; i < batch.trajectories(); ++i) {
    first_ordinal[static_cast<size_t>(i) + 1] = first_ordinal[static_cast<size_t>(i)] + batch.actions(i);
  }
  int64_t time = 1;
  int64_t actions = 0;
  for (const int64_t i : trajectories) {
    time = std::max(time, batch.end(i) - batch.begin(i) - 1);
    actions += batch.actions(i);
  }
  Pass pass;
  pass.tokens_BT = at::zeros({static_cast<int64_t>(trajectories.size()), time}, at::kLong);
  pass.rows_N = at::empty({actions}, at::kLong);
  pass.targets_N = at::empty({actions}, at::kLong);
  int64_t* tokens = pass.tokens_BT.data_ptr<int64_t>();
  int64_t* rows = pass.rows_N.data_ptr<int64_t>();
  int64_t* targets = pass.targets_N.data_ptr<int64_t>();
  for (size_t b = 0; b < trajectories.size(); ++b) {
    const int64_t i = trajectories[b];
    int64_t ordinal = first_ordinal[static_cast<size_t>(i)];
    const int64_t row = static_cast<int64_t>(b) * time;
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
  return pass;
}

at::Tensor gather(const std::vector<float>& column, const std::vector<int64_t>& at) {
  at::Tensor out = at::empty({static_cast<int64_t>(at.size())}, at::kFloat);
  float* data = out.data_ptr<float>();
  for (const int64_t index : at) {
    *data++ = column[static_cast<size_t>(index)];
  }
  return out;
}

void scatter(const at::Tensor& values_N, const std::vector<int64_t>& at, std::vector<float>& column) {
  const float* data = values_N.const_data_ptr<float>();
  for (const int64_t index : at) {
    column[static_cast<size_t>(index)] = *data++;
  }
}

}  // namespace khost::trainer
