// Lua face of trainer/learn/batch.h: packs of trajectories and what is filled into them.
#include "trainer/learn/batch.h"

#include <initializer_list>

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
    const std::string name = lua_type(L, i) == LUA_TSTRING ? lua_tostring(L, i) : "";
    if (name == "full" || name == "center" || name == "none") {
      return name == "full" ? trainer::Whitening::full
                            : (name == "center" ? trainer::Whitening::center : trainer::Whitening::none);
    }
    raise_expected(L, i, "boolean or \"full\", \"center\", \"none\"");
  }
};

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
  double whiten_floor = 0;
  std::string center = "mean";
  std::string scale = "none";
};
constexpr auto fields(Tag<AdvantageTable>) {
  return std::tuple(field("source", &AdvantageTable::source), field("gamma", &AdvantageTable::gamma),
                    field("lambda", &AdvantageTable::lambda), field("lambda_critic", &AdvantageTable::lambda_critic),
                    field("adaptive_alpha", &AdvantageTable::adaptive_alpha), field("whiten", &AdvantageTable::whiten),
                    field("whiten_floor", &AdvantageTable::whiten_floor), field("center", &AdvantageTable::center),
                    field("scale", &AdvantageTable::scale));
}

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

// One of a fixed set of words, as its place among them.
size_t choose(const char* key, const std::string& word, std::initializer_list<const char*> words) {
  std::string all;
  size_t place = 0;
  for (const char* known : words) {
    if (word == known) {
      return place;
    }
    all += (place++ == 0 ? "\"" : ", \"") + std::string(known) + "\"";
  }
  throw ArgError(std::string(key) + ": expected one of " + all + ", got '" + word + "'");
}

// Blocks while it waits for other ranks, where there are any.
Result<trainer::Metrics> batch_advantages(BatchPtr batch, AdvantageTable table) {
  trainer::AdvantageOptions options;
  options.source = static_cast<trainer::AdvantageSource>(choose("source", table.source, {"gae", "group"}));
  options.center = static_cast<trainer::GroupCenter>(choose("center", table.center, {"mean", "leave_one_out"}));
  options.scale = static_cast<trainer::GroupScale>(choose("scale", table.scale, {"none", "std"}));
  options.gamma = table.gamma;
  options.lambda = table.lambda;
  options.lambda_critic = table.lambda_critic;
  options.adaptive_alpha = table.adaptive_alpha;
  options.whiten = table.whiten;
  options.whiten_floor = table.whiten_floor;
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
