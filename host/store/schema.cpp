#include "host/store/schema.h"

#include <cmath>
#include <cstring>

#include "host/config/nearest.h"
#include "host/config/toml.h"
#include "host/log/log.h"

namespace khost {

namespace {

using T = ColumnType;

Column column(const std::string& name, ColumnType type) {
  return {name, type, "/" + name};
}

std::vector<Kind> make_kinds() {
  return {
      {"stages",
       "name",
       {column("name", T::text), column("status", T::text), column("attempts", T::integer),
        column("started_s", T::real), column("finished_s", T::real), column("result", T::json)},
       ""},
      {"tasks",
       "id",
       {column("id", T::text), column("name", T::text), column("split", T::text), column("status", T::text),
        column("reason", T::text), column("family", T::text), column("eager_s", T::real), column("compile_s", T::real),
        column("source", T::text)},
       ""},
      {"trajectories",
       "",
       {column("stage", T::text),
        column("step", T::integer),
        {"idx", T::integer, "/index"},
        column("task", T::text),
        column("name", T::text),
        column("policy", T::text),
        column("status", T::text),
        column("reason", T::text),
        column("reward", T::real),
        column("turn_count", T::integer),
        column("token_count", T::integer),
        column("seconds", T::real),
        column("script_hash", T::text),
        column("messages", T::json),
        column("tokens", T::int32s),
        column("mask", T::bytes),
        column("logprobs", T::float32s)},
       "UNIQUE (stage, step, idx)"},
      {"turns",
       "",
       {column("trajectory", T::integer),
        {"idx", T::integer, "/index"},
        column("role", T::text),
        column("text", T::text),
        column("tool", T::text),
        column("arguments", T::json),
        column("observation", T::text),
        column("status", T::text),
        column("seconds", T::real),
        column("token_count", T::integer)},
       ""},
      {"verdicts",
       "",
       {column("stage", T::text),
        column("step", T::integer),
        column("trajectory", T::integer),
        column("task", T::text),
        column("policy", T::text),
        column("status", T::text),
        column("judge_stage", T::text),
        column("reason", T::text),
        column("detail", T::text),
        column("correct", T::flag),
        {"candidate_s", T::real, "/times/candidate_s"},
        {"eager_s", T::real, "/times/eager_s"},
        {"compile_s", T::real, "/times/compile_s"},
        {"speedup_eager", T::real, "/speedup/eager"},
        {"speedup_compile", T::real, "/speedup/compile"},
        {"faster_eager", T::flag, "/faster/eager"},
        {"faster_compile", T::flag, "/faster/compile"},
        column("slack_s", T::real),
        column("reward", T::real),
        column("scheme", T::text),
        column("script_hash", T::text),
        {"artefact_hash", T::text, "/evidence/artefact_hash"},
        column("files", T::json),
        column("evidence", T::json)},
       ""},
      {"metrics",
       "",
       {column("stage", T::text), column("step", T::integer), column("name", T::text), column("value", T::real),
        column("script_hash", T::text)},
       ""},
      {"scripts", "hash", {column("hash", T::text), column("path", T::text), column("text", T::text)}, ""},
      {"events", "", {column("level", T::text), column("event", T::text)}, ""},
      {"state", "key", {column("key", T::text), column("value", T::json)}, ""},
  };
}

std::string sql_type(ColumnType type) {
  switch (type) {
    case T::integer:
    case T::flag:
      return "INTEGER";
    case T::real:
      return "REAL";
    case T::text:
    case T::json:
      return "TEXT";
    default:
      return "BLOB";
  }
}

std::string expectation(ColumnType type) {
  switch (type) {
    case T::integer:
      return "a whole number";
    case T::real:
      return "a number";
    case T::text:
      return "text";
    case T::flag:
      return "a flag (true or false)";
    default:
      return "a list of numbers";
  }
}

template <class N>
Result<std::string> pack(const Json& list) {
  std::string out;
  if (list.is_object() && list.empty()) {
    return out;  // Lua's {} is a list too
  }
  out.reserve(list.size() * sizeof(N));
  for (const auto& item : list) {
    if (!item.is_number() && !item.is_boolean()) {
      return Failure{"", "bad_input"};
    }
    N value = item.is_boolean() ? static_cast<N>(item.get<bool>()) : item.get<N>();
    out.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  return out;
}

template <class N>
Json unpack(const std::string& bytes) {
  Json list = Json::array();
  for (size_t at = 0; at + sizeof(N) <= bytes.size(); at += sizeof(N)) {
    N value;
    memcpy(&value, bytes.data() + at, sizeof value);
    list.push_back(value);
  }
  return list;
}

Result<std::string> pack_column(ColumnType type, const Json& value) {
  if (!value.is_array() && !(value.is_object() && value.empty())) {
    return Failure{"", "bad_input"};
  }
  switch (type) {
    case T::int32s:
      return pack<int32_t>(value);
    case T::float32s:
      return pack<float>(value);
    default:
      return pack<uint8_t>(value);
  }
}

}  // namespace

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all = make_kinds();
  return all;
}

Result<const Kind*> find_kind(const std::string& name) {
  std::vector<std::string> names;
  for (const auto& kind : kinds()) {
    if (kind.name == name) {
      return &kind;
    }
    names.push_back(kind.name);
  }
  return Failure{"the store has no kind '" + name + "'; did you mean '" + nearest(name, names) + "'?", "bad_input"};
}

const Column* find_column(const Kind& kind, const std::string& name) {
  for (const auto& column : kind.columns) {
    std::string field = column.path.substr(1);
    for (auto& c : field) {
      c = c == '/' ? '.' : c;
    }
    if (column.name == name || field == name) {
      return &column;
    }
  }
  return nullptr;
}

std::string schema_sql() {
  // The run itself: one row.
  std::string sql =
      "CREATE TABLE IF NOT EXISTS runs (id TEXT PRIMARY KEY, recipe TEXT, preset TEXT, seed INTEGER, status TEXT,"
      " started_s REAL, finished_s REAL, config TEXT, data TEXT);\n";
  for (const auto& kind : kinds()) {
    sql += "CREATE TABLE IF NOT EXISTS " + kind.name + " (";
    sql += kind.key.empty() ? "id INTEGER PRIMARY KEY AUTOINCREMENT, " : "";
    for (const auto& column : kind.columns) {
      sql += column.name + " " + sql_type(column.type);
      sql += column.name == kind.key ? " PRIMARY KEY NOT NULL, " : ", ";
    }
    sql += "data TEXT, created_s REAL DEFAULT ((julianday('now') - 2440587.5) * 86400.0)";
    sql += kind.constraint.empty() ? "" : ", " + kind.constraint;
    sql += ");\n";
  }
  sql +=
      "CREATE INDEX IF NOT EXISTS turns_by_trajectory ON turns (trajectory);\n"
      "CREATE INDEX IF NOT EXISTS verdicts_by_trajectory ON verdicts (trajectory);\n"
      "CREATE INDEX IF NOT EXISTS verdicts_by_step ON verdicts (stage, step);\n"
      "CREATE INDEX IF NOT EXISTS metrics_by_name ON metrics (stage, name, step);\n";
  return sql;
}

Status bind_column(Statement& statement, int index, const Kind& kind, const Column& column, const Json& value) {
  if (value.is_null()) {
    statement.bind(index, value);
    return ok();
  }
  bool fits = true;
  switch (column.type) {
    case T::integer:
      fits = value.is_number_integer() ||
             (value.is_number_float() && value.get<double>() == std::floor(value.get<double>()));
      if (fits) {
        statement.bind(index, value.get<int64_t>());
      }
      break;
    case T::real:
      fits = value.is_number();
      if (fits) {
        statement.bind(index, value.get<double>());
      }
      break;
    case T::text:
      fits = value.is_string();
      if (fits) {
        statement.bind(index, value);
      }
      break;
    case T::flag:
      fits = value.is_boolean();
      statement.bind(index, value);
      break;
    case T::json:
      statement.bind_text(index, dump_json(value));
      break;
    default: {
      auto packed = pack_column(column.type, value);
      fits = static_cast<bool>(packed);
      if (fits) {
        statement.bind_blob(index, packed.value());
      }
    }
  }
  if (!fits) {
    return Failure{kind.name + "." + column.name + " must be " + expectation(column.type) + ", got " + type_word(value),
                   "bad_input"};
  }
  return ok();
}

Json read_column(const Statement& statement, int index, ColumnType type) {
  Json value = statement.value(index);
  if (value.is_null()) {
    return value;
  }
  switch (type) {
    case T::flag:
      return value.get<int64_t>() != 0;
    case T::json:
      return Json::parse(value.get_ref<const std::string&>());
    case T::int32s:
      return unpack<int32_t>(statement.bytes(index));
    case T::float32s:
      return unpack<float>(statement.bytes(index));
    case T::bytes:
      return unpack<uint8_t>(statement.bytes(index));
    default:
      return value;
  }
}

std::vector<Json> take_columns(const Kind& kind, Json* record) {
  std::vector<Json> values;
  for (const auto& column : kind.columns) {
    Json::json_pointer pointer(column.path);
    Json* parent = record->contains(pointer.parent_pointer()) ? &(*record)[pointer.parent_pointer()] : nullptr;
    auto found = parent && parent->is_object() ? parent->find(pointer.back()) : Json::iterator();
    if (!parent || !parent->is_object() || found == parent->end()) {
      values.push_back(nullptr);
      continue;
    }
    values.push_back(std::move(*found));
    parent->erase(found);
    // A parent that held nothing else would come back as an empty table beside its own fields.
    if (parent != record && parent->empty()) {
      record->erase(pointer.parent_pointer().back());
    }
  }
  return values;
}

}  // namespace khost
