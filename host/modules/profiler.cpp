// khost.profiler: what a profile of the judge says, for scripts. All of it is in profiler.lua.
#include "host/modules/modules.h"

namespace khost::modules {

void open_profiler(lua_State* L) {
  lua_newtable(L);
  finish_in_lua(L, "profiler.lua");
}

}  // namespace khost::modules
