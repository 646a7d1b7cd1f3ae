// The binder: C++ functions, plain structs and shared objects as Lua values, over the raw Lua C API.
//
//   struct Options { double timeout_s = 60; };
//   constexpr auto fields(Tag<Options>) { return std::tuple(field("timeout_s", &Options::timeout_s)); }
//   constexpr const char* class_name(Tag<Shell>) { return "Shell"; }
//
//   lua_newtable(L);
//   add(L, {def<open_shell>("open")});
//   add_class<Shell>(L, {def<shell_run>("run")});
//
// A function that takes Resume<R> first waits (host/lua/task.h). All of it belongs to the thread of the VM.
#pragma once

#include <exception>
#include <initializer_list>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "host/lua/codec.h"

namespace khost::lua {

// Everything after this argument as it stands on the stack; for functions that forward to Lua.
template <class T>
int push_all(lua_State* L, const T& value) {
  Codec<std::decay_t<T>>::push(L, value);
  return 1;
}
int push_failure(lua_State* L, const Failure& failure);  // nil, message, code
template <class T>
int push_all(lua_State* L, const Result<T>& result) {
  return result ? push_all(L, result.value()) : push_failure(L, result.failure());
}
template <class... T>
int push_all(lua_State* L, const std::tuple<T...>& values) {
  std::apply([&](const auto&... v) { (push_all(L, v), ...); }, values);
  return sizeof...(T);
}

// The only place where C++ exceptions become Lua errors. `level` says whose line the message names.
[[noreturn]] void raise_at(lua_State* L, int level, const std::string& message);
template <class Body>
int guarded(lua_State* L, int level, Body body) {
  std::string message;
  try {
    return body();
  } catch (const std::exception& error) {
    message = error.what();
  }
  raise_at(L, level, message);
}

template <class T>
decltype(auto) argument(lua_State* L, int i) {
  try {
    return Codec<std::decay_t<T>>::get(L, i);
  } catch (const ArgError& error) {
    throw ArgError("argument " + std::to_string(i) + ": " + error.what());
  }
}

// What a function takes of the stack: all its parameters, but for the VM itself where that comes first (for functions
// that need the host behind it).
template <class... A>
struct Parameters {
  static constexpr bool with_vm = false;
  using Values = std::tuple<std::decay_t<A>...>;
};
template <class... A>
struct Parameters<lua_State*, A...> {
  static constexpr bool with_vm = true;
  using Values = std::tuple<std::decay_t<A>...>;
};

template <class... T, size_t... I>
std::tuple<T...> read_arguments([[maybe_unused]] lua_State* L, Tag<std::tuple<T...>>, std::index_sequence<I...>) {
  // Braces fix the order of evaluation: the first bad argument is the one reported.
  return std::tuple<T...>{argument<T>(L, static_cast<int>(I) + 1)...};
}

// Reads F's arguments from the stack and returns a function that calls F with them. What that function is called with
// (`front`) comes first; A are the parameters of F behind it.
template <auto F, class... A>
auto with_arguments(lua_State* L) {
  using Values = typename Parameters<A...>::Values;
  constexpr auto kPlaces = std::make_index_sequence<std::tuple_size_v<Values>>{};
  return [L, values = read_arguments(L, Tag<Values>{}, kPlaces)](auto... front) mutable -> decltype(auto) {
    return std::apply(
        [&](auto&... value) -> decltype(auto) {
          if constexpr (Parameters<A...>::with_vm) {
            return F(std::move(front)..., L, std::move(value)...);
          } else {
            return F(std::move(front)..., std::move(value)...);
          }
        },
        values);
  };
}

template <auto F, class Signature = decltype(F)>
struct Caller;

template <auto F, class R, class... A>
struct Caller<F, R (*)(A...)> {
  static constexpr bool waits = false;
  static int call(lua_State* L) {
    return guarded(L, 1, [L] {
      auto function = with_arguments<F, A...>(L);
      if constexpr (std::is_void_v<R>) {
        function();
        return 0;
      } else {
        return push_all(L, function());
      }
    });
  }
};

struct Definition {
  const char* name;
  lua_CFunction function;
  bool waits = false;
};

template <auto F>
constexpr Definition def(const char* name) {
  return {name, &Caller<F>::call, Caller<F>::waits};
}

// A function on the bare Lua C API, for what the binder cannot say.
inline Definition raw(const char* name, lua_CFunction function) {
  return {name, function, false};
}

// Adds functions to the table on top of the stack; waiting ones behind the shim that raises on cancellation.
void add(lua_State* L, std::initializer_list<Definition> definitions);

void make_metatable(lua_State* L, const char* name, lua_CFunction collect, std::initializer_list<Definition> methods);

template <Class T>
void add_class(lua_State* L, std::initializer_list<Definition> methods) {
  make_metatable(
      L, class_name(Tag<T>{}),
      [](lua_State* state) {
        using Pointer = std::shared_ptr<T>;
        static_cast<Pointer*>(lua_touserdata(state, 1))->~Pointer();
        return 0;
      },
      methods);
}

}  // namespace khost::lua
