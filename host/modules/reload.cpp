// khost.reload: generations of scripts. Building, checking and swapping is in reload.lua.
#include "host/base/sha256.h"
#include "host/host.h"
#include "host/modules/modules.h"

namespace khost::modules {
namespace {

// From now on the running task may take this long without waiting; 0 sets the default again.
void budget(lua_State* L, double seconds) { Host::of(L).vm().begin_run(seconds); }

std::string hash(std::string text) { return sha256_hex(text); }

}  // namespace

void open_reload(lua_State* L) {
  lua_newtable(L);
  lua::add(L, {lua::def<budget>("budget"), lua::def<hash>("hash")});
  lua_getfield(L, LUA_REGISTRYINDEX, "khost.loaders");
  lua_setfield(L, -2, "loaders");
  finish_in_lua(L, "reload.lua");
}

}  // namespace khost::modules
