// khost.reload: generations of scripts. Building, checking and swapping is in reload.lua.
#include <sys/stat.h>

#include <ctime>
#include <optional>
#include <string>

#include "host/base/sha256.h"
#include "host/host.h"
#include "host/modules/modules.h"

namespace khost::modules {
namespace {

// From now on the running task may take this long without waiting; 0 sets the default again.
void budget(lua_State* L, double seconds) {
  Host::of(L).vm().begin_run(seconds);
}

// Changes when the file does; nil when it changed so lately that one more change could leave the same stamp.
std::optional<std::string> stamp(std::string path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    return "absent";
  }
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  if (now.tv_sec - status.st_mtim.tv_sec < 2) {
    return std::nullopt;
  }
  return std::to_string(status.st_ino) + ":" + std::to_string(status.st_size) + ":" +
         std::to_string(status.st_mtim.tv_sec) + "." + std::to_string(status.st_mtim.tv_nsec);
}

std::string hash(std::string text) {
  return sha256_hex(text);
}

}  // namespace

void open_reload(lua_State* L) {
  lua_newtable(L);
  lua::add(L, {lua::def<budget>("budget"), lua::def<hash>("hash"), lua::def<stamp>("stamp")});
  lua_getfield(L, LUA_REGISTRYINDEX, "khost.loaders");
  lua_setfield(L, -2, "loaders");
  finish_in_lua(L, "reload.lua");
}

}  // namespace khost::modules
