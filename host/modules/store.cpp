// Lua face of host/store.
#include "host/store/store.h"

#include "host/lua/bind.h"
#include "host/modules/modules.h"

namespace khost::lua {

// Beside class_name and not in the anonymous namespace: the binder finds both by the namespace of Tag.
constexpr const char* class_name(Tag<Store>) {
  return "Store";
}

constexpr auto fields(Tag<RunInfo>) {
  return std::tuple(field("name", &RunInfo::name), field("recipe", &RunInfo::recipe), field("preset", &RunInfo::preset),
                    field("seed", &RunInfo::seed), field("config", &RunInfo::config), field("note", &RunInfo::note));
}

constexpr auto fields(Tag<StoreQuery>) {
  return std::tuple(field("where", &StoreQuery::where), field("after", &StoreQuery::after),
                    field("limit", &StoreQuery::limit), field("columns", &StoreQuery::columns));
}

namespace {

struct OpenOptions {
  bool read_only = false;
};
constexpr auto fields(Tag<OpenOptions>) {
  return std::tuple(field("read_only", &OpenOptions::read_only));
}

using StorePtr = std::shared_ptr<Store>;

StorePtr self(lua_State* L) {
  return argument<StorePtr>(L, 1);
}

// What cannot fail in a right program (an unknown kind, a closed store, a full disk) raises from functions whose
// results are used without a check.
template <class T>
T must(Result<T> result) {
  if (!result) {
    throw ArgError(result.failure().message);
  }
  return std::move(result).value();
}

Result<StorePtr> create(std::string root, RunInfo info) {
  return Store::create(root, info);
}

Result<StorePtr> open(std::string folder, OpenOptions options) {
  return Store::open(folder, options.read_only ? Store::Mode::read : Store::Mode::write);
}

Status fork(std::string from, std::string folder, RunInfo info) {
  return Store::fork(from, folder, info);
}

Result<std::string> find(std::string root, std::optional<std::string> name) {
  return Store::find(root, name.value_or(""));
}

std::vector<std::string> runs(std::string root) {
  return Store::runs(root);
}

Result<int64_t> append(StorePtr store, std::string kind, Json record) {
  return store->append(kind, record);
}
Status put(StorePtr store, std::string kind, std::string key, Json value) {
  return store->put(kind, key, value);
}
Json get(StorePtr store, std::string kind, Json key) {
  return must(store->get(kind, key));
}
Result<Json> list(StorePtr store, std::string kind, StoreQuery query) {
  return store->list(kind, query);
}
Result<int64_t> count(StorePtr store, std::string kind, Json where) {
  return store->count(kind, where.is_null() ? Json::object() : where);
}
Result<Json> query(StorePtr store, std::string sql, std::optional<std::vector<Json>> parameters) {
  return store->query(sql, parameters.value_or(std::vector<Json>{}));
}

// Upvalues: store, kind, query (without after and limit), page, position in page, last id, what is left of limit.
constexpr int kPage = 200;
int next_record(lua_State* L) {
  return guarded(L, 1, [L] {
    int64_t left = lua_tointeger(L, lua_upvalueindex(7));
    if (left == 0) {
      return 0;
    }
    auto position = static_cast<int>(lua_tointeger(L, lua_upvalueindex(5))) + 1;
    if (static_cast<size_t>(position) > lua_objlen(L, lua_upvalueindex(4))) {
      StoreQuery page = Codec<StoreQuery>::get(L, lua_upvalueindex(3));
      page.after = lua_tointeger(L, lua_upvalueindex(6));
      page.limit = kPage;
      auto store = Codec<StorePtr>::get(L, lua_upvalueindex(1));
      Json rows = must(store->list(lua_tostring(L, lua_upvalueindex(2)), page));
      if (rows.empty()) {
        return 0;
      }
      const Json& last = rows.back();
      lua_pushnumber(L, static_cast<double>(
                            (last.contains("id") && last["id"].is_number() ? last["id"] : last["row"]).get<int64_t>()));
      lua_replace(L, lua_upvalueindex(6));
      Codec<Json>::push(L, rows);
      lua_replace(L, lua_upvalueindex(4));
      position = 1;
    }
    lua_pushinteger(L, position);
    lua_replace(L, lua_upvalueindex(5));
    lua_pushinteger(L, static_cast<lua_Integer>(left - 1));
    lua_replace(L, lua_upvalueindex(7));
    lua_rawgeti(L, lua_upvalueindex(4), position);
    // The loop ends at the first nil, so records with keys come with those.
    const std::string key = (*find_kind(lua_tostring(L, lua_upvalueindex(2))))->key;
    lua_getfield(L, -1, key.empty() ? "id" : key.c_str());
    lua_insert(L, -2);
    return 2;
  });
}

int each(lua_State* L) {
  return guarded(L, 1, [L] {
    self(L);
    argument<std::string>(L, 2);
    auto start = argument<StoreQuery>(L, 3);
    lua_settop(L, 3);
    if (lua_isnil(L, 3)) {
      lua_newtable(L);
      lua_replace(L, 3);
    }
    lua_newtable(L);
    lua_pushinteger(L, 0);
    lua_pushnumber(L, static_cast<double>(start.after));
    lua_pushnumber(L, static_cast<double>(start.limit));
    lua_pushcclosure(L, next_record, 7);
    return 1;
  });
}

int transaction(lua_State* L) {
  bool raised = false;
  int results = guarded(L, 1, [L, &raised] {
    auto store = self(L);
    if (!lua_isfunction(L, 2)) {
      throw ArgError("argument 2: function expected, got " + describe_type(L, 2));
    }
    must(store->begin());
    lua_settop(L, 2);
    lua_pushvalue(L, 2);
    raised = lua_pcall(L, 0, LUA_MULTRET, 0) != 0;
    must(raised ? store->rollback() : store->commit());
    return lua_gettop(L) - 2;
  });
  // The value that was raised, as it was: a cancellation must stay one.
  return raised ? lua_error(L) : results;
}

void begin_stage(StorePtr store, std::string name) {
  must(store->begin_stage(name));
}
void finish_stage(StorePtr store, std::string name, Json result) {
  must(store->finish_stage(name, result));
}
Json stage(StorePtr store, std::string name) {
  Json record = must(store->stage(name));
  if (record.is_object()) {
    record.erase("row");
  }
  return record;
}

int trajectories(lua_State* L) {
  return guarded(L, 1, [L] {
    Json rows = must(self(L)->trajectories(argument<std::string>(L, 2), argument<int64_t>(L, 3)));
    lua_newtable(L);
    for (const auto& row : rows) {
      if (row.contains("index")) {
        Codec<Json>::push(L, row);
        lua_rawseti(L, -2, row["index"].get<int>());
      }
    }
    return 1;
  });
}

Status metrics(StorePtr store, std::string stage_name, int64_t step, Json values,
               std::optional<std::string> script_hash) {
  return store->metrics(stage_name, step, values, script_hash.value_or(""));
}

Json info(StorePtr store) {
  return must(store->info());
}
std::string folder(StorePtr store) {
  return store->folder();
}
void finish(StorePtr store, std::string status) {
  if (status != "done" && status != "failed") {
    throw ArgError("argument 2: 'done' or 'failed' expected, got '" + status + "'");
  }
  must(store->finish(status));
}
void close(StorePtr store) {
  store->close();
}

}  // namespace

}  // namespace khost::lua

namespace khost::modules {

void open_store(lua_State* L) {
  using namespace lua;
  add_class<Store>(L, {def<append>("append"), def<put>("put"), def<get>("get"), def<list>("list"), raw("each", each),
                       def<count>("count"), def<query>("query"), raw("transaction", transaction),
                       def<begin_stage>("begin_stage"), def<finish_stage>("finish_stage"), def<stage>("stage"),
                       raw("trajectories", trajectories), def<metrics>("metrics"), def<info>("info"),
                       def<folder>("folder"), def<finish>("finish"), def<close>("close")});
  lua_newtable(L);
  add(L, {def<create>("create"), def<open>("open"), def<fork>("fork"), def<find>("find"), def<runs>("runs")});
}

}  // namespace khost::modules
