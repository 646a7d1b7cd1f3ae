// khost.sched: tasks, time and random streams. What needs no C++ is in tasks.lua.
#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "host/base/json.h"
#include "host/base/sha256.h"
#include "host/host.h"
#include "host/modules/modules.h"

namespace khost::modules {
namespace {

using lua::Tag;
using lua::Tasks;

// A stream of draws that depends on its seed and key alone.
struct Random {
  std::mt19937_64 engine;
};
constexpr const char* class_name(Tag<Random>) {
  return "Random";
}

std::shared_ptr<Random> make_random(double seed, std::string key) {
  const std::string digest = sha256_hex(std::to_string(seed) + "/" + key);
  auto random = std::make_shared<Random>();
  random->engine.seed(std::stoull(digest.substr(0, 16), nullptr, 16));
  return random;
}

// In [0, 1), 53 random bits; the same on every machine, unlike std::uniform_real_distribution.
double random_number(std::shared_ptr<Random> random) {
  return static_cast<double>(random->engine() >> 11) * 0x1.0p-53;
}

// A whole number in [low, high], both included.
double random_integer(std::shared_ptr<Random> random, int64_t low, int64_t high) {
  if (low > high) {
    throw lua::ArgError("integer(low, high): low " + std::to_string(low) + " is above high " + std::to_string(high));
  }
  const uint64_t span = static_cast<uint64_t>(high - low) + 1;
  const uint64_t limit = span * (UINT64_MAX / span);
  uint64_t draw = random->engine();
  while (draw >= limit) {
    draw = random->engine();
  }
  return static_cast<double>(low + static_cast<int64_t>(draw % span));
}

// sleep(seconds)
int sleep_for(lua_State* L) {
  return lua::guarded(L, 2, [L] {
    const double seconds = lua::argument<double>(L, 1);
    if (!(seconds >= 0)) {
      throw lua::ArgError("sleep: seconds of at least 0 expected");
    }
    Tasks::of(L).sleep_until(
        L, std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::nanoseconds>(
                                                  std::chrono::duration<double>(std::min(seconds, 1e9))));
    return lua_yield(L, 0);
  });
}

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Seconds since 1970, for names and logs; never for decisions.
double wall_clock() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// spawn(function, arguments…) -> id
int spawn(lua_State* L) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  const uint64_t id = Tasks::of(L).spawn(L, lua_gettop(L) - 1);
  lua_pushnumber(L, static_cast<double>(id));
  return 1;
}

// Waits until unpark(id): a waiting function without an operation behind it.
int park(lua_State* L) {
  return lua::guarded(L, 2, [L] {
    Tasks::of(L).suspend(L, true);
    return lua_yield(L, 0);
  });
}

bool unpark(lua_State* L, uint64_t id) {
  return Tasks::of(L).unpark(id);
}
bool started(lua_State* L, uint64_t id) {
  return Tasks::of(L).started(id);
}

// "resumed" when it will raise the cancellation, "dropped" when it had not begun, nil when there is nothing to cancel.
std::optional<std::string> cancel(lua_State* L, uint64_t id) {
  switch (Tasks::of(L).cancel(id)) {
    case Tasks::Cancelled::resumed:
      return "resumed";
    case Tasks::Cancelled::dropped:
      return "dropped";
    default:
      return std::nullopt;
  }
}
uint64_t current(lua_State* L) {
  return Tasks::of(L).current(L);
}
std::string trace(lua_State* L, uint64_t id) {
  return Tasks::of(L).trace(id);
}

// The number behind the last `tag` of glibc's report, whose last elements are the sums over all arenas.
size_t reported(const std::string& report, const std::string& tag) {
  const size_t found = report.rfind(tag);
  const size_t number = found == std::string::npos ? found : report.find("size=\"", found);
  return number == std::string::npos ? 0 : std::stoull(report.substr(number + 6));
}

// What the whole process has allocated and not freed, scripts' memory and that of all threads included; mallinfo2
// knows of the main thread's arena alone.
size_t heap_bytes() {
  char* text = nullptr;
  size_t length = 0;
  FILE* stream = open_memstream(&text, &length);
  if (stream == nullptr) {
    return 0;
  }
  malloc_info(0, stream);
  std::fclose(stream);
  const std::string report(text, length);
  std::free(text);
  return reported(report, "<system type=\"current\"") + reported(report, "<total type=\"mmap\"") -
         reported(report, "<total type=\"fast\"") - reported(report, "<total type=\"rest\"");
}

Json stats(lua_State* L) {
  const Tasks& tasks = Tasks::of(L);
  return {{"tasks", tasks.alive()},
          {"waiting", tasks.waiting()},
          {"ready", tasks.alive() - tasks.waiting()},
          {"resumes", tasks.resumes()},
          {"longest_run_s", tasks.longest_run_s()},
          {"memory_bytes", Host::of(L).vm().used_bytes()},
          {"heap_bytes", heap_bytes()}};
}

void report(std::string text) {
  std::fprintf(stderr, "khost: %s\n", text.c_str());
}

void collect_garbage(lua_State* L) {
  lua_gc(L, LUA_GCCOLLECT, 0);
}

}  // namespace

void open_sched(lua_State* L) {
  lua::add_class<Random>(L, {lua::def<random_number>("number"), lua::def<random_integer>("integer")});
  lua_newtable(L);
  lua::add(L, {lua::raw("spawn", spawn),
               {"park", park, true},
               lua::def<unpark>("unpark"),
               lua::def<started>("started"),
               lua::def<cancel>("cancel"),
               lua::def<current>("current"),
               lua::def<trace>("trace"),
               {"sleep", sleep_for, true},
               lua::def<now>("now"),
               lua::def<wall_clock>("wall_clock"),
               lua::def<make_random>("random"),
               lua::def<stats>("stats"),
               lua::def<report>("report"),
               lua::def<collect_garbage>("collect_garbage")});
  lua_getfield(L, LUA_REGISTRYINDEX, "khost.cancelled");
  lua_setfield(L, -2, "CANCELLED");
  // The host reaches run_root, cancel_root, ended and name_of, which the Lua half adds to this table.
  lua_pushvalue(L, -1);
  lua_setfield(L, LUA_REGISTRYINDEX, "khost.sched");
  finish_in_lua(L, "tasks.lua");
}

}  // namespace khost::modules
