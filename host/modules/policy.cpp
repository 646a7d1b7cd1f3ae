// Lua face of trainer/policy.h: generation, log-probs and the tokenizer.
#include "trainer/policy.h"

#include <mutex>

#include "host/modules/modules.h"
#include "host/modules/trainer_types.h"

namespace khost::lua {

// A prompt as ids or as text.
struct Prompt {
  std::vector<int32_t> tokens;
  std::optional<std::string> text;
};

template <>
struct Codec<Prompt> {
  static Prompt get(lua_State* L, int i) {
    if (lua_type(L, i) == LUA_TSTRING) {
      return {{}, Codec<std::string>::get(L, i)};
    }
    return {Codec<std::vector<int32_t>>::get(L, i), std::nullopt};
  }
};

// Where a sequence ends: a token by its id, a special token by its text, or any other text.
struct Stop {
  int32_t id = -1;
  std::string text;
};

template <>
struct Codec<Stop> {
  static Stop get(lua_State* L, int i) {
    if (lua_type(L, i) == LUA_TSTRING) {
      return {-1, lua_tostring(L, i)};
    }
    return {Codec<int32_t>::get(L, i), ""};
  }
};

namespace {

struct GenerateTable {
  int64_t max_tokens = 256;
  double temperature = 1;
  std::optional<double> seed;
  std::optional<std::vector<Stop>> stop;
  bool special = false;
  int64_t top_k = 0;
  double top_p = 1;
};
constexpr auto fields(Tag<GenerateTable>) {
  return std::tuple(field("max_tokens", &GenerateTable::max_tokens), field("temperature", &GenerateTable::temperature),
                    field("seed", &GenerateTable::seed), field("stop", &GenerateTable::stop),
                    field("special", &GenerateTable::special), field("top_k", &GenerateTable::top_k),
                    field("top_p", &GenerateTable::top_p));
}

struct SpecialTable {
  bool special = false;
};
constexpr auto fields(Tag<SpecialTable>) {
  return std::tuple(field("special", &SpecialTable::special));
}

struct LogprobsTable {
  double temperature = 1;
};
constexpr auto fields(Tag<LogprobsTable>) {
  return std::tuple(field("temperature", &LogprobsTable::temperature));
}

struct CompletionTable {
  std::optional<std::string> text;
  std::vector<int32_t> tokens;
  std::vector<float> logprobs;
  std::string finish;
  uint64_t version = 0;
};
constexpr auto fields(Tag<CompletionTable>) {
  return std::tuple(field("text", &CompletionTable::text), field("tokens", &CompletionTable::tokens),
                    field("logprobs", &CompletionTable::logprobs), field("finish", &CompletionTable::finish),
                    field("version", &CompletionTable::version));
}

trainer::Special special_of(bool parse) {
  return parse ? trainer::Special::parse : trainer::Special::plain;
}

const trainer::Tokenizer& tokenizer_of(const PolicyPtr& policy) {
  if (policy->tokenizer() == nullptr) {
    throw ArgError("this policy has no tokenizer: open it with tokenizer = path or object");
  }
  return *policy->tokenizer();
}

trainer::GenerateOptions read_options(const PolicyPtr& policy, const GenerateTable& table) {
  trainer::GenerateOptions options;
  options.max_tokens = table.max_tokens;
  options.temperature = table.temperature;
  options.top_k = table.top_k;
  options.top_p = table.top_p;
  options.seed = table.seed ? static_cast<uint64_t>(*table.seed) : policy->next_seed();
  if (table.temperature < 0) {
    throw ArgError("temperature: expected at least 0");
  }
  if (table.top_k < 0) {
    throw ArgError("top_k: expected at least 0");
  }
  if (!(table.top_p > 0) || table.top_p > 1) {
    throw ArgError("top_p: expected above 0 and at most 1");
  }
  if (!table.stop) {
    options.stop.assign(policy->end_tokens().begin(), policy->end_tokens().end());
  }
  for (const Stop& stop : table.stop.value_or(std::vector<Stop>())) {
    const int32_t id = stop.text.empty() ? stop.id : tokenizer_of(policy).special_id(stop.text);
    if (id >= 0) {
      options.stop.push_back(id);
    } else if (!stop.text.empty()) {
      options.stop_texts.push_back(stop.text);
    } else {
      throw ArgError("stop: expected ids of tokens from 0, or texts that are not empty");
    }
  }
  return options;
}

std::vector<int32_t> read_prompt(const PolicyPtr& policy, Prompt prompt, bool special) {
  return prompt.text ? tokenizer_of(policy).encode(*prompt.text, special_of(special)) : std::move(prompt.tokens);
}

CompletionTable to_table(const PolicyPtr& policy, trainer::Completion completion) {
  CompletionTable table;
  if (policy->tokenizer() != nullptr) {
    table.text = policy->tokenizer()->decode(completion.tokens, trainer::Special::plain);
    if (completion.text_bytes >= 0) {
      table.text->resize(static_cast<size_t>(completion.text_bytes));
    }
  }
  table.tokens = std::move(completion.tokens);
  table.logprobs = std::move(completion.logprobs);
  table.finish = std::move(completion.finish);
  table.version = completion.version;
  return table;
}

// The members of one call, gathered as the engine answers. A cancelled call gives up its right to answer at once, so
// that nothing of the VM outlives it in the engine.
template <class R>
struct Gathering {
  std::mutex mutex;
  std::optional<Resume<R>> done;
  std::vector<CompletionTable> completions;
  size_t missing = 0;
  std::vector<uint64_t> requests;
};

template <class R, class Finish>
void generate_many(Resume<R> done, const PolicyPtr& policy, const std::vector<int32_t>& prompt,
                   const trainer::GenerateOptions& options, size_t count, Finish finish) {
  auto gathering = std::make_shared<Gathering<R>>();
  gathering->done = done;
  gathering->completions.resize(count);
  gathering->missing = count;
  // The engine may answer before the last request is in: `requests` is only read on the VM's thread.
  trainer::RandomStream seeds{options.seed};
  for (size_t i = 0; i < count; ++i) {
    trainer::GenerateOptions own = options;
    own.seed = count == 1 ? options.seed : seeds.next();
    const uint64_t id =
        policy->generate(prompt, own, [gathering, policy, finish, i](Result<trainer::Completion> result) {
          const std::lock_guard lock(gathering->mutex);
          if (!gathering->done) {
            return;
          }
          if (!result) {
            gathering->done->fail(result.failure());
            gathering->done.reset();
            return;
          }
          gathering->completions[i] = to_table(policy, std::move(result).value());
          if (--gathering->missing == 0) {
            (*gathering->done)(finish(std::move(gathering->completions)));
            gathering->done.reset();
          }
        });
    gathering->requests.push_back(id);
  }
  done.on_cancel([gathering, policy] {
    for (const uint64_t id : gathering->requests) {
      policy->cancel(id);
    }
    const std::lock_guard lock(gathering->mutex);
    gathering->done.reset();
  });
}

void generate(Resume<CompletionTable> done, PolicyPtr policy, Prompt prompt, GenerateTable table) {
  generate_many(done, policy, read_prompt(policy, std::move(prompt), table.special), read_options(policy, table), 1,
                [](std::vector<CompletionTable> all) { return std::move(all[0]); });
}

void generate_group(Resume<std::vector<CompletionTable>> done, PolicyPtr policy, Prompt prompt, int64_t count,
                    GenerateTable table) {
  if (count < 1) {
    throw ArgError("argument 3: expected at least 1");
  }
  generate_many(done, policy, read_prompt(policy, std::move(prompt), table.special), read_options(policy, table),
                static_cast<size_t>(count), [](std::vector<CompletionTable> all) { return all; });
}

void logprobs(Resume<std::vector<float>> done, lua_State* L, PolicyPtr policy, std::vector<int32_t> tokens,
              LogprobsTable table) {
  if (table.temperature <= 0) {
    throw ArgError("temperature: expected above 0");
  }
  in_pool(L, done, [policy, tokens = std::move(tokens), table] { return policy->logprobs(tokens, table.temperature); });
}

std::vector<int32_t> encode(PolicyPtr policy, std::string text, SpecialTable table) {
  return tokenizer_of(policy).encode(text, special_of(table.special));
}
std::string decode(PolicyPtr policy, std::vector<int32_t> tokens, SpecialTable table) {
  return tokenizer_of(policy).decode(tokens, special_of(table.special));
}
std::optional<int32_t> special_id(const trainer::Tokenizer& tokenizer, const std::string& text) {
  const int32_t id = tokenizer.special_id(text);
  return id < 0 ? std::nullopt : std::optional(id);
}
std::optional<int32_t> special(PolicyPtr policy, std::string text) {
  return special_id(tokenizer_of(policy), text);
}
uint64_t version(PolicyPtr policy) {
  return policy->version();
}
int64_t positions(PolicyPtr policy) {
  return policy->positions();
}
std::optional<int64_t> end_token(PolicyPtr policy) {
  return policy->end_tokens().empty() ? std::nullopt : std::optional(policy->end_tokens().front());
}
std::vector<int64_t> end_tokens(PolicyPtr policy) {
  return policy->end_tokens();
}

std::map<std::string, double> stats(PolicyPtr policy) {
  const trainer::EngineStats s = policy->stats();
  const auto drawn = static_cast<double>(s.drawn_tokens);
  return {{"requests", static_cast<double>(s.requests)},
          {"steps", static_cast<double>(s.steps)},
          {"drawn_tokens", drawn},
          {"prompt_tokens", static_cast<double>(s.prompt_tokens)},
          {"busy_s", s.busy_s},
          {"reused_tokens", static_cast<double>(s.reused_tokens)},
          {"tokens_per_s", s.busy_s > 0 ? drawn / s.busy_s : 0}};
}

std::vector<int32_t> tokenizer_encode(TokenizerPtr tokenizer, std::string text, SpecialTable table) {
  return tokenizer->encode(text, special_of(table.special));
}
std::string tokenizer_decode(TokenizerPtr tokenizer, std::vector<int32_t> tokens, SpecialTable table) {
  return tokenizer->decode(tokens, special_of(table.special));
}
Status tokenizer_save(TokenizerPtr tokenizer, std::string path) {
  return tokenizer->save(path);
}
int32_t tokenizer_size(TokenizerPtr tokenizer) {
  return tokenizer->size();
}
std::optional<int32_t> tokenizer_special(TokenizerPtr tokenizer, std::string text) {
  return special_id(*tokenizer, text);
}

void open(Resume<PolicyPtr> done, lua_State* L, OpenTable table) {
  in_pool(L, done, [table = std::move(table), lease = host_of(L).lease_path()]() -> Result<PolicyPtr> {
    const Result<TrainerPtr> opened = open_from_table(table, lease);
    return opened ? opened.value()->policy() : Result<PolicyPtr>(opened.failure());
  });
}

}  // namespace

Result<TokenizerPtr> TokenizerChoice::open() const {
  if (path.empty()) {
    return object;
  }
  Result<trainer::Tokenizer> loaded = trainer::Tokenizer::load(path);
  if (!loaded) {
    return loaded.failure();
  }
  return TokenizerPtr(std::make_shared<const trainer::Tokenizer>(std::move(loaded).value()));
}

Result<TrainerPtr> open_from_table(const OpenTable& table, const std::string& default_lease) {
  trainer::TrainerSpec spec;
  const Result<TokenizerPtr> tokenizer = table.tokenizer.open();
  if (!tokenizer) {
    return tokenizer.failure();
  }
  spec.tokenizer = tokenizer.value();
  if (table.model.is_string()) {
    spec.model = table.model.get<std::string>();
  } else if (table.model.is_object()) {
    Json shape = table.model;
    if (spec.tokenizer && !shape.contains("vocabulary") && !shape.contains("vocab_size")) {
      shape["vocabulary"] = spec.tokenizer->size();
    }
    const Result<trainer::ModelConfig> config = trainer::read_config(shape);
    if (!config) {
      return config.failure();
    }
    spec.config = config.value();
  } else {
    return Failure{"open: model must be a directory or a table of the model's shape", "bad_input"};
  }
  if (table.threads > 0) {
    trainer::set_threads(table.threads);
  }
  if (table.slots < 1) {
    return Failure{"open: slots must be at least 1", "bad_input"};
  }
  spec.optimizer = table.optimizer;
  spec.seed = static_cast<uint64_t>(table.seed);
  spec.engine.slots = table.slots;
  spec.engine.positions = table.positions;
  spec.lease_path = table.lease.value_or(default_lease);
  spec.dtype = table.dtype;
  spec.recompute = table.recompute;
  spec.memory_share = table.memory_share;
  spec.device = table.device;
  spec.engine.dtype = table.sampler_dtype;
  return trainer::Trainer::open(spec);
}

void add_policy_classes(lua_State* L) {
  luaL_getmetatable(L, class_name(Tag<trainer::Policy>{}));
  const bool there = !lua_isnil(L, -1);
  lua_pop(L, 1);
  if (there) {
    return;
  }
  add_class<trainer::Policy>(
      L, {def<generate>("generate"), def<generate_group>("generate_group"), def<logprobs>("logprobs"),
          def<encode>("encode"), def<decode>("decode"), def<special>("special"), def<version>("version"),
          def<positions>("positions"), def<end_token>("end_token"), def<end_tokens>("end_tokens"), def<stats>("stats"),
          def<close_handle<trainer::Policy>>("close")});
  add_class<const trainer::Tokenizer>(
      L, {def<tokenizer_encode>("encode"), def<tokenizer_decode>("decode"), def<tokenizer_save>("save"),
          def<tokenizer_size>("size"), def<tokenizer_special>("special")});
}

}  // namespace khost::lua

namespace khost::modules {

void khost_open_policy(lua_State* L) {
  lua::add_policy_classes(L);
  lua_newtable(L);
  lua::add(L, {lua::def<lua::open>("open")});
}

}  // namespace khost::modules
