#include "host/store/database.h"

#include "host/log/log.h"

namespace khost {

void Statement::bind(int index, const Json& value) {
  switch (value.type()) {
    case Json::value_t::null:
      sqlite3_bind_null(statement_, index);
      break;
    case Json::value_t::boolean:
      sqlite3_bind_int(statement_, index, value.get<bool>());
      break;
    case Json::value_t::number_integer:
    case Json::value_t::number_unsigned:
      sqlite3_bind_int64(statement_, index, value.get<int64_t>());
      break;
    case Json::value_t::number_float:
      sqlite3_bind_double(statement_, index, value.get<double>());
      break;
    case Json::value_t::string:
      bind_text(index, value.get_ref<const std::string&>());
      break;
    default:
      bind_text(index, dump_json(value));
  }
}

void Statement::bind_text(int index, const std::string& text) {
  sqlite3_bind_text64(statement_, index, text.data(), text.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
}

void Statement::bind_blob(int index, const std::string& bytes) {
  sqlite3_bind_blob64(statement_, index, bytes.data(), bytes.size(), SQLITE_TRANSIENT);
}

Result<bool> Statement::step() {
  int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW || code == SQLITE_DONE) {
    return code == SQLITE_ROW;
  }
  return Failure{std::string("store: ") + sqlite3_errmsg(sqlite3_db_handle(statement_)),
                 code == SQLITE_BUSY ? "busy" : "io"};
}

void Statement::reset() {
  sqlite3_reset(statement_);
  sqlite3_clear_bindings(statement_);
}

Json Statement::value(int column) const {
  switch (sqlite3_column_type(statement_, column)) {
    case SQLITE_INTEGER:
      return sqlite3_column_int64(statement_, column);
    case SQLITE_FLOAT:
      return sqlite3_column_double(statement_, column);
    case SQLITE_NULL:
      return nullptr;
    default:
      return bytes(column);
  }
}

std::string Statement::bytes(int column) const {
  const void* data = sqlite3_column_blob(statement_, column);
  auto size = static_cast<size_t>(sqlite3_column_bytes(statement_, column));
  return data ? std::string(static_cast<const char*>(data), size) : std::string();
}

Result<Database> Database::open(const std::string& path, Mode mode) {
  sqlite3* handle = nullptr;
  int flags = mode == Mode::read ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
  int code = sqlite3_open_v2(path.c_str(), &handle, flags | SQLITE_OPEN_NOMUTEX, nullptr);
  Database database(handle);
  if (code != SQLITE_OK) {
    return Failure{"cannot open '" + path + "': " + sqlite3_errstr(code), "io"};
  }
  // Readers meet a checkpoint now and then; they wait instead of failing.
  sqlite3_busy_timeout(handle, 10000);
  return database;
}

Result<Statement> Database::prepare(const std::string& sql) {
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v2(handle_, sql.c_str(), -1, &statement, nullptr) != SQLITE_OK) {
    return Failure{std::string("store: ") + sqlite3_errmsg(handle_), "bad_input"};
  }
  if (!statement) {
    return Failure{"store: empty SQL statement", "bad_input"};
  }
  return Statement(statement);
}

Status Database::execute(const std::string& sql) {
  char* message = nullptr;
  if (sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, &message) != SQLITE_OK) {
    std::string text = message ? message : sqlite3_errmsg(handle_);
    sqlite3_free(message);
    return Failure{"store: " + text, "io"};
  }
  return ok();
}

}  // namespace khost
