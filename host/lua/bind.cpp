#include "host/lua/bind.h"

#include <cstdlib>

namespace khost::lua {

int push_failure(lua_State* L, const Failure& failure) {
  lua_pushnil(L);
  lua_pushlstring(L, failure.message.data(), failure.message.size());
  lua_pushlstring(L, failure.code.data(), failure.code.size());
  return 3;
}

void raise_at(lua_State* L, int level, const std::string& message) {
  luaL_where(L, level);
  lua_pushlstring(L, message.data(), message.size());
  lua_concat(L, 2);
  lua_error(L);
  std::abort();  // lua_error does not return; the compiler is not told so
}

void add(lua_State* L, std::initializer_list<Definition> definitions) {
  for (const Definition& definition : definitions) {
    lua_pushcfunction(L, definition.function);
    if (definition.waits) {
      lua_getfield(L, LUA_REGISTRYINDEX, "khost.settled");
      lua_insert(L, -2);
      lua_call(L, 1, 1);
    }
    lua_setfield(L, -2, definition.name);
  }
}

void make_metatable(lua_State* L, const char* name, lua_CFunction collect, std::initializer_list<Definition> methods) {
  luaL_newmetatable(L, name);
  lua_pushcfunction(L, collect);
  lua_setfield(L, -2, "__gc");
  lua_pushstring(L, name);
  lua_setfield(L, -2, "__name");
  // What getmetatable answers: a script must not get hold of __gc, which would destroy the object under our hands.
  lua_pushstring(L, name);
  lua_setfield(L, -2, "__metatable");
  lua_pushstring(L, name);
  lua_pushcclosure(
      L,
      [](lua_State* state) {
        lua_pushvalue(state, lua_upvalueindex(1));
        return 1;
      },
      1);
  lua_setfield(L, -2, "__tostring");
  lua_newtable(L);
  add(L, methods);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
}

}  // namespace khost::lua
