#include "host/store/store.h"

#include <algorithm>

#include "host/config/nearest.h"
#include "host/store/verdict_row.h"

namespace khost {

namespace {

std::string row_id(const Kind& kind) {
  return kind.key.empty() ? "id" : "rowid";
}

// Of a name that is written in this file.
const Kind& known_kind(const std::string& name) {
  auto kind = find_kind(name);
  return **kind;
}

// A field may have been given by its dotted name in the record or by its column.
Result<const Column*> known_column(const Kind& kind, const std::string& name) {
  if (const Column* column = find_column(kind, name)) {
    return column;
  }
  std::vector<std::string> names;
  for (const auto& column : kind.columns) {
    names.push_back(column.name);
  }
  return Failure{"kind '" + kind.name + "' has no column '" + name + "'; did you mean '" + nearest(name, names) + "'?",
                 "bad_input"};
}

void set_at(Json* record, const std::string& path, Json value) {
  Json& slot = (*record)[Json::json_pointer(path)];
  if (slot.is_object() && value.is_object()) {
    slot.update(value);
  } else {
    slot = std::move(value);
  }
}

}  // namespace

Status Store::require_open() const {
  return database_ ? ok() : Status(Failure{"the store of '" + folder_ + "' is closed", "gone"});
}

Result<int64_t> Store::append(const std::string& kind_name, const Json& record) {
  if (auto status = require_open(); !status) {
    return status.failure();
  }
  auto kind = find_kind(kind_name);
  if (!kind) {
    return kind.failure();
  }
  if (!record.is_object()) {
    return Failure{"a record of '" + kind_name + "' must be a table", "bad_input"};
  }
  if (!kind.value()->key.empty()) {
    return Failure{"'" + kind_name + "' has keys: use put", "bad_input"};
  }
  if (kind_name == "trajectories") {
    return append_trajectory(record);
  }
  return insert(**kind, kind_name == "verdicts" ? flatten_verdict(record) : record, "INSERT");
}

Status Store::put(const std::string& kind_name, const std::string& key, const Json& value) {
  if (auto status = require_open(); !status) {
    return status;
  }
  auto kind = find_kind(kind_name);
  if (!kind) {
    return kind.failure();
  }
  if (kind.value()->key.empty()) {
    return Failure{"'" + kind_name + "' has no keys: use append", "bad_input"};
  }
  Json record = value;
  if (kind_name == "state") {
    record = Json{{"value", value}};
  } else if (!record.is_object()) {
    return Failure{"a record of '" + kind_name + "' must be a table", "bad_input"};
  }
  record[kind.value()->key] = key;
  auto id = insert(**kind, std::move(record), "INSERT OR REPLACE");
  return id ? ok() : Status(id.failure());
}

Result<int64_t> Store::insert(const Kind& kind, Json record, const std::string& verb) {
  if (kind.key.empty()) {
    record.erase("id");  // a record that was read and changed gets an id of its own
  }
  std::vector<Json> values = take_columns(kind, &record);
  std::string names, marks;
  for (const auto& column : kind.columns) {
    names += column.name + ", ";
    marks += "?, ";
  }
  auto statement =
      database_->prepare(verb + " INTO main." + kind.name + " (" + names + "data) VALUES (" + marks + "?)");
  if (!statement) {
    return statement.failure();
  }
  int index = 1;
  for (const auto& column : kind.columns) {
    auto status = bind_column(*statement, index, kind, column, values[static_cast<size_t>(index - 1)]);
    if (!status) {
      return status.failure();
    }
    ++index;
  }
  statement->bind(index, record.empty() ? Json() : record);
  if (auto done = statement->step(); !done) {
    return done.failure();
  }
  return database_->last_row();
}

// An episode whose verdict is void says nothing: it gives way to the one that is played again in its place.
Status Store::drop_void(const Json& record) {
  auto found = database_->prepare(
      "SELECT t.id FROM main.trajectories t JOIN main.verdicts v ON v.trajectory = t.id "
      "WHERE v.status = 'void' AND t.stage = ? AND t.step = ? AND t.idx = ?");
  if (!found) {
    return found.failure();
  }
  int parameter = 0;
  for (const char* key : {"stage", "step", "index"}) {
    found->bind(++parameter, record.value(key, Json()));
  }
  const auto row = found->step();
  if (!row || !*row) {
    return row ? ok() : Status(row.failure());
  }
  const Json id = found->value(0);
  for (const char* rows : {"turns WHERE trajectory", "verdicts WHERE trajectory", "trajectories WHERE id"}) {
    auto statement = database_->prepare(std::string("DELETE FROM main.") + rows + " = ?");
    if (!statement) {
      return statement.failure();
    }
    statement->bind(1, id);
    if (auto done = statement->step(); !done) {
      return done.failure();
    }
  }
  return ok();
}

// The trajectory, its turns and its verdict: all or none.
Result<int64_t> Store::append_trajectory(Json record) {
  Json turns = record.contains("turns") ? record["turns"] : Json::array();
  Json verdict = record.contains("verdict") ? record["verdict"] : Json();
  record.erase("turns");
  record.erase("verdict");
  if (record.contains("id") && record["id"].is_string() && !record.contains("name")) {
    record["name"] = record["id"];
  }
  if (!record.contains("turn_count") && turns.is_array() && !turns.empty()) {
    record["turn_count"] = turns.size();
  }
  if (!record.contains("token_count") && record.contains("tokens")) {
    record["token_count"] = record["tokens"].size();
  }
  if (auto status = begin(); !status) {
    return status.failure();
  }
  auto abandon = [&](const Failure& failure) -> Result<int64_t> {
    (void)rollback();
    return failure;
  };
  if (auto dropped = drop_void(record); !dropped) {
    return abandon(dropped.failure());
  }
  auto id = insert(known_kind("trajectories"), record, "INSERT");
  if (!id) {
    return abandon(id.failure());
  }
  int64_t index = 0;
  for (Json turn : turns) {
    ++index;
    if (!turn.is_object()) {
      return abandon({"a turn must be a table", "bad_input"});
    }
    turn["trajectory"] = *id;
    turn["index"] = turn.value("index", Json(index));
    if (auto row = insert(known_kind("turns"), turn, "INSERT"); !row) {
      return abandon(row.failure());
    }
  }
  if (verdict.is_object()) {
    Json row = verdict_of_trajectory(verdict, record);
    row["trajectory"] = *id;
    if (auto done = insert(known_kind("verdicts"), row, "INSERT"); !done) {
      return abandon(done.failure());
    }
  }
  if (auto status = commit(); !status) {
    return abandon(status.failure());
  }
  return id;
}

Result<Json> Store::rows(const Kind& kind, const StoreQuery& query, const std::string& extra_where,
                         const Json& extra_value) {
  std::vector<const Column*> columns;
  for (const auto& name : query.columns) {
    auto column = known_column(kind, name);
    if (!column) {
      return column.failure();
    }
    columns.push_back(*column);
  }
  bool whole = columns.empty();
  if (whole) {
    for (const auto& column : kind.columns) {
      columns.push_back(&column);
    }
  }
  std::string sql = "SELECT " + row_id(kind);
  for (const Column* column : columns) {
    sql += ", " + column->name;
  }
  sql += std::string(whole ? ", data" : "") + " FROM " + kind.name + " WHERE " + row_id(kind) + " > ?";
  std::vector<Json> parameters = {query.after};
  for (const auto& [name, value] : query.where.items()) {
    auto column = known_column(kind, name);
    if (!column) {
      return column.failure();
    }
    sql += " AND " + column.value()->name + " IS ?";
    parameters.push_back(value);
  }
  if (!extra_where.empty()) {
    sql += " AND " + extra_where;
    parameters.push_back(extra_value);
  }
  sql += " ORDER BY " + row_id(kind) + " LIMIT ?";
  parameters.push_back(query.limit);
  auto statement = database_->prepare(sql);
  if (!statement) {
    return statement.failure();
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    statement->bind(static_cast<int>(i + 1), parameters[i]);
  }
  Json out = Json::array();
  while (true) {
    auto more = statement->step();
    if (!more) {
      return more.failure();
    }
    if (!*more) {
      return out;
    }
    int last = static_cast<int>(columns.size()) + 1;
    Json record = Json::object();
    if (whole && !statement->value(last).is_null()) {
      record = Json::parse(statement->bytes(last));
    }
    for (size_t i = 0; i < columns.size(); ++i) {
      Json value = read_column(*statement, static_cast<int>(i + 1), columns[i]->type);
      if (!value.is_null()) {
        set_at(&record, columns[i]->path, std::move(value));
      }
    }
    // Keyed records carry their key; the row number still orders them for `after`.
    if (kind.key.empty()) {
      record["id"] = statement->value(0);
    } else {
      record["row"] = statement->value(0);
    }
    out.push_back(std::move(record));
  }
}

Result<Json> Store::list(const std::string& kind_name, const StoreQuery& query) {
  if (auto status = require_open(); !status) {
    return status.failure();
  }
  auto kind = find_kind(kind_name);
  return kind ? rows(**kind, query, "", nullptr) : Result<Json>(kind.failure());
}

Result<Json> Store::get(const std::string& kind_name, const Json& key) {
  if (auto status = require_open(); !status) {
    return status.failure();
  }
  auto kind = find_kind(kind_name);
  if (!kind) {
    return kind.failure();
  }
  const std::string& column = kind.value()->key;
  auto found = rows(**kind, {}, (column.empty() ? "id" : column) + " = ?", key);
  if (!found || found->empty()) {
    return found ? Result<Json>(Json()) : found;
  }
  Json record = found->front();
  record.erase("row");
  if (kind_name == "state") {
    return record.value("value", Json());
  }
  if (kind_name == "trajectories") {
    auto turns = rows(known_kind("turns"), {}, "trajectory = ?", record["id"]);
    auto verdicts = rows(known_kind("verdicts"), {}, "trajectory = ?", record["id"]);
    if (!turns || !verdicts) {
      return turns ? verdicts.failure() : turns.failure();
    }
    record["turns"] = *turns;
    if (!verdicts->empty()) {
      record["verdict"] = nested_verdict(verdicts->back());
    }
  }
  return record;
}

Result<int64_t> Store::count(const std::string& kind_name, const Json& where) {
  if (auto status = require_open(); !status) {
    return status.failure();
  }
  auto kind = find_kind(kind_name);
  if (!kind) {
    return kind.failure();
  }
  std::string sql = "SELECT count(*) AS n FROM " + kind_name + " WHERE 1";
  std::vector<Json> parameters;
  for (const auto& [name, value] : where.items()) {
    auto column = known_column(**kind, name);
    if (!column) {
      return column.failure();
    }
    sql += " AND " + column.value()->name + " IS ?";
    parameters.push_back(value);
  }
  auto found = run(sql, parameters);
  return found ? Result<int64_t>(found->front()["n"].get<int64_t>()) : found.failure();
}

}  // namespace khost
