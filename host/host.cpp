#include "host/host.h"

#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "host/log/plain_text.h"
#include "host/modules/modules.h"
#include "host/modules/workers.h"

namespace khost {
namespace {

constexpr auto kPatience = std::chrono::milliseconds(4500);  // from an interrupt to the end, whatever happens

struct Outcome {
  bool ended = false;
  int code = 0;
};

// An error { exit = code, message = text } ends the program with that code and without a traceback: misuse of a
// command line, or --help (scripts/lib/args.lua).
bool read_exit(lua_State* L, Outcome& outcome) {
  if (!lua_istable(L, 2)) {
    return false;
  }
  lua_getfield(L, 2, "exit");
  lua_getfield(L, 2, "message");
  const bool given = lua_isnumber(L, -2) && lua_isstring(L, -1);
  if (given) {
    outcome.code = static_cast<int>(lua_tonumber(L, -2));
    const std::string prefix = outcome.code == 0 ? "" : "khost: ";
    std::fprintf(outcome.code == 0 ? stdout : stderr, "%s%s\n", prefix.c_str(),
                 plain_text(lua_isstring(L, -1) ? lua_tostring(L, -1) : "an error without a text").c_str());
  }
  lua_pop(L, 2);
  return given;
}

// on_end(ok, value, trace, cancelled) of tasks.lua's run_root; the outcome is the upvalue.
int on_end(lua_State* L) {
  auto* outcome = static_cast<Outcome*>(lua_touserdata(L, lua_upvalueindex(1)));
  outcome->ended = true;
  if (lua_toboolean(L, 1)) {
    outcome->code = lua_isnumber(L, 2) ? static_cast<int>(lua_tonumber(L, 2)) : 0;
  } else if (lua_toboolean(L, 4)) {
    outcome->code = 130;
  } else if (read_exit(L, *outcome)) {
    // said already
  } else {
    outcome->code = 1;
    std::fprintf(stderr, "khost: %s\n",
                 plain_text(lua_isstring(L, 3) ? lua_tostring(L, 3) : "the script failed").c_str());
  }
  return 0;
}

// sched's private table, opened when nobody required it yet.
void push_sched(lua_State* L) {
  lua_getfield(L, LUA_REGISTRYINDEX, "khost.sched");
  if (lua_isnil(L, -1)) {
    lua_pop(L, 1);
    lua_getfield(L, LUA_REGISTRYINDEX, "khost.loaders");
    lua_getfield(L, -1, "new");
    lua_call(L, 0, 1);
    lua_getfield(L, -1, "require");
    lua_pushliteral(L, "khost.sched");
    lua_call(L, 1, 0);
    lua_pop(L, 2);
    lua_getfield(L, LUA_REGISTRYINDEX, "khost.sched");
  }
}

}  // namespace

std::string find_root(const std::string& dir) {
  namespace fs = std::filesystem;
  if (const char* root = std::getenv("KHOST_ROOT"); root != nullptr && *root != '\0') {
    return root;
  }
  const fs::path candidates[] = {fs::path(dir).parent_path(), fs::path(dir) / "../share/khost"};
  for (const fs::path& candidate : candidates) {
    if (fs::exists(candidate / "host/modules/tasks.lua")) {
      return fs::weakly_canonical(candidate).string();
    }
  }
  throw std::runtime_error("khost's scripts were not found near " + dir +
                           ": set KHOST_ROOT to the folder that holds scripts/ and recipes/");
}

Host::Host(HostOptions options)
    : options_([&] {
        if (options.build_dir.empty()) {
          options.build_dir = executable_dir();
        }
        if (options.root.empty()) {
          options.root = find_root(options.build_dir);
        }
        return options;
      }()),
      pool_(options_.pool_threads),
      vm_({options_.root, options_.memory_bytes, options_.longest_run_s}),
      tasks_(io_, vm_.state()) {
  lua_State* L = vm_.state();
  lua_pushlightuserdata(L, this);
  lua_setfield(L, LUA_REGISTRYINDEX, "khost.host");
  lua::open_tasks(L);
  tasks_.bracket_runs([this] { vm_.begin_run(); }, [this] { vm_.end_run(); });
  modules::register_all(vm_);
}

Host::~Host() {
  // Blocking work first: it may hold the right to answer tasks.
  finish_blocking();
  pool_.join();
}

Host& Host::of(lua_State* L) {
  lua_getfield(L, LUA_REGISTRYINDEX, "khost.host");
  auto* host = static_cast<Host*>(lua_touserdata(L, -1));
  lua_pop(L, 1);
  return *host;
}

std::string Host::lease_path() const {
  if (const char* path = std::getenv("KHOST_LEASE"); path != nullptr && *path != '\0') {
    return path;
  }
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  const std::string folder = runtime != nullptr && *runtime != '\0' ? runtime : "/tmp";
  return folder + "/khost-lease-" + std::to_string(getuid());
}

void Host::interrupt() {
  interrupted_ = true;
  lua_State* L = vm_.state();
  push_sched(L);
  lua_getfield(L, -1, "cancel_root");
  if (lua_pcall(L, 0, 0, 0) != 0) {
    std::fprintf(stderr, "khost: %s\n",
                 plain_text(lua_isstring(L, -1) ? lua_tostring(L, -1) : "an error without a text").c_str());
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
}

int Host::run_root() {
  lua_State* L = vm_.state();  // the function, then its argument
  Outcome outcome;
  push_sched(L);
  lua_getfield(L, -1, "run_root");
  lua_insert(L, -4);
  lua_pop(L, 1);
  lua_pushlightuserdata(L, &outcome);
  lua_pushcclosure(L, on_end, 1);
  lua_call(L, 3, 0);

  io_.restart();
  boost::asio::signal_set signals(io_, SIGINT, SIGTERM);
  boost::asio::steady_timer last_resort(io_);
  const std::function<void()> wait_for_signal = [&] {
    signals.async_wait([&](const boost::system::error_code& error, int) {
      if (error) {
        return;
      }
      if (const auto handler = std::exchange(on_interrupt_, nullptr)) {
        handler();
        wait_for_signal();
        return;
      }
      std::fprintf(stderr, "\nkhost: interrupted, stopping (again to stop at once)\n");
      interrupt();
      signals.async_wait([](const boost::system::error_code& again, int) {
        if (!again) {
          std::_Exit(130);
        }
      });
      last_resort.expires_after(kPatience);
      last_resort.async_wait([](const boost::system::error_code& late) {
        if (!late) {
          std::fprintf(stderr, "khost: some work did not stop in time; leaving anyway\n");
          std::_Exit(130);
        }
      });
    });
  };
  wait_for_signal();
  bool deadlocked = false;
  while (tasks_.alive() > 0) {
    if (tasks_.deadlocked()) {
      std::fprintf(stderr, "khost: %s", tasks_.deadlock_report().c_str());
      deadlocked = true;
      interrupt();
      if (tasks_.deadlocked()) {
        break;
      }
    }
    io_.run_one();
  }
  signals.cancel();
  last_resort.cancel();
  io_.poll();
  if (deadlocked) {
    return 1;
  }
  if (!outcome.ended && outcome.code == 0) {
    outcome.code = interrupted_ ? 130 : 1;  // ended by the host: the reason was printed
  }
  return interrupted_ && outcome.code == 0 ? 130 : outcome.code;
}

int Host::run_function(const std::string&) {
  lua_newtable(vm_.state());
  return run_root();
}

int Host::run_script(const std::string& path, const std::vector<std::string>& arguments) {
  lua_State* L = vm_.state();
  lua_getfield(L, LUA_REGISTRYINDEX, "khost.loaders");
  lua_getfield(L, -1, "new");
  lua_call(L, 0, 1);
  lua_remove(L, -2);
  lua_getfield(L, -1, "run_file");
  lua_remove(L, -2);
  lua_pushstring(L, path.c_str());
  vm_.begin_run();
  const int status = lua_pcall(L, 1, 1, 0);
  vm_.end_run();
  if (status != 0) {
    std::fprintf(stderr, "khost: %s\n",
                 plain_text(lua_isstring(L, -1) ? lua_tostring(L, -1) : "the script failed to load").c_str());
    lua_pop(L, 1);
    return 2;
  }
  if (lua_istable(L, -1)) {
    lua_getfield(L, -1, "run");
    lua_remove(L, -2);
  }
  if (!lua_isfunction(L, -1)) {
    lua_pop(L, 1);
    std::fprintf(stderr, "khost: %s returns no table with a function 'run'\n", path.c_str());
    return 2;
  }
  lua::Codec<std::vector<std::string>>::push(L, arguments);
  return run_root();
}

}  // namespace khost
