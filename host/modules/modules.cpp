#include "host/modules/modules.h"

#include <dlfcn.h>

#include "host/base/part.h"
#include "host/host.h"

namespace khost::modules {
namespace {

template <void (*Open)(lua_State*)>
int opener(lua_State* L) {
  return lua::guarded(L, 1, [L] {
    Open(L);
    return 1;
  });
}

// A module that stands in the library of a part, which is loaded now. The message is that of a module that no build has
// (host/lua/vm.cpp).
void open_of_part(lua_State* L, const char* part, const char* module, const char* function) {
  const std::string file = std::string("libkhost_") + part + ".so";
  const Result<void*> library = load_part(
      {part, file.c_str(), std::string("module '") + module + "' is not part of this build: it has no " + part});
  if (!library) {
    throw std::runtime_error(library.failure().message);
  }
  auto* const open = reinterpret_cast<void (*)(lua_State*)>(dlsym(*library, function));
  if (open == nullptr) {
    throw std::runtime_error(file + " has no " + function);
  }
  open(L);
}

void open_trainer(lua_State* L) {
  open_of_part(L, "trainer", "khost.trainer", "khost_open_trainer");
}

void open_policy(lua_State* L) {
  open_of_part(L, "trainer", "khost.policy", "khost_open_policy");
}

void open_serve(lua_State* L) {
  open_of_part(L, "serve", "khost.serve", "khost_open_serve");
}

}  // namespace

void register_all(lua::Vm& vm) {
  vm.preload("khost.sched", opener<open_sched>);
  vm.preload("khost.reload", opener<open_reload>);
  vm.preload("khost.fs", opener<open_fs>);
  vm.preload("khost.json", opener<open_json>);
  vm.preload("khost.config", opener<open_config>);
  vm.preload("khost.log", opener<open_log>);
  vm.preload("khost.progress", opener<open_progress>);
  vm.preload("khost.store", opener<open_store>);
  vm.preload("khost.rewards", opener<open_rewards>);
  vm.preload("khost.machine", opener<open_machine>);
  vm.preload("khost.sandbox", opener<open_sandbox>);
  vm.preload("khost.judge", opener<open_judge>);
  vm.preload("khost.profiler", opener<open_profiler>);
  vm.preload("khost.http", opener<open_http>);
  vm.preload("khost.terminal", opener<open_terminal>);
  vm.preload("khost.serve", opener<open_serve>);
  vm.preload("khost.trainer", opener<open_trainer>);
  vm.preload("khost.policy", opener<open_policy>);
}

void finish_in_lua(lua_State* L, const char* file) {
  const std::string path = Host::of(L).root() + "/host/modules/" + file;
  lua_getfield(L, LUA_REGISTRYINDEX, "khost.loaders");
  lua_getfield(L, -1, "new");
  lua_call(L, 0, 1);
  lua_getfield(L, -1, "run_file");
  lua_pushstring(L, path.c_str());
  lua_pushvalue(L, -5);
  lua_call(L, 2, 1);
  // native, loaders, loader, result -> result
  lua_replace(L, -4);
  lua_pop(L, 2);
}

}  // namespace khost::modules
