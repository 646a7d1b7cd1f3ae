// khost.json: text to plain data and back.
#include "host/base/json.h"
#include "host/host.h"
#include "host/modules/modules.h"

namespace khost::modules {
namespace {

constexpr int kMostDepth = 200;  // what is nested deeper would exhaust the stack where it becomes tables

bool is_too_deep(const std::string& text) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); i++) {
    const char c = text[i];
    if (in_string) {
      i += c == '\\';
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMostDepth) {
        return true;
      }
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

Result<Json> decode(std::string text) {
  if (is_too_deep(text)) {
    return Failure{"JSON is nested deeper than " + std::to_string(kMostDepth) + " levels", "bad_input"};
  }
  Json value = Json::parse(text, nullptr, false);
  if (value.is_discarded()) {
    return Failure{"not valid JSON: " + text.substr(0, 80), "bad_input"};
  }
  return value;
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
