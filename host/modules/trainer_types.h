// What the faces of khost.trainer and khost.policy share: the classes' names, work in the host's pool, and arguments
// that come in more than one form.
#pragma once

#include <boost/asio/post.hpp>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "host/host.h"
#include "host/lua/task.h"
#include "trainer/trainer.h"

namespace khost::lua {

constexpr const char* class_name(Tag<trainer::Trainer>) {
  return "Trainer";
}
constexpr const char* class_name(Tag<trainer::Batch>) {
  return "Batch";
}
constexpr const char* class_name(Tag<trainer::Objective>) {
  return "Objective";
}
constexpr const char* class_name(Tag<trainer::Policy>) {
  return "Policy";
}
constexpr const char* class_name(Tag<const trainer::Tokenizer>) {
  return "Tokenizer";
}

using TrainerPtr = std::shared_ptr<trainer::Trainer>;
using PolicyPtr = std::shared_ptr<trainer::Policy>;
using TokenizerPtr = std::shared_ptr<const trainer::Tokenizer>;
using BatchPtr = std::shared_ptr<trainer::Batch>;
using ObjectivePtr = std::shared_ptr<trainer::Objective>;

// Misuse: what a right program never does raises at its line.
template <class T>
T must(Result<T> result) {
  if (!result) {
    throw ArgError(result.failure().message);
  }
  return std::move(result).value();
}

// Runs `work` in the pool and answers with its Result.
template <class R, class Work>
void in_pool(lua_State* L, const Resume<R>& done, Work work) {
  boost::asio::post(host_of(L).pool(), [done, work = std::move(work)]() mutable {
    try {
      Result<R> result = work();
      if (result) {
        done(std::move(result).value());
      } else {
        done.fail(result.failure());
      }
    } catch (const std::exception& error) {
      done.fail({error.what(), "host"});
    }
  });
}

// One of a fixed set of words, as its place among them.
inline size_t word_at(lua_State* L, int i, std::initializer_list<const char*> words) {
  std::string all;
  size_t place = 0;
  for (const char* word : words) {
    if (lua_type(L, i) == LUA_TSTRING && std::string(lua_tostring(L, i)) == word) {
      return place;
    }
    all += (place++ == 0 ? "one of \"" : ", \"") + std::string(word) + "\"";
  }
  raise_expected(L, i, all);
}

// A tokenizer, or the path of a tokenizer.json.
struct TokenizerChoice {
  TokenizerPtr object;
  std::string path;
  Result<TokenizerPtr> open() const;
};

template <>
struct Codec<TokenizerChoice> {
  static TokenizerChoice get(lua_State* L, int i) {
    if (lua_type(L, i) == LUA_TSTRING) {
      return {nullptr, lua_tostring(L, i)};
    }
    return {Codec<TokenizerPtr>::get(L, i), ""};
  }
};

// trainer.open and policy.open.
struct OpenTable {
  Json model;  // directory, or the table of a fresh model's shape
  TokenizerChoice tokenizer;
  trainer::OptimizerOptions optimizer;
  double seed = 0;
  int threads = 0;
  int64_t slots = 64;
  int64_t positions = 0;
  std::optional<std::string> lease;
  std::string dtype = "fp32";
  std::string sampler_dtype;  // empty: as dtype
  std::string device = "cpu";
  double memory_share = 1;
  bool recompute = false;
};

constexpr auto fields(Tag<trainer::OptimizerOptions>) {
  using Options = trainer::OptimizerOptions;
  return std::tuple(field("beta1", &Options::beta1), field("beta2", &Options::beta2),
                    field("epsilon", &Options::epsilon), field("weight_decay", &Options::weight_decay),
                    field("spike_factor", &Options::spike_factor));
}

constexpr auto fields(Tag<OpenTable>) {
  return std::tuple(field("model", &OpenTable::model), field("tokenizer", &OpenTable::tokenizer),
                    field("optimizer", &OpenTable::optimizer), field("seed", &OpenTable::seed),
                    field("threads", &OpenTable::threads), field("slots", &OpenTable::slots),
                    field("positions", &OpenTable::positions), field("lease", &OpenTable::lease),
                    field("dtype", &OpenTable::dtype), field("sampler_dtype", &OpenTable::sampler_dtype),
                    field("device", &OpenTable::device), field("memory_share", &OpenTable::memory_share),
                    field("recompute", &OpenTable::recompute));
}

// Blocks: loads weights.
Result<TrainerPtr> open_from_table(const OpenTable& table, const std::string& default_lease);

// `close` of a class: the handle gives up its hold, and whatever is called on it then raises. Work in flight and other
// handles keep the object until they are done with it.
template <class T>
void close_handle(lua_State* L, std::shared_ptr<T> self) {
  self.reset();
  static_cast<std::shared_ptr<T>*>(lua_touserdata(L, 1))->reset();
}

// Batch: pack, as a function of khost.trainer, and the class.
void add_batch(lua_State* L);
Definition pack_function();

// Metatables of Policy and Tokenizer; harmless to call again.
void add_policy_classes(lua_State* L);

}  // namespace khost::lua
