// Lua face of trainer/trainer.h: networks, objectives and updates.
#include "trainer/trainer.h"

#include <atomic>
#include <cstdlib>

#include "host/modules/modules.h"
#include "host/modules/trainer_types.h"
#include "trainer/learn/ranks.h"
#include "trainer/model/gguf_model.h"

namespace khost::lua {

template <>
struct Codec<trainer::RateRule> {
  static trainer::RateRule get(lua_State* L, int i) {
    return static_cast<trainer::RateRule>(word_at(L, i, {"constant", "linear", "cosine"}));
  }
};

template <>
struct Codec<trainer::Aggregate> {
  static trainer::Aggregate get(lua_State* L, int i) {
    return must(trainer::parse_aggregate(Codec<std::string>::get(L, i)));
  }
};

constexpr auto fields(Tag<trainer::StepOptions>) {
  using Options = trainer::StepOptions;
  return std::tuple(field("lr", &Options::lr), field("max_norm", &Options::max_norm), field("warmup", &Options::warmup),
                    field("rule", &Options::rule), field("steps", &Options::steps), field("floor", &Options::floor));
}

namespace {

struct RftTable {
  std::string reduce = "sum";
  double entropy = 0;
};
constexpr auto fields(Tag<RftTable>) {
  return std::tuple(field("reduce", &RftTable::reduce), field("entropy", &RftTable::entropy));
}

// Of trainer::Objective what each objective has, with the defaults that it declares.
struct ValueTable : trainer::Objective {};
constexpr auto fields(Tag<ValueTable>) {
  using Options = trainer::Objective;
  return std::tuple(field("clip", &Options::value_clip), field("aggregate", &Options::aggregate));
}

struct PpoTable : trainer::Objective {};
constexpr auto fields(Tag<PpoTable>) {
  using Options = trainer::Objective;
  return std::tuple(field("clip_low", &Options::clip_low), field("clip_high", &Options::clip_high),
                    field("dual_clip", &Options::dual_clip), field("kl", &Options::kl),
                    field("entropy", &Options::entropy), field("importance_cap", &Options::importance_cap),
                    field("horizon", &Options::horizon), field("aggregate", &Options::aggregate));
}

struct TokenizerTable {
  int32_t vocab = 512;
  std::vector<std::string> specials;
};
constexpr auto fields(Tag<TokenizerTable>) {
  return std::tuple(field("vocab", &TokenizerTable::vocab), field("specials", &TokenizerTable::specials));
}

ObjectivePtr rft(RftTable table) {
  trainer::Objective objective{.kind = trainer::ObjectiveKind::rft};
  objective.aggregate =
      table.reduce == "sum" ? trainer::Aggregate::seq_mean_token_sum : must(trainer::parse_aggregate(table.reduce));
  objective.entropy = table.entropy;
  return std::make_shared<trainer::Objective>(objective);
}

ObjectivePtr value(ValueTable table) {
  table.kind = trainer::ObjectiveKind::value;
  return std::make_shared<trainer::Objective>(table);
}

ObjectivePtr ppo(PpoTable table) {
  return std::make_shared<trainer::Objective>(table);
}

void trainer_open(Resume<TrainerPtr> done, lua_State* L, OpenTable table) {
  in_pool(L, done,
          [table = std::move(table), lease = host_of(L).lease_path()] { return open_from_table(table, lease); });
}

PolicyPtr trainer_policy(TrainerPtr self) {
  return must(self->policy());
}
TrainerPtr trainer_critic(TrainerPtr self) {
  return self->critic();
}
TokenizerPtr trainer_tokenizer(TrainerPtr self) {
  return self->tokenizer();
}

void trainer_update(Resume<trainer::Metrics> done, lua_State* L, TrainerPtr self, BatchPtr batch,
                    ObjectivePtr objective, trainer::StepOptions options) {
  if (options.lr <= 0) {
    throw ArgError("lr: expected above 0");
  }
  if (options.rule != trainer::RateRule::constant && options.steps <= options.warmup) {
    throw ArgError("steps: expected above warmup for this rule");
  }
  in_pool(L, done, [=] { return self->update(*batch, *objective, options); });
}

// Whether a checkpoint has the optimizer's moments.
struct CheckpointTable {
  bool optimizer = true;
};
constexpr auto fields(Tag<CheckpointTable>) {
  return std::tuple(field("optimizer", &CheckpointTable::optimizer));
}

void trainer_save(Resume<std::monostate> done, lua_State* L, TrainerPtr self, std::string directory,
                  std::optional<Json> note, CheckpointTable options) {
  in_pool(L, done, [=] { return self->save(directory, note.value_or(Json()), options.optimizer); });
}

void trainer_load(Resume<Json> done, lua_State* L, TrainerPtr self, std::string directory, CheckpointTable options) {
  in_pool(L, done, [=]() -> Result<Json> {
    Result<Json> note = self->load(directory, options.optimizer);
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

struct RanksTable {
  int rank = 0;
  int size = 1;
};
constexpr auto fields(Tag<RanksTable>) {
  return std::tuple(field("rank", &RanksTable::rank), field("size", &RanksTable::size));
}

// What a script says of the ranks; where it gives no `size`, the environment says it.
struct RanksGiven {
  bool whole = false;
  int rank = 0;
  int size = 0;
  int port = 0;
};
constexpr auto fields(Tag<RanksGiven>) {
  return std::tuple(field("whole", &RanksGiven::whole), field("rank", &RanksGiven::rank),
                    field("size", &RanksGiven::size), field("port", &RanksGiven::port));
}

constexpr double kMeetHere_s = 60;  // processes of one machine, which begin together

Result<trainer::RanksOptions> options_of(const RanksGiven& given) {
  Result<trainer::RanksOptions> options = trainer::RanksOptions{};
  if (given.size == 0) {
    options = trainer::read_ranks([](const char* name) -> std::string {
      const char* value = std::getenv(name);
      return value == nullptr ? "" : value;
    });
  }
  if (!options) {
    return options;
  }
  options->whole = given.whole;
  if (given.size > 0) {
    if (given.rank < 0 || given.rank >= given.size || given.port < 1 || given.port > 65535) {
      throw ArgError("ranks: a rank from 0 to below size and a port are expected");
    }
    options->rank = options->local_rank = given.rank;
    options->size = given.size;
    options->port = given.port;
    options->meeting_s = kMeetHere_s;
  }
  return options;
}

void join_ranks(Resume<RanksTable> done, lua_State* L, RanksGiven given) {
  if (const std::shared_ptr<trainer::Ranks> ranks = trainer::Ranks::current()) {
    done(RanksTable{ranks->rank(), ranks->size()});
    return;
  }
  Result<trainer::RanksOptions> options = options_of(given);
  if (!options) {
    done.fail(options.failure());
    return;
  }
  if (options->size > 1) {
    trainer::see_own_card(options->local_rank);
  }
  auto given_up = std::make_shared<std::atomic<bool>>(false);
  done.on_cancel([given_up] { *given_up = true; });
  in_pool(L, done, [given = *options, given_up]() -> Result<RanksTable> {
    if (given.size > 1) {
      Result<std::shared_ptr<trainer::Ranks>> ranks = trainer::Ranks::join(given, *given_up);
      if (!ranks) {
        return ranks.failure();
      }
      trainer::Ranks::set_current(*ranks);
    }
    return RanksTable{given.rank, given.size};
  });
}

void tell(Resume<std::string> done, lua_State* L, std::optional<std::string> text) {
  in_pool(L, done, [text = text.value_or("")]() mutable -> Result<std::string> {
    if (const std::shared_ptr<trainer::Ranks> ranks = trainer::Ranks::current()) {
      if (const Status told = ranks->tell(text); !told) {
        return told.failure();
      }
    }
    return std::move(text);
  });
}

int free_port() {
  return must(trainer::free_port());
}

void convert_gguf(Resume<std::monostate> done, lua_State* L, std::string path, std::string directory) {
  in_pool(L, done, [=] { return trainer::convert_gguf(path, directory); });
}

Result<TokenizerPtr> load_tokenizer(std::string path) {
  return TokenizerChoice{nullptr, path}.open();
}

}  // namespace

void add_trainer(lua_State* L) {
  add_policy_classes(L);
  add_class<trainer::Objective>(L, {});
  add_batch(L);
  add_class<trainer::Trainer>(
      L, {def<trainer_policy>("policy"), def<trainer_critic>("critic"), def<trainer_tokenizer>("tokenizer"),
          def<trainer_update>("update"), def<trainer_save>("save"), def<trainer_load>("load"),
          def<trainer_stats>("stats"), def<close_handle<trainer::Trainer>>("close")});
  lua_newtable(L);
  add(L, {def<trainer_open>("open"), pack_function(), def<rft>("rft"), def<value>("value"), def<ppo>("ppo"),
          def<train_tokenizer>("train_tokenizer"), def<load_tokenizer>("tokenizer"), def<join_ranks>("ranks"),
          def<tell>("tell"), def<free_port>("free_port"), def<convert_gguf>("convert_gguf")});
}

}  // namespace khost::lua

namespace khost::modules {

void khost_open_trainer(lua_State* L) {
  lua::add_trainer(L);
}

}  // namespace khost::modules
