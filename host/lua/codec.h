// Codecs: how a C++ value becomes a Lua value and back. Of numbers, text, lists, maps, optional values, plain data
// (Json), records (`fields(Tag<S>)`), objects (`class_name(Tag<T>)`) and Lua functions.
//
// get(L, i) reads the value at the absolute index i and throws ArgError when it is not one; push(L, value) leaves one
// value on top. The binder (host/lua/bind.h) is what most files include.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "host/base/json_fwd.h"
#include "host/base/result.h"

#include <lua.hpp>

namespace khost::lua {

template <class T>
struct Tag {};

// A value of the wrong type or outside what is accepted. Becomes a Lua error at the caller's line.
struct ArgError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

std::string describe_type(lua_State* L, int i);  // "number", "Shell", … for messages
[[noreturn]] void raise_expected(lua_State* L, int i, std::string_view expected);

template <class T, class = void>
struct Codec;

template <class S, class M>
struct Field {
  const char* name;
  M S::*member;
};

template <class S, class M>
constexpr Field<S, M> field(const char* name, M S::*member) {
  return {name, member};
}

template <class T>
concept Struct = requires {
  fields(Tag<T>{});
};

template <class T>
concept Class = requires {
  class_name(Tag<T>{});
};

template <>
struct Codec<bool> {
  static bool get(lua_State* L, int i);
  static void push(lua_State* L, bool value) { lua_pushboolean(L, value); }
};

template <class T>
struct Codec<T, std::enable_if_t<std::is_arithmetic_v<T> && !std::is_same_v<T, bool>>> {
  static T get(lua_State* L, int i) {
    if (lua_type(L, i) != LUA_TNUMBER) {
      raise_expected(L, i, std::is_integral_v<T> ? "whole number" : "number");
    }
    const double value = lua_tonumber(L, i);
    if constexpr (std::is_integral_v<T>) {
      // Doubles hold whole numbers exactly up to 2^53: beyond that a count would silently change.
      if (value != std::floor(value) || std::abs(value) > 9007199254740992.0) {
        raise_expected(L, i, "whole number");
      }
      if constexpr (sizeof(T) < sizeof(int64_t)) {
        using Limits = std::numeric_limits<T>;
        if (value < Limits::min() || value > Limits::max()) {
          raise_expected(
              L, i, "whole number between " + std::to_string(Limits::min()) + " and " + std::to_string(Limits::max()));
        }
      } else if (std::is_unsigned_v<T> && value < 0) {
        raise_expected(L, i, "whole number of at least 0");
      }
    }
    return static_cast<T>(value);
  }
  static void push(lua_State* L, T value) { lua_pushnumber(L, static_cast<double>(value)); }
};

template <>
struct Codec<std::string> {
  static std::string get(lua_State* L, int i);
  static void push(lua_State* L, const std::string& value) { lua_pushlstring(L, value.data(), value.size()); }
};

template <>
struct Codec<const char*> {
  static void push(lua_State* L, const char* value) { lua_pushstring(L, value); }
};

// Null in a list is the light userdata json.null; elsewhere it is nil. An empty table is a map; json.list()
// marks one as a list.
template <>
struct Codec<Json> {
  static Json get(lua_State* L, int i);
  static void push(lua_State* L, const Json& value);
};

template <>
struct Codec<std::monostate> {
  static void push(lua_State* L, std::monostate) { lua_pushboolean(L, true); }
};

template <class T>
struct Codec<std::optional<T>> {
  static std::optional<T> get(lua_State* L, int i) {
    if (lua_isnoneornil(L, i)) {
      return std::nullopt;
    }
    return Codec<T>::get(L, i);
  }
  static void push(lua_State* L, const std::optional<T>& value) {
    if (value) {
      Codec<T>::push(L, *value);
    } else {
      lua_pushnil(L);
    }
  }
};

template <class T>
struct Codec<std::vector<T>> {
  static std::vector<T> get(lua_State* L, int i) {
    if (!lua_istable(L, i)) {
      raise_expected(L, i, "list");
    }
    std::vector<T> values;
    const int n = static_cast<int>(lua_objlen(L, i));
    values.reserve(n);
    for (int k = 1; k <= n; k++) {
      lua_rawgeti(L, i, k);
      values.push_back(Codec<T>::get(L, lua_gettop(L)));
      lua_pop(L, 1);
    }
    return values;
  }
  static void push(lua_State* L, const std::vector<T>& values) {
    luaL_checkstack(L, 4, "list");
    lua_createtable(L, static_cast<int>(values.size()), 0);
    for (size_t k = 0; k < values.size(); k++) {
      Codec<T>::push(L, values[k]);
      lua_rawseti(L, -2, static_cast<int>(k + 1));
    }
  }
};

template <class T>
struct Codec<std::map<std::string, T>> {
  static std::map<std::string, T> get(lua_State* L, int i) {
    if (!lua_istable(L, i)) {
      raise_expected(L, i, "table");
    }
    std::map<std::string, T> values;
    lua_pushnil(L);
    while (lua_next(L, i) != 0) {
      if (lua_type(L, -2) != LUA_TSTRING) {
        throw ArgError("keys must be strings, got a " + describe_type(L, -2));
      }
      values.emplace(lua_tostring(L, -2), Codec<T>::get(L, lua_gettop(L)));
      lua_pop(L, 1);
    }
    return values;
  }
  static void push(lua_State* L, const std::map<std::string, T>& values) {
    luaL_checkstack(L, 4, "map");
    lua_createtable(L, 0, static_cast<int>(values.size()));
    for (const auto& [key, value] : values) {
      Codec<T>::push(L, value);
      lua_setfield(L, -2, key.c_str());
    }
  }
};

// Records. A missing key keeps the default written in C++; an unknown key is an error that names the legal ones.
template <Struct S>
struct Codec<S> {
  static S get(lua_State* L, int i) {
    S value{};
    if (lua_isnoneornil(L, i)) {
      return value;
    }
    if (!lua_istable(L, i)) {
      raise_expected(L, i, "table");
    }
    refuse_unknown_keys(L, i);
    std::apply([&](const auto&... f) { (read(L, i, value, f), ...); }, fields(Tag<S>{}));
    return value;
  }
  static void push(lua_State* L, const S& value) {
    luaL_checkstack(L, 4, "record");
    lua_newtable(L);
    std::apply(
        [&](const auto&... f) {
          ((Codec<std::decay_t<decltype(value.*f.member)>>::push(L, value.*f.member), lua_setfield(L, -2, f.name)),
           ...);
        },
        fields(Tag<S>{}));
  }

 private:
  template <class Base, class M>  // a record's fields may be those of its base
  static void read(lua_State* L, int i, S& value, const Field<Base, M>& f) {
    lua_getfield(L, i, f.name);
    if (!lua_isnil(L, -1)) {
      try {
        value.*f.member = Codec<M>::get(L, lua_gettop(L));
      } catch (const ArgError& error) {
        throw ArgError(std::string(f.name) + ": " + error.what());
      }
    }
    lua_pop(L, 1);
  }
  static void refuse_unknown_keys(lua_State* L, int i) {
    lua_pushnil(L);
    while (lua_next(L, i) != 0) {
      lua_pop(L, 1);
      const std::string key = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : describe_type(L, -1);
      std::string legal;
      bool known = false;
      std::apply(
          [&](const auto&... f) {
            ((known = known || key == f.name, legal += (legal.empty() ? "" : ", ") + std::string(f.name)), ...);
          },
          fields(Tag<S>{}));
      if (!known) {
        throw ArgError("unknown key '" + key + "' (known: " + legal + ")");
      }
    }
  }
};

// Objects: a userdata that holds a shared_ptr. Operations in flight hold their own, so that collecting the
// userdata meanwhile is harmless.
template <Class T>
struct Codec<std::shared_ptr<T>> {
  static std::shared_ptr<T> get(lua_State* L, int i) {
    void* data = lua_touserdata(L, i);
    if (data != nullptr && lua_getmetatable(L, i)) {
      luaL_getmetatable(L, class_name(Tag<T>{}));
      const bool same = lua_rawequal(L, -1, -2);
      lua_pop(L, 2);
      if (same) {
        const auto& object = *static_cast<std::shared_ptr<T>*>(data);
        if (!object) {
          throw ArgError(std::string("the ") + class_name(Tag<T>{}) + " is closed");
        }
        return object;
      }
    }
    raise_expected(L, i, class_name(Tag<T>{}));
  }
  static void push(lua_State* L, const std::shared_ptr<T>& value) {
    if (!value) {
      lua_pushnil(L);
      return;
    }
    new (lua_newuserdata(L, sizeof(std::shared_ptr<T>))) std::shared_ptr<T>(value);
    luaL_getmetatable(L, class_name(Tag<T>{}));
    lua_setmetatable(L, -2);
  }
};

// A Lua function kept by C++. Call it on the VM's thread only.
class Function {
 public:
  Function() = default;
  Function(lua_State* L, int i);
  explicit operator bool() const { return reference_ != nullptr; }
  void push(lua_State* L) const;
  // Protected call; arguments and the one result as plain data. The failure carries Lua's message.
  Result<Json> call(lua_State* L, const std::vector<Json>& arguments) const;

 private:
  std::shared_ptr<int> reference_;
};

template <>
struct Codec<Function> {
  static Function get(lua_State* L, int i) {
    if (!lua_isfunction(L, i)) {
      raise_expected(L, i, "function");
    }
    return Function(L, i);
  }
  static void push(lua_State* L, const Function& value) { value.push(L); }
};

}  // namespace khost::lua
