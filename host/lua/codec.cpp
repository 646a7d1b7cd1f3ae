#include "host/lua/codec.h"

#include "host/base/json.h"

namespace khost::lua {
namespace {

constexpr int kDeepest = 64;  // a table that nests deeper refers to itself

// A table is a list when its keys are exactly 1…n, or when it is empty and marked by json.list().
bool is_list(lua_State* L, int i) {
  const size_t n = lua_objlen(L, i);
  if (n == 0) {
    const bool marked = luaL_getmetafield(L, i, "__is_list") != 0;
    if (marked) {
      lua_pop(L, 1);
    }
    return marked;
  }
  size_t keys = 0;
  lua_pushnil(L);
  while (lua_next(L, i) != 0) {
    lua_pop(L, 1);
    keys++;
  }
  return keys == n;
}

// Marks the table on top of the stack as a list, as json.list() does. One metatable serves all.
void mark_list(lua_State* L) {
  if (luaL_newmetatable(L, "khost.list") != 0) {
    lua_pushboolean(L, 1);
    lua_setfield(L, -2, "__is_list");
  }
  lua_setmetatable(L, -2);
}

Json read_json(lua_State* L, int i, int depth);

Json read_table(lua_State* L, int i, int depth) {
  if (depth > kDeepest) {
    throw ArgError("a table nested deeper than 64 levels: does it contain itself?");
  }
  luaL_checkstack(L, 4, "table");
  if (is_list(L, i)) {
    Json list = Json::array();
    const int n = static_cast<int>(lua_objlen(L, i));
    for (int k = 1; k <= n; k++) {
      lua_rawgeti(L, i, k);
      list.push_back(read_json(L, lua_gettop(L), depth + 1));
      lua_pop(L, 1);
    }
    return list;
  }
  Json map = Json::object();
  lua_pushnil(L);
  while (lua_next(L, i) != 0) {
    std::string key;
    if (lua_type(L, -2) == LUA_TSTRING) {
      size_t size = 0;
      const char* bytes = lua_tolstring(L, -2, &size);
      key.assign(bytes, size);  // with the zero bytes that it holds
    } else if (lua_type(L, -2) == LUA_TNUMBER) {
      key = std::to_string(static_cast<long long>(lua_tonumber(L, -2)));
    } else {
      throw ArgError("keys must be strings or numbers, got a " + describe_type(L, -2));
    }
    map[key] = read_json(L, lua_gettop(L), depth + 1);
    lua_pop(L, 1);
  }
  return map;
}

Json read_json(lua_State* L, int i, int depth) {
  switch (lua_type(L, i)) {
    case LUA_TNONE:
    case LUA_TNIL:
      return nullptr;
    case LUA_TBOOLEAN:
      return lua_toboolean(L, i) != 0;
    case LUA_TNUMBER: {
      const double value = lua_tonumber(L, i);
      const bool whole = value == std::floor(value) && std::abs(value) < 9007199254740992.0;
      return whole ? Json(static_cast<int64_t>(value)) : Json(value);
    }
    case LUA_TSTRING:
      return Codec<std::string>::get(L, i);
    case LUA_TLIGHTUSERDATA:
      return nullptr;
    case LUA_TTABLE:
      return read_table(L, i, depth);
    default:
      throw ArgError("plain data expected, got a " + describe_type(L, i));
  }
}

}  // namespace

std::string describe_type(lua_State* L, int i) {
  if (luaL_getmetafield(L, i, "__name") != 0) {
    std::string name = lua_isstring(L, -1) ? lua_tostring(L, -1) : "object";
    lua_pop(L, 1);
    return name;
  }
  return lua_type(L, i) == LUA_TNONE ? "nothing" : luaL_typename(L, i);
}

void raise_expected(lua_State* L, int i, std::string_view expected) {
  std::string got = describe_type(L, i);
  if (lua_type(L, i) == LUA_TNUMBER) {
    got += " " + std::string(lua_pushfstring(L, "%f", lua_tonumber(L, i)));
    lua_pop(L, 1);
  }
  throw ArgError(std::string(expected) + " expected, got " + got);
}

bool Codec<bool>::get(lua_State* L, int i) {
  if (!lua_isboolean(L, i)) {
    raise_expected(L, i, "boolean");
  }
  return lua_toboolean(L, i) != 0;
}

std::string Codec<std::string>::get(lua_State* L, int i) {
  // Numbers are refused: lua_tolstring would turn the value on the stack into a string.
  if (lua_type(L, i) != LUA_TSTRING) {
    raise_expected(L, i, "string");
  }
  size_t size = 0;
  const char* data = lua_tolstring(L, i, &size);
  return {data, size};
}

Json Codec<Json>::get(lua_State* L, int i) {
  return read_json(L, i, 0);
}

void Codec<Json>::push(lua_State* L, const Json& value) {
  luaL_checkstack(L, 6, "plain data");
  switch (value.type()) {
    case Json::value_t::boolean:
      lua_pushboolean(L, value.get<bool>());
      break;
    case Json::value_t::number_integer:
    case Json::value_t::number_unsigned:
    case Json::value_t::number_float:
      lua_pushnumber(L, value.get<double>());
      break;
    case Json::value_t::string: {
      const auto& text = value.get_ref<const std::string&>();
      lua_pushlstring(L, text.data(), text.size());
      break;
    }
    case Json::value_t::array:
      lua_createtable(L, static_cast<int>(value.size()), 0);
      if (value.empty()) {
        mark_list(L);  // so that it is written as [] again, not as {}
      }
      for (size_t k = 0; k < value.size(); k++) {
        if (value[k].is_null()) {
          lua_pushlightuserdata(L, nullptr);
        } else {
          push(L, value[k]);
        }
        lua_rawseti(L, -2, static_cast<int>(k + 1));
      }
      break;
    case Json::value_t::object:
      lua_createtable(L, 0, static_cast<int>(value.size()));
      for (const auto& [key, item] : value.items()) {
        lua_pushlstring(L, key.data(), key.size());
        push(L, item);
        lua_rawset(L, -3);
      }
      break;
    default:
      lua_pushnil(L);
  }
}

Function::Function(lua_State* L, int i) {
  lua_pushvalue(L, i);
  const int reference = luaL_ref(L, LUA_REGISTRYINDEX);
  // The main thread of the VM outlives every coroutine that may have made this reference.
  lua_pushthread(L);
  lua_pop(L, 1);
  lua_getfield(L, LUA_REGISTRYINDEX, "khost.main");
  lua_State* main = lua_tothread(L, -1);
  lua_pop(L, 1);
  reference_ = std::shared_ptr<int>(new int(reference), [main](int* r) {
    if (main != nullptr) {
      luaL_unref(main, LUA_REGISTRYINDEX, *r);
    }
    delete r;
  });
}

void Function::push(lua_State* L) const {
  lua_rawgeti(L, LUA_REGISTRYINDEX, *reference_);
}

Result<Json> Function::call(lua_State* L, const std::vector<Json>& arguments) const {
  luaL_checkstack(L, static_cast<int>(arguments.size()) + 4, "call");
  push(L);
  for (const Json& value : arguments) {
    Codec<Json>::push(L, value);
  }
  if (lua_pcall(L, static_cast<int>(arguments.size()), 1, 0) != 0) {
    Failure failure{lua_isstring(L, -1) ? lua_tostring(L, -1) : "an error that is no text", "host"};
    lua_pop(L, 1);
    return failure;
  }
  try {
    Json value = Codec<Json>::get(L, lua_gettop(L));
    lua_pop(L, 1);
    return value;
  } catch (const ArgError& error) {
    lua_pop(L, 1);
    return Failure{error.what(), "bad_input"};
  }
}

}  // namespace khost::lua
