// Lua face of host/config: load, get, show, diff, parse, presets, and the fields of a schema.
#include "host/config/config.h"

#include "host/config/nearest.h"
#include "host/config/toml.h"
#include "host/host.h"
#include "host/lua/bind.h"
#include "host/modules/modules.h"

namespace khost::lua {

namespace {

struct LoadOptions {
  std::optional<std::string> preset;
  std::vector<std::string> set;
  std::optional<Json> schema;
  std::optional<std::string> machine;
};
constexpr auto fields(Tag<LoadOptions>) {
  return std::tuple(field("preset", &LoadOptions::preset), field("set", &LoadOptions::set),
                    field("schema", &LoadOptions::schema), field("machine", &LoadOptions::machine));
}

struct FieldOptions {
  Json standard;  // null: none
  std::optional<double> min, max;
  std::vector<std::string> choices;
  std::string help;
};
constexpr auto fields(Tag<FieldOptions>) {
  return std::tuple(field("default", &FieldOptions::standard), field("min", &FieldOptions::min),
                    field("max", &FieldOptions::max), field("choices", &FieldOptions::choices),
                    field("help", &FieldOptions::help));
}

// A loaded configuration on its way to Lua: tables whose unknown keys raise when read or set.
struct Loaded {
  Config config;
};

int unknown_key(lua_State* L) {
  lua_Debug caller{};
  // The binder asks for optional keys of an options table: C code may look for what is not there.
  if (lua_getstack(L, 1, &caller) && lua_getinfo(L, "S", &caller) && caller.what[0] == 'C') {
    lua_pushnil(L);
    return 1;
  }
  return guarded(L, 1, [L]() -> int {
    const std::string prefix = lua_tostring(L, lua_upvalueindex(1));
    const std::string key = lua_isstring(L, 2) ? lua_tostring(L, 2) : describe_type(L, 2);
    std::vector<std::string> legal;
    for (lua_pushnil(L); lua_next(L, 1) != 0; lua_pop(L, 1)) {
      if (lua_type(L, -2) == LUA_TSTRING) {
        legal.push_back(lua_tostring(L, -2));
      }
    }
    const std::string hint = nearest(key, legal);
    throw ArgError("the configuration has no key '" + prefix + key + "'" +
                   (hint.empty() ? "" : "; did you mean '" + prefix + hint + "'?"));
  });
}

int refuse_writing(lua_State* L) {
  return guarded(L, 1, [L]() -> int {
    throw ArgError(std::string("the configuration is read-only: '") + lua_tostring(L, lua_upvalueindex(1)) +
                   (lua_isstring(L, 2) ? lua_tostring(L, 2) : "?") + "' cannot be set; use --set");
  });
}

// Gives every map below the value on top of the stack the strict metatable.
void make_strict(lua_State* L, const Json& value, const std::string& prefix) {
  luaL_checkstack(L, 6, "configuration");
  for (const auto& [key, child] : value.items()) {
    if (child.is_object()) {
      lua_getfield(L, -1, key.c_str());
      make_strict(L, child, prefix + key + ".");
      lua_pop(L, 1);
    }
  }
  lua_createtable(L, 0, 3);
  lua_pushlstring(L, prefix.data(), prefix.size());
  lua_pushcclosure(L, unknown_key, 1);
  lua_setfield(L, -2, "__index");
  lua_pushlstring(L, prefix.data(), prefix.size());
  lua_pushcclosure(L, refuse_writing, 1);
  lua_setfield(L, -2, "__newindex");
  lua_setmetatable(L, -2);
}

}  // namespace

template <>
struct Codec<Loaded> {
  static void push(lua_State* L, const Loaded& loaded) {
    Codec<Json>::push(L, loaded.config.value);
    make_strict(L, loaded.config.value, "");
    // `show` says where values come from; the root's metatable remembers.
    Json origins = Json::object();
    for (const auto& [name, origin] : loaded.config.origins) {
      origins[name] = {{"file", origin.file}, {"line", origin.line}};
    }
    lua_getmetatable(L, -1);
    Codec<Json>::push(L, origins);
    lua_setfield(L, -2, "__origins");
    lua_pop(L, 1);
  }
};

namespace {

std::string preset_folder(lua_State* L) {
  return host_of(L).root() + "/recipes/presets";
}

Result<Loaded> load(lua_State* L, LoadOptions options) {
  ConfigRequest request;
  request.machine = options.machine.value_or(host_of(L).root() + "/khost.toml");
  request.overrides = std::move(options.set);
  if (options.preset) {
    auto path = resolve_preset(preset_folder(L), *options.preset);
    if (!path) {
      return path.failure();
    }
    request.preset = *path;
  }
  if (options.schema) {
    auto schema = parse_schema(*options.schema);
    if (!schema) {
      throw ArgError(schema.failure().message);
    }
    request.schema = std::move(schema).value();
  }
  auto config = load_config(request);
  return config ? Result<Loaded>(Loaded{std::move(config).value()}) : config.failure();
}

int show(lua_State* L) {
  return guarded(L, 1, [L] {
    Config config;
    config.value = argument<Json>(L, 1);
    if (luaL_getmetafield(L, 1, "__origins")) {
      const Json origins = Codec<Json>::get(L, lua_gettop(L));
      for (const auto& [name, origin] : origins.items()) {
        config.origins[name] = {origin["file"], origin["line"]};
      }
    }
    Codec<std::string>::push(L, show_config(config));
    return 1;
  });
}

Json get(Json config, std::string name, Json standard) {
  const Json* found = find_value(config, name);
  return found ? *found : standard;
}

Json plain(Json config) {
  return config;
}

Result<Json> parse(std::string text, std::optional<std::string> name) {
  auto document = parse_toml(text, name.value_or("text"));
  return document ? Result<Json>(std::move(document).value().value) : document.failure();
}

std::vector<std::string> presets(lua_State* L) {
  return preset_names(preset_folder(L));
}

Json checked(Json field) {
  auto schema = parse_schema(Json{{"field", field}});
  if (!schema) {
    throw ArgError(schema.failure().message);
  }
  return field;
}

Json describe(const char* kind, FieldOptions options) {
  Json out = {{"kind", kind}};
  if (!options.standard.is_null()) {
    out["default"] = options.standard;
  }
  if (options.min) {
    out["min"] = *options.min;
  }
  if (options.max) {
    out["max"] = *options.max;
  }
  if (!options.choices.empty()) {
    out["choices"] = options.choices;
  }
  if (!options.help.empty()) {
    out["help"] = options.help;
  }
  return checked(out);
}

Json number(FieldOptions options) {
  return describe("number", std::move(options));
}
Json integer(FieldOptions options) {
  return describe("integer", std::move(options));
}
Json text(FieldOptions options) {
  return describe("text", std::move(options));
}
Json choice(FieldOptions options) {
  return describe("choice", std::move(options));
}
Json flag(FieldOptions options) {
  return describe("flag", std::move(options));
}
Json list(FieldOptions options) {
  return describe("list", std::move(options));
}
Json group(Json fields) {
  return checked({{"kind", "group"}, {"fields", std::move(fields)}});
}

Json schema(Json fields) {
  auto parsed = parse_schema(fields);
  if (!parsed) {
    throw ArgError(parsed.failure().message);
  }
  return fields;
}

}  // namespace

}  // namespace khost::lua

namespace khost::modules {

void open_config(lua_State* L) {
  using namespace lua;
  lua_newtable(L);
  add(L, {def<load>("load"), def<get>("get"), def<plain>("plain"), raw("show", show), def<diff_config>("diff"),
          def<parse>("parse"), def<presets>("presets"), def<nearest>("nearest"), def<number>("number"),
          def<integer>("integer"), def<text>("text"), def<choice>("choice"), def<flag>("flag"), def<list>("list"),
          def<group>("group"), def<schema>("schema")});
}

}  // namespace khost::modules
