// The tables of a run as data: every kind of record, its typed columns, and where in the record each column's value
// stands. What has no column of its own travels in the column `data` as JSON, so a record comes back as it was.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "host/base/json.h"
#include "host/base/result.h"
#include "host/store/database.h"

namespace khost {

// int32s, float32s and bytes are lists of numbers packed into a blob, little-endian.
enum class ColumnType { integer, real, text, flag, json, int32s, float32s, bytes };

struct Column {
  std::string name;  // in SQL
  ColumnType type;
  std::string path;  // in the record, as JSON pointer
};

struct Kind {
  std::string name;  // of the table
  std::string key;   // column that `put` and `get` use; empty: an integer `id`
  std::vector<Column> columns;
  std::string constraint;  // further SQL of the table
};

const std::vector<Kind>& kinds();
// Names the nearest kind when there is none.
Result<const Kind*> find_kind(const std::string& name);
const Column* find_column(const Kind& kind, const std::string& name_or_field);

// CREATE TABLE and CREATE INDEX of everything.
std::string schema_sql();

// The value as it is bound for this column; a failure when the types do not fit.
Status bind_column(Statement& statement, int index, const Kind& kind, const Column& column, const Json& value);
// The value of a column as it stands in a record.
Json read_column(const Statement& statement, int index, ColumnType type);

// Takes every column's value out of the record; what remains is for `data`.
std::vector<Json> take_columns(const Kind& kind, Json* record);

}  // namespace khost
