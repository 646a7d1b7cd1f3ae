// Lua face of trainer/trainer.h: batches, advantages, objectives and updates.
#include "trainer/trainer.h"

#include "host/modules/modules.h"
#include "host/modules/trainer_types.h"

namespace khost::lua {

using BatchPtr = std::shared_ptr<trainer::Batch>;
using ObjectivePtr = std::shared_ptr<trainer::Objective>;

// Masks are lists of 0 and 1 or of booleans.
struct Flag {
  uint8_t value;
};
template <>
struct Codec<Flag> {
  static Flag get(lua_State* L, int i) {
    if (lua_isboolean(L, i)) {
      return {static_cast<uint8_t>(lua_toboolean(L, i))};
    }
    const auto value = Codec<int64_t>::get(L, i);
    if (value != 0 && value != 1) {
      throw ArgError("a mask holds 0, 1 or booleans, got " + std::to_string(value));
    }
    return {static_cast<uint8_t>(value)};
  }
};

// An episode has many more fields; only these are read.
template <>
struct Codec<trainer::Episode> {
  static trainer::Episode get(lua_State* L, int i) {
    if (!lua_istable(L, i)) {
      raise_expected(L, i, "episode");
    }
    trainer::Episode episode;
    episode.tokens = read<std::vector<int32_t>>(L, i, "tokens");
    for (const Flag flag : read<std::vector<Flag>>(L, i, "mask")) {
      episode.mask.push_back(flag.value);
    }
    episode.logprobs = read<std::optional<std::vector<float>>>(L, i, "logprobs").value_or(std::vector<float>());
    episode.reward = read<double>(L, i, "reward");
    episode.group = read<std::optional<int64_t>>(L, i, "group").value_or(-1);
    return episode;
  }

 private:
  template <class T>
  static T read(lua_State* L, int i, const char* name) {
    lua_getfield(L, i, name);
    try {
      T value = Codec<T>::get(L, lua_gettop(L));
      lua_pop(L, 1);
      return value;
    } catch (const ArgError& error) {
      throw ArgError(std::string(name) + ": " + error.what());
    }
  }
};

// Where a column comes from: a network, or the numbers of the sampler.
struct FillSource {
  TrainerPtr network;
  std::string name;
};
template <>
struct Codec<FillSource> {
  static FillSource get(lua_State* L, int i) {
    if (lua_type(L, i) == LUA_TSTRING) {
      return {nullptr, lua_tostring(L, i)};
    }
    return {Codec<TrainerPtr>::get(L, i), ""};
  }
};

template <>
struct Codec<trainer::Whitening> {
  static trainer::Whitening get(lua_State* L, int i) {
    if (lua_isboolean(L, i)) {
      return lua_toboolean(L, i) ? trainer::Whitening::full : trainer::Whitening::none;
    }
    const std::string name = lua_type(L, i) == LUA_TSTRING ? lua_tostring(L, i) : "";
    if (name == "full" || name == "center" || name == "none") {
      return name == "full" ? trainer::Whitening::full : (name == "center" ? trainer::Whitening::center : trainer::Whitening::none);
    }
    raise_expected(L, i, "boolean or \"full\", \"center\", \"none\"");
  }
};

constexpr auto fields(Tag<trainer::StepOptions>) {
  return std::tuple(field("lr", &trainer::StepOptions::lr), field("max_norm", &trainer::StepOptions::max_norm));
}
constexpr auto fields(Tag<trainer::PackOptions>) {
  return std::tuple(field("tokens", &trainer::PackOptions::tokens),
                    field("temperature", &trainer::PackOptions::temperature));
}

namespace {

struct AdvantageTable {
  std::string source = "gae";
  double gamma = 1;
  double lambda = 0.95;
  std::optional<double> lambda_critic;
  double adaptive_alpha = 0;
  trainer::Whitening whiten = trainer::Whitening::full;
};
constexpr auto fields(Tag<AdvantageTable>) {
  return std::tuple(field("source", &AdvantageTable::source), field("gamma", &AdvantageTable::gamma),
                    field("lambda", &AdvantageTable::lambda), field("lambda_critic", &AdvantageTable::lambda_critic),
                    field("adaptive_alpha", &AdvantageTable::adaptive_alpha),
                    field("whiten", &AdvantageTable::whiten));
}

struct SplitTable {
  double seed = 0;
};
constexpr auto fields(Tag<SplitTable>) { return std::tuple(field("seed", &SplitTable::seed)); }

struct RftTable {
  std::string reduce = "sum";
  double entropy = 0;
};
constexpr auto fields(Tag<RftTable>) {
  return std::tuple(field("reduce", &RftTable::reduce), field("entropy", &RftTable::entropy));
}

struct ValueTable {
  double clip = 0;
  std::string aggregate = "seq-mean-token-mean";
};
constexpr auto fields(Tag<ValueTable>) {
  return std::tuple(field("clip", &ValueTable::clip), field("aggregate", &ValueTable::aggregate));
}

struct PpoTable {
  double clip_low = 0.2;
  double clip_high = 0.28;
  double dual_clip = 0;
  double kl = 0;
  double entropy = 0;
  double importance_cap = 0;
  double horizon = 1;
  std::string aggregate = "seq-mean-token-mean";
};
constexpr auto fields(Tag<PpoTable>) {
  return std::tuple(field("clip_low", &PpoTable::clip_low), field("clip_high", &PpoTable::clip_high),
                    field("dual_clip", &PpoTable::dual_clip), field("kl", &PpoTable::kl),
                    field("entropy", &PpoTable::entropy), field("importance_cap", &PpoTable::importance_cap),
                    field("horizon", &PpoTable::horizon), field("aggregate", &PpoTable::aggregate));
}

struct TokenizerTable {
  int32_t vocab = 512;
  std::vector<std::string> specials;
};
constexpr auto fields(Tag<TokenizerTable>) {
  return std::tuple(field("vocab", &TokenizerTable::vocab), field("specials", &TokenizerTable::specials));
}

// Misuse: what a right program never does raises at its line.
template <class T>
T must(Result<T> result) {
  if (!result) {
    throw ArgError(result.failure().message);
  }
  return std::move(result).value();
}

ObjectivePtr rft(RftTable table) {
  trainer::Objective objective{.kind = trainer::ObjectiveKind::rft};
  objective.aggregate = table.reduce == "sum" ? trainer::Aggregate::seq_mean_token_sum : must(trainer::parse_aggregate(table.reduce));
  objective.entropy = table.entropy;
  return std::make_shared<trainer::Objective>(objective);
}

ObjectivePtr value(ValueTable table) {
  trainer::Objective objective{.kind = trainer::ObjectiveKind::value};
  objective.aggregate = must(trainer::parse_aggregate(table.aggregate));
  objective.value_clip = table.clip;
  return std::make_shared<trainer::Objective>(objective);
}

ObjectivePtr ppo(PpoTable table) {
  trainer::Objective objective{.kind = trainer::ObjectiveKind::ppo};
  objective.aggregate = must(trainer::parse_aggregate(table.aggregate));
  objective.clip_low = table.clip_low;
  objective.clip_high = table.clip_high;
  objective.dual_clip = table.dual_clip;
  objective.kl = table.kl;
  objective.entropy = table.entropy;
  objective.importance_cap = table.importance_cap;
  objective.horizon = table.horizon;
  return std::make_shared<trainer::Objective>(objective);
}

BatchPtr pack(std::vector<trainer::Episode> episodes, trainer::PackOptions options) {
  return std::make_shared<trainer::Batch>(must(trainer::Batch::pack(episodes, options)));
}

trainer::Column parse_column(const std::string& name) {
  for (int c = 0; c < trainer::kColumns; ++c) {
    if (name == trainer::column_name(static_cast<trainer::Column>(c))) {
      return static_cast<trainer::Column>(c);
    }
  }
  throw ArgError("unknown column '" + name + "', expected old_logp, ref_logp, values or another of a batch");
}

void batch_fill(Resume<std::monostate> done, lua_State* L, BatchPtr batch, std::string name, FillSource source) {
  const trainer::Column column = parse_column(name);
  if (source.network) {
    in_pool(L, done, [batch, column, source] { return source.network->fill(*batch, column); });
    return;
  }
  if (source.name != "sampler" || column != trainer::Column::old_logp) {
    throw ArgError("argument 3: expected a Trainer, or \"sampler\" for old_logp");
  }
  if (!batch->has(trainer::Column::sampler_logp)) {
    throw ArgError("the batch has no log-probs of the sampler: pack episodes with logprobs");
  }
  batch->column(column) = batch->column(trainer::Column::sampler_logp);
  done(std::monostate{});
}

trainer::Metrics batch_advantages(BatchPtr batch, AdvantageTable table) {
  trainer::AdvantageOptions options;
  if (table.source != "gae" && table.source != "group") {
    throw ArgError("source: expected \"gae\" or \"group\", got '" + table.source + "'");
  }
  options.source = table.source == "gae" ? trainer::AdvantageSource::gae : trainer::AdvantageSource::group;
  options.gamma = table.gamma;
  options.lambda = table.lambda;
  options.lambda_critic = table.lambda_critic;
  options.adaptive_alpha = table.adaptive_alpha;
  options.whiten = table.whiten;
  return must(trainer::fill_advantages(*batch, options));
}

// Upvalues: list of parts, position.
int next_part(lua_State* L) {
  const auto position = static_cast<int>(lua_tointeger(L, lua_upvalueindex(2))) + 1;
  lua_pushinteger(L, position);
  lua_replace(L, lua_upvalueindex(2));
  lua_rawgeti(L, lua_upvalueindex(1), position);
  return 1;
}

int batch_split(lua_State* L) {
  return guarded(L, 1, [L] {
    const auto batch = argument<BatchPtr>(L, 1);
    const int64_t trajectories = argument<std::optional<int64_t>>(L, 2).value_or(0);
    const int64_t epochs = argument<std::optional<int64_t>>(L, 3).value_or(1);
    const auto table = argument<SplitTable>(L, 4);
    std::vector<BatchPtr> parts;
    for (trainer::Batch& part : batch->split(trajectories, epochs, static_cast<uint64_t>(table.seed))) {
      parts.push_back(std::make_shared<trainer::Batch>(std::move(part)));
    }
    Codec<std::vector<BatchPtr>>::push(L, parts);
    lua_pushinteger(L, 0);
    lua_pushcclosure(L, next_part, 2);
    return 1;
  });
}

BatchPtr batch_select(BatchPtr batch, std::vector<int64_t> trajectories) {
  for (int64_t& index : trajectories) {
    if (index < 1 || index > batch->trajectories()) {
      throw ArgError("trajectory " + std::to_string(index) + " is not in the batch of " +
                     std::to_string(batch->trajectories()));
    }
    --index;
  }
  return std::make_shared<trainer::Batch>(batch->select(trajectories));
}

void batch_evaluate(Resume<trainer::Metrics> done, lua_State* L, BatchPtr batch, TrainerPtr network) {
  in_pool(L, done, [batch, network] { return network->evaluate(*batch); });
}

trainer::Metrics batch_metrics(BatchPtr batch) { return trainer::batch_metrics(*batch); }

std::optional<std::vector<float>> batch_column(BatchPtr batch, std::string name) {
  const trainer::Column column = parse_column(name);
  return batch->has(column) ? std::optional(batch->column(column)) : std::nullopt;
}

void trainer_open(Resume<TrainerPtr> done, lua_State* L, OpenTable table) {
  in_pool(L, done, [table = std::move(table), lease = host_of(L).lease_path()] { return open_from_table(table, lease); });
}

PolicyPtr trainer_policy(TrainerPtr self) { return must(self->policy()); }
TrainerPtr trainer_critic(TrainerPtr self) { return self->critic(); }
TokenizerPtr trainer_tokenizer(TrainerPtr self) { return self->tokenizer(); }

void trainer_update(Resume<trainer::Metrics> done, lua_State* L, TrainerPtr self, BatchPtr batch, ObjectivePtr objective,
                    trainer::StepOptions options) {
  if (options.lr <= 0) {
    throw ArgError("lr: expected above 0");
  }
  in_pool(L, done, [=] { return self->update(*batch, *objective, options); });
}

void trainer_save(Resume<std::monostate> done, lua_State* L, TrainerPtr self, std::string directory,
                  std::optional<Json> note) {
  in_pool(L, done, [=] { return self->save(directory, note.value_or(Json())); });
}

void trainer_load(Resume<Json> done, lua_State* L, TrainerPtr self, std::string directory) {
  in_pool(L, done, [=]() -> Result<Json> {
    Result<Json> note = self->load(directory);
    return note && note->is_null() ? Result<Json>(Json(true)) : note;
  });
}

struct TrainerStats {
  std::string role;
  int64_t step = 0;
  int64_t parameters = 0;
};
constexpr auto fields(Tag<TrainerStats>) {
  return std::tuple(field("role", &TrainerStats::role), field("step", &TrainerStats::step),
                    field("parameters", &TrainerStats::parameters));
}

TrainerStats trainer_stats(TrainerPtr self) {
  return {self->role() == trainer::Role::actor ? "actor" : "critic", self->steps(), self->parameters()};
}

void train_tokenizer(Resume<TokenizerPtr> done, lua_State* L, std::vector<std::string> texts, TokenizerTable table) {
  in_pool(L, done, [texts = std::move(texts), table]() -> Result<TokenizerPtr> {
    Result<trainer::Tokenizer> made = trainer::train_tokenizer(texts, {table.vocab, table.specials});
    if (!made) {
      return made.failure();
    }
    return TokenizerPtr(std::make_shared<const trainer::Tokenizer>(std::move(made).value()));
  });
}

Result<TokenizerPtr> load_tokenizer(std::string path) { return TokenizerChoice{nullptr, path}.open(); }

}  // namespace

void add_trainer(lua_State* L) {
  add_policy_classes(L);
  add_class<trainer::Objective>(L, {});
  add_class<trainer::Batch>(
      L, {def<batch_fill>("fill"), def<batch_advantages>("advantages"), raw("split", batch_split),
          def<batch_select>("select"), def<batch_evaluate>("evaluate"), def<batch_metrics>("metrics"),
          def<batch_column>("column")});
  add_class<trainer::Trainer>(
      L, {def<trainer_policy>("policy"), def<trainer_critic>("critic"), def<trainer_tokenizer>("tokenizer"),
          def<trainer_update>("update"), def<trainer_save>("save"), def<trainer_load>("load"),
          def<trainer_stats>("stats")});
  lua_newtable(L);
  add(L, {def<trainer_open>("open"), def<pack>("pack"), def<rft>("rft"), def<value>("value"), def<ppo>("ppo"),
          def<train_tokenizer>("train_tokenizer"), def<load_tokenizer>("tokenizer")});
}

}  // namespace khost::lua

namespace khost::modules {

void open_trainer(lua_State* L) { lua::add_trainer(L); }

}  // namespace khost::modules
