// Lua face of trainer/learn/batch.h: packs of trajectories and what is filled into them.
#include "trainer/learn/batch.h"

#include "host/modules/modules.h"
#include "host/modules/trainer_types.h"

namespace khost::lua {

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
    return static_cast<trainer::Whitening>(word_at(L, i, {"none", "center", "full"}));
  }
};

template <>
struct Codec<trainer::AdvantageSource> {
  static trainer::AdvantageSource get(lua_State* L, int i) {
    return static_cast<trainer::AdvantageSource>(word_at(L, i, {"gae", "group"}));
  }
};

template <>
struct Codec<trainer::GroupCenter> {
  static trainer::GroupCenter get(lua_State* L, int i) {
    return static_cast<trainer::GroupCenter>(word_at(L, i, {"mean", "leave_one_out"}));
  }
};

template <>
struct Codec<trainer::GroupScale> {
  static trainer::GroupScale get(lua_State* L, int i) {
    return static_cast<trainer::GroupScale>(word_at(L, i, {"none", "std"}));
  }
};

constexpr auto fields(Tag<trainer::AdvantageOptions>) {
  using Options = trainer::AdvantageOptions;
  return std::tuple(field("source", &Options::source), field("gamma", &Options::gamma),
                    field("lambda", &Options::lambda), field("lambda_critic", &Options::lambda_critic),
                    field("lambda_turn", &Options::lambda_turn), field("adaptive_alpha", &Options::adaptive_alpha),
                    field("whiten", &Options::whiten), field("whiten_floor", &Options::whiten_floor),
                    field("center", &Options::center), field("scale", &Options::scale));
}

constexpr auto fields(Tag<trainer::PackOptions>) {
  return std::tuple(field("tokens", &trainer::PackOptions::tokens),
                    field("temperature", &trainer::PackOptions::temperature));
}

namespace {

struct SplitTable {
  double seed = 0;
};
constexpr auto fields(Tag<SplitTable>) {
  return std::tuple(field("seed", &SplitTable::seed));
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

// Blocks while it waits for other ranks, where there are any.
Result<trainer::Metrics> batch_advantages(BatchPtr batch, trainer::AdvantageOptions options) {
  Result<trainer::Metrics> filled = trainer::fill_advantages(*batch, options);
  return !filled && filled.failure().code == "bad_input" ? must(std::move(filled)) : filled;
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

trainer::Metrics batch_metrics(BatchPtr batch) {
  return trainer::batch_metrics(*batch);
}

std::optional<std::vector<float>> batch_column(BatchPtr batch, std::string name) {
  const trainer::Column column = parse_column(name);
  return batch->has(column) ? std::optional(batch->column(column)) : std::nullopt;
}

}  // namespace

void add_batch(lua_State* L) {
  add_class<trainer::Batch>(L, {def<batch_fill>("fill"), def<batch_advantages>("advantages"), raw("split", batch_split),
                                def<batch_select>("select"), def<batch_evaluate>("evaluate"),
                                def<batch_metrics>("metrics"), def<batch_column>("column")});
}

Definition pack_function() {
  return def<pack>("pack");
}

}  // namespace khost::lua
