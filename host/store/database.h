// SQLite with destructors: a database, a prepared statement, errors as Failure{code "io"}. One thread at a time.
#pragma once

#include <sqlite3.h>

#include <memory>
#include <string>

#include "host/base/json.h"
#include "host/base/result.h"

namespace khost {

class Statement {
 public:
  Statement(Statement&& other) noexcept : statement_(std::exchange(other.statement_, nullptr)) {}
  Statement& operator=(Statement&&) = delete;
  ~Statement() { sqlite3_finalize(statement_); }

  // Parameters count from 1, columns from 0. Lists and tables are bound as JSON text.
  void bind(int index, const Json& value);
  void bind_text(int index, const std::string& text);
  void bind_blob(int index, const std::string& bytes);
  // true: a row; false: done.
  Result<bool> step();
  // Ready to bind and run again.
  void reset();

  int columns() const { return sqlite3_column_count(statement_); }
  std::string name(int column) const { return sqlite3_column_name(statement_, column); }
  // Integers, reals, text, null; a blob comes as text of its bytes.
  Json value(int column) const;
  std::string bytes(int column) const;
  bool read_only() const { return sqlite3_stmt_readonly(statement_) != 0; }
  int parameters() const { return sqlite3_bind_parameter_count(statement_); }

 private:
  friend class Database;
  explicit Statement(sqlite3_stmt* statement) : statement_(statement) {}
  sqlite3_stmt* statement_;
};

class Database {
 public:
  enum class Mode { read, write };
  static Result<Database> open(const std::string& path, Mode mode);
  Database(Database&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Database& operator=(Database&&) = delete;
  ~Database() { sqlite3_close(handle_); }

  Result<Statement> prepare(const std::string& sql);
  Status execute(const std::string& sql);
  int64_t last_row() const { return sqlite3_last_insert_rowid(handle_); }

 private:
  explicit Database(sqlite3* handle) : handle_(handle) {}
  sqlite3* handle_;
};

}  // namespace khost
