// khost.json: text to plain data and back.
#include "host/base/json.h"
#include "host/base/json_text.h"
#include "host/host.h"
#include "host/modules/modules.h"

namespace khost::modules {
namespace {

Result<Json> decode(std::string text, std::optional<double> most_parts) {
  if (most_parts && !(*most_parts >= 1)) {
    throw lua::ArgError("json.decode: at least 1 part expected");
  }
  return parse_json(text, most_parts && *most_parts < 1e15 ? static_cast<size_t>(*most_parts) : kAnyParts);
}

// Bytes that are not UTF-8 become U+FFFD: tool output may hold anything.
std::string encode(Json value, std::optional<bool> pretty) {
  return value.dump(pretty.value_or(false) ? 2 : -1, ' ', false, Json::error_handler_t::replace);
}

// list(t): marks a table, also an empty one, as a list. Without a table: a new empty list.
int list(lua_State* L) {
  if (lua_isnoneornil(L, 1)) {
    lua_settop(L, 0);
    lua_newtable(L);
  }
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  lua_newtable(L);
  lua_pushboolean(L, 1);
  lua_setfield(L, -2, "__is_list");
  lua_setmetatable(L, 1);
  return 1;
}

}  // namespace

void open_json(lua_State* L) {
  lua_newtable(L);
  lua::add(L, {lua::def<decode>("decode"), lua::def<encode>("encode"), lua::raw("list", list)});
  lua_pushlightuserdata(L, nullptr);
  lua_setfield(L, -2, "null");
}

}  // namespace khost::modules
