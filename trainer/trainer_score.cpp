// Trainer: what networks say of a batch, without learning from it.
#include <optional>

#include "trainer/learn/pass.h"
#include "trainer/learn/ranks.h"
#include "trainer/model/functions.h"
#include "trainer/model/transformer.h"
#include "trainer/network.h"
#include "trainer/shared_lease.h"
#include "trainer/trainer.h"

namespace khost::trainer {
namespace {

Failure bad(const std::string& message) {
  return Failure{message, "bad_input"};
}

}  // namespace

Status Trainer::fill(Batch& batch, Column column) {
  const bool value = column == Column::values;
  if (!value && column != Column::old_logp && column != Column::ref_logp) {
    return bad(std::string("fill: ") + column_name(column) + " is not filled by a network");
  }
  if (value != (role_ == Role::critic)) {
    return bad(std::string("fill: ") + column_name(column) + (value ? " needs a critic" : " needs an actor"));
  }
  if (const Status checked = check_tokens(batch); !checked) {
    return checked;
  }
  Result<SharedLease> lease = SharedLease::open(spec_.lease_path);
  if (!lease) {
    return lease.failure();
  }
  const at::NoGradGuard no_grad;
  const Weights& w = network_->weights;
  const bool shared = ranks_ && ranks_->whole();
  std::vector<float> filled(static_cast<size_t>(batch.tokens()), 0.0f);
  const std::vector<std::vector<int64_t>> parts = batch.micro_batches();
  std::optional<ReadWeights> reading(network_->gate);
  for (const std::vector<int64_t>& part : shared ? share_of(parts, ranks_->rank(), ranks_->size()) : parts) {
    lease->hold([&] {
      const Pass pass = make_pass(batch, part, w);
      const at::Tensor hidden_NC = hidden_states(w, pass.sequences).index_select(0, pass.rows_N);
      const at::Tensor out_N =
          value ? values(w, hidden_NC)
                : score_tokens(hidden_NC, w.vocabulary_weight(), pass.targets_N, batch.temperature()).logp_N;
      scatter(out_N, pass.places, filled);
    });
  }
  reading.reset();
  if (shared) {
    if (const Status summed = sum_parts(*ranks_, filled); !summed) {
      return summed;
    }
  }
  batch.column(column) = std::move(filled);
  return ok();
}

Status Trainer::check_tokens(const Batch& batch) const {
  const ModelConfig& c = network_->weights.config;
  for (int64_t i = 0; i < batch.trajectories(); ++i) {
    if (batch.end(i) - batch.begin(i) > c.positions + 1) {
      return Failure{"trajectory " + std::to_string(i + 1) + " has " + std::to_string(batch.end(i) - batch.begin(i)) +
                         " tokens, the model reads at most " + std::to_string(c.positions),
                     "limit"};
    }
  }
  for (const int32_t id : batch.ids()) {
    if (id < 0 || id >= c.vocabulary) {
      return bad("token " + std::to_string(id) + " is outside the vocabulary of " + std::to_string(c.vocabulary));
    }
  }
  return ok();
}

Result<Metrics> Trainer::evaluate(const Batch& batch) {
  Batch scored = batch;
  if (role_ == Role::actor) {
    if (const Status filled = fill(scored, Column::old_logp); !filled) {
      return filled.failure();
    }
    double nll = 0;
    for (const float logp : scored.action_column(Column::old_logp)) {
      nll -= logp;
    }
    return Metrics{{"nll", nll / static_cast<double>(std::max<int64_t>(batch.actions(), 1))}};
  }
  if (const Status filled = fill(scored, Column::values); !filled) {
    return filled.failure();
  }
  if (!scored.has(Column::returns)) {
    AdvantageOptions monte_carlo;
    monte_carlo.lambda = 1;
    monte_carlo.whiten = Whitening::none;
    if (const Result<Metrics> made = fill_advantages(scored, monte_carlo); !made) {
      return made.failure();
    }
  }
  Metrics metrics = batch_metrics(scored);
  const std::vector<float> value = scored.action_column(Column::values);
  const std::vector<float> target = scored.action_column(Column::returns);
  const std::vector<float> weight = token_weights(scored, Aggregate::seq_mean_token_mean, 1);
  double loss = 0;
  for (size_t i = 0; i < value.size(); ++i) {
    loss += static_cast<double>(0.5f * (value[i] - target[i]) * (value[i] - target[i])) * weight[i];
  }
  metrics["value_loss"] = loss;
  return metrics;
}

}  // namespace khost::trainer
