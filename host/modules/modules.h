// One open_<name> for each native module: leaves the module's table on the stack. They run once per VM, on the
// first require("khost.<name>").
#pragma once

#include <lua.hpp>

namespace khost::lua {
class Vm;
}

namespace khost::modules {

void open_sched(lua_State* L);
void open_reload(lua_State* L);
void open_fs(lua_State* L);
void open_json(lua_State* L);
void open_config(lua_State* L);
void open_log(lua_State* L);
void open_progress(lua_State* L);
void open_store(lua_State* L);
void open_rewards(lua_State* L);
void open_machine(lua_State* L);
void open_sandbox(lua_State* L);
void open_judge(lua_State* L);
void open_profiler(lua_State* L);
void open_http(lua_State* L);
void open_terminal(lua_State* L);

// The same for modules in the library of a part, found there by name (dlsym).
extern "C" void khost_open_trainer(lua_State* L);
extern "C" void khost_open_policy(lua_State* L);
extern "C" void khost_open_serve(lua_State* L);

// The part of khost.fs for folders that strangers fill: adds it to the table on top of the stack.
void add_beneath(lua_State* L);

// Makes all modules known to require.
void register_all(lua::Vm& vm);

// Runs host/modules/<file> with the table on top of the stack and replaces it by what the file returns: the
// half of a module that is better written in Lua.
void finish_in_lua(lua_State* L, const char* file);

}  // namespace khost::modules
