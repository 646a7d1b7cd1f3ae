// Lua face of host/rewards: curves, terms, schedules, rubrics.
#include "host/log/log.h"
#include "host/lua/bind.h"
#include "host/modules/modules.h"
#include "host/rewards/curve.h"
#include "host/rewards/schedule.h"

namespace khost::lua {

constexpr const char* class_name(Tag<Curve>) {
  return "Curve";
}
constexpr const char* class_name(Tag<RewardSchedule>) {
  return "Schedule";
}

namespace {

using CurvePtr = std::shared_ptr<Curve>;
using SchedulePtr = std::shared_ptr<RewardSchedule>;

// A scheme or a term as scripts write it.
struct Source {
  std::string name;
  std::vector<double> range;
  Function score;
};
constexpr auto fields(Tag<Source>) {
  return std::tuple(field("name", &Source::name), field("range", &Source::range), field("score", &Source::score));
}

struct ScheduleOptions {
  std::string name = "terms";
  std::vector<double> range;
  bool clip = false;
};
constexpr auto fields(Tag<ScheduleOptions>) {
  return std::tuple(field("name", &ScheduleOptions::name), field("range", &ScheduleOptions::range),
                    field("clip", &ScheduleOptions::clip));
}

// What an EpisodeRef points at here: a value on the Lua stack.
struct LuaEpisode {
  lua_State* L;
  int index;
};

template <class T>
T must(Result<T> result) {
  if (!result) {
    throw ArgError(result.failure().message);
  }
  return std::move(result).value();
}

// Message handler: an error that names no line (the watchdog's) gets that of the innermost Lua function.
int locate(lua_State* L) {
  if (!lua_isstring(L, 1) || std::string(lua_tostring(L, 1)).find(".lua:") != std::string::npos) {
    return 1;
  }
  lua_Debug frame{};
  for (int level = 0; lua_getstack(L, level, &frame); ++level) {
    if (lua_getinfo(L, "Sl", &frame) && frame.currentline > 0) {
      lua_pushfstring(L, "%s:%d: %s", frame.short_src, frame.currentline, lua_tostring(L, 1));
      return 1;
    }
  }
  return 1;
}

std::string error_text(lua_State* L) {
  return lua_isstring(L, -1) ? lua_tostring(L, -1) : "raised a " + describe_type(L, -1);
}

std::map<std::string, double> read_parts(lua_State* L, int i) {
  return lua_istable(L, i) ? Codec<std::map<std::string, double>>::get(L, i) : std::map<std::string, double>{};
}

Result<Scored> call_score(const std::string& name, const Function& score, EpisodeRef episode) {
  auto [L, index] = *static_cast<const LuaEpisode*>(episode);
  const int top = lua_gettop(L);
  luaL_checkstack(L, 8, "reward");
  lua_pushcfunction(L, locate);
  score.push(L);
  lua_pushvalue(L, index);
  const bool raised = lua_pcall(L, 1, 2, top + 1) != 0;
  lua_remove(L, top + 1);
  Result<Scored> result = Failure{"", "raised"};
  if (raised) {
    result = Failure{error_text(L), "raised"};
  } else if (lua_isnil(L, top + 1)) {
    result = Failure{lua_isstring(L, top + 2) ? lua_tostring(L, top + 2) : "'" + name + "' declined to score", "void"};
  } else if (lua_type(L, top + 1) != LUA_TNUMBER) {
    result = Failure{"'" + name + "' returned a " + describe_type(L, top + 1) + ", expected a number", "raised"};
  } else {
    try {
      result = Scored{lua_tonumber(L, top + 1), read_parts(L, top + 2)};
    } catch (const ArgError& error) {
      result = Failure{"parts of '" + name + "': " + error.what(), "raised"};
    }
  }
  lua_settop(L, top);
  return result;
}

ScoreFunction score_function(const std::string& name, const Function& score) {
  return [name, score](EpisodeRef episode) { return call_score(name, score, episode); };
}

RewardRange read_range(const std::string& name, const std::vector<double>& range) {
  if (range.empty()) {
    return {};
  }
  if (range.size() != 2) {
    throw ArgError("the range of '" + name + "' must be {least, greatest}");
  }
  return {range[0], range[1]};
}

Source read_source(lua_State* L, int i, const char* what) {
  Source source = Codec<Source>::get(L, i);
  if (source.name.empty() || !source.score) {
    throw ArgError(std::string("a ") + what + " needs a name and a function score");
  }
  return source;
}

RewardScheme read_scheme(lua_State* L, int i) {
  Source source = read_source(L, i, "scheme");
  RewardScheme scheme;
  scheme.name = source.name;
  scheme.whole = true;
  if (source.range.empty()) {
    throw ArgError("scheme '" + source.name + "' needs a range: {least, greatest} legal reward");
  }
  scheme.range = read_range(source.name, source.range);
  scheme.terms.push_back({source.name, Curve::constant(1), score_function(source.name, source.score)});
  return scheme;
}

// { {term, weight}, ... }
RewardScheme read_terms(lua_State* L, int i, const ScheduleOptions& options) {
  RewardScheme scheme;
  scheme.name = options.name;
  scheme.range = read_range(options.name, options.range);
  scheme.clip = options.clip;
  const int n = static_cast<int>(lua_objlen(L, i));
  for (int k = 1; k <= n; ++k) {
    lua_rawgeti(L, i, k);
    const int pair = lua_gettop(L);
    if (!lua_istable(L, pair)) {
      throw ArgError("a schedule of terms is a list of {term, weight}");
    }
    lua_rawgeti(L, pair, 1);
    lua_rawgeti(L, pair, 2);
    Source source = read_source(L, pair + 1, "term");
    Curve weight = lua_isnil(L, pair + 2)                 ? Curve::constant(1)
                   : lua_type(L, pair + 2) == LUA_TNUMBER ? Curve::constant(lua_tonumber(L, pair + 2))
                                                          : *Codec<CurvePtr>::get(L, pair + 2);
    scheme.terms.push_back({source.name, weight, score_function(source.name, source.score)});
    lua_settop(L, pair - 1);
  }
  return scheme;
}

bool has_score(lua_State* L, int i) {
  lua_pushliteral(L, "score");
  lua_rawget(L, i);
  bool found = !lua_isnil(L, -1);
  lua_pop(L, 1);
  return found;
}

// { [0] = scheme, [100] = scheme } when the values are schemes.
bool is_by_step(lua_State* L, int i) {
  bool found = false;
  for (lua_pushnil(L); lua_next(L, i) != 0; lua_pop(L, 1)) {
    found = found || (lua_istable(L, -1) && has_score(L, lua_gettop(L)));
  }
  return found;
}

std::map<int64_t, RewardScheme> read_schemes(lua_State* L, int i) {
  std::map<int64_t, RewardScheme> schemes;
  for (lua_pushnil(L); lua_next(L, i) != 0; lua_pop(L, 1)) {
    if (lua_type(L, -2) != LUA_TNUMBER) {
      throw ArgError("a schedule of schemes has training steps as keys");
    }
    schemes.emplace(static_cast<int64_t>(lua_tonumber(L, -2)), read_scheme(L, lua_gettop(L)));
  }
  return schemes;
}

int schedule(lua_State* L) {
  return guarded(L, 1, [L] {
    if (!lua_istable(L, 1)) {
      throw ArgError("argument 1: a scheme, a list of {term, weight} or schemes by step expected");
    }
    auto options = argument<ScheduleOptions>(L, 2);
    std::map<int64_t, RewardScheme> schemes;
    if (has_score(L, 1)) {
      schemes.emplace(0, read_scheme(L, 1));
    } else if (is_by_step(L, 1)) {
      schemes = read_schemes(L, 1);
    } else {
      schemes.emplace(0, read_terms(L, 1, options));
    }
    auto made = must(RewardSchedule::create(std::move(schemes)));
    return push_all(L, std::make_shared<RewardSchedule>(std::move(made)));
  });
}

int score(lua_State* L) {
  return guarded(L, 1, [L] {
    auto schedule_ptr = argument<SchedulePtr>(L, 1);
    luaL_checktype(L, 2, LUA_TTABLE);
    auto step = argument<int64_t>(L, 3);
    LuaEpisode episode{L, 2};
    auto scored = schedule_ptr->score(&episode, step);
    if (!scored) {
      if (scored.failure().code != "void") {
        process_log().warn("reward_failed", {{"scheme", schedule_ptr->scheme(step).name},
                                             {"code", scored.failure().code},
                                             {"message", scored.failure().message}});
      }
      return push_failure(L, scored.failure());
    }
    lua_pushnumber(L, scored->total);
    push_all(L, scored->parts);
    return 2;
  });
}

std::map<std::string, double> weights(SchedulePtr self, int64_t step) {
  return self->weights(step);
}
std::string scheme_name(SchedulePtr self, int64_t step) {
  return self->scheme(step).name;
}

Json counts(SchedulePtr self) {
  const RewardCounts& c = self->counts();
  Json out = {{"scored", c.scored}, {"void", c.void_}, {"raised", c.raised}, {"range", c.range}};
  if (!c.last_message.empty()) {
    out["last_message"] = c.last_message;
  }
  return out;
}

int compare(lua_State* L) {
  return guarded(L, 1, [L] {
    luaL_checktype(L, 1, LUA_TTABLE);
    luaL_checktype(L, 2, LUA_TTABLE);
    Json out = Json::object();
    const int n = static_cast<int>(lua_objlen(L, 2));
    for (int k = 1; k <= n; ++k) {
      lua_rawgeti(L, 2, k);
      RewardScheme scheme = read_scheme(L, lua_gettop(L));
      lua_pop(L, 1);
      LuaEpisode episode{L, 1};
      auto scored = scheme.score(&episode, 0);
      out[scheme.name] = scored ? Json{{"total", scored->total}, {"parts", scored->parts}}
                                : Json{{"message", scored.failure().message}, {"code", scored.failure().code}};
    }
    Codec<Json>::push(L, out);
    return 1;
  });
}

// The reason for which the item on top of the stack is dropped; empty when it is kept.
std::string drop_reason(lua_State* L) {
  const int item = lua_gettop(L);
  lua_pushcfunction(L, locate);
  lua_pushvalue(L, 2);
  lua_pushvalue(L, item);
  if (lua_pcall(L, 1, 2, item + 1) != 0) {
    process_log().warn("rubric_failed", {{"message", error_text(L)}});
    lua_settop(L, item);
    return "rubric_failed";
  }
  const bool keep = lua_toboolean(L, -2);
  const std::string reason = lua_isstring(L, -1) ? lua_tostring(L, -1) : "";
  lua_settop(L, item);
  if (!keep && reason.empty()) {
    throw ArgError("the rubric dropped an item without a reason");
  }
  return keep ? "" : reason;
}

int filter(lua_State* L) {
  return guarded(L, 1, [L] {
    luaL_checktype(L, 1, LUA_TTABLE);
    luaL_checktype(L, 2, LUA_TFUNCTION);
    lua_settop(L, 2);
    lua_newtable(L);
    lua_newtable(L);
    int sizes[] = {0, 0};
    const int n = static_cast<int>(lua_objlen(L, 1));
    for (int k = 1; k <= n; ++k) {
      lua_rawgeti(L, 1, k);
      luaL_checktype(L, -1, LUA_TTABLE);
      std::string reason = drop_reason(L);
      bool dropped = !reason.empty();
      if (dropped) {
        Codec<std::string>::push(L, reason);
        lua_setfield(L, -2, "reason");
      }
      lua_rawseti(L, 3 + dropped, ++sizes[dropped]);
    }
    return 2;
  });
}

CurvePtr curve(Result<Curve> made) {
  return std::make_shared<Curve>(must(std::move(made)));
}
CurvePtr constant(double value) {
  return std::make_shared<Curve>(Curve::constant(value));
}
CurvePtr linear(double from, double to, int64_t steps) {
  return curve(Curve::linear(from, to, steps));
}
CurvePtr cosine(double from, double to, int64_t steps) {
  return curve(Curve::cosine(from, to, steps));
}

int steps(lua_State* L) {
  return guarded(L, 1, [L] {
    luaL_checktype(L, 1, LUA_TTABLE);
    std::map<int64_t, double> values;
    for (lua_pushnil(L); lua_next(L, 1) != 0; lua_pop(L, 1)) {
      if (lua_type(L, -2) != LUA_TNUMBER || lua_type(L, -1) != LUA_TNUMBER) {
        throw ArgError("argument 1: numbers by step expected, {[0] = 1, [50] = 0.5}");
      }
      values[static_cast<int64_t>(lua_tonumber(L, -2))] = lua_tonumber(L, -1);
    }
    return push_all(L, curve(Curve::steps(std::move(values))));
  });
}

double at(CurvePtr self, int64_t step) {
  return self->at(step);
}

int term(lua_State* L) {
  return guarded(L, 1, [L] {
    argument<std::string>(L, 1);
    argument<Function>(L, 2);
    lua_createtable(L, 0, 2);
    lua_pushvalue(L, 1);
    lua_setfield(L, -2, "name");
    lua_pushvalue(L, 2);
    lua_setfield(L, -2, "score");
    return 1;
  });
}

}  // namespace

}  // namespace khost::lua

namespace khost::modules {

void open_rewards(lua_State* L) {
  using namespace lua;
  add_class<Curve>(L, {def<at>("at")});
  add_class<RewardSchedule>(
      L, {raw("score", score), def<weights>("weights"), def<scheme_name>("scheme"), def<counts>("counts")});
  lua_newtable(L);
  add(L, {def<constant>("constant"), def<linear>("linear"), def<cosine>("cosine"), raw("steps", steps),
          raw("term", term), raw("schedule", schedule), raw("compare", compare), raw("filter", filter)});
}

}  // namespace khost::modules
