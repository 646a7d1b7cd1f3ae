// The life of a run's store: creating, finding, opening, stages, transactions.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>

#include "host/base/hold.h"
#include "host/log/log.h"
#include "host/store/store.h"
#include "host/store/verdict_row.h"

namespace khost {

namespace fs = std::filesystem;

namespace {

constexpr const char* kNow = "((julianday('now') - 2440587.5) * 86400.0)";

std::string database_path(const std::string& folder) {
  return folder + "/run.sqlite";
}

// Only what is safe in a folder's name.
std::string plain(const std::string& name) {
  std::string out;
  for (char c : name) {
    out += isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' ? c : '_';
  }
  return out.empty() ? "run" : out;
}

std::string date_text() {
  time_t now = time(nullptr);
  tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  strftime(text, sizeof text, "%Y%m%d-%H%M%S", &parts);
  return text;
}

// A folder that did not exist: two runs of one second get different ones.
Result<std::string> make_folder(const std::string& root, const std::string& name) {
  std::error_code error;
  fs::create_directories(root, error);
  std::string base = root + "/" + date_text() + "-" + plain(name);
  for (int i = 1; i < 1000; ++i) {
    std::string folder = i == 1 ? base : base + "-" + std::to_string(i);
    if (mkdir(folder.c_str(), 0777) == 0) {
      return folder;
    }
    if (errno != EEXIST) {
      return Failure{"cannot create '" + folder + "': " + strerror(errno), "io"};
    }
  }
  return Failure{"cannot create '" + base + "': too many runs of that name", "io"};
}

Result<Hold> hold_run(const std::string& folder) {
  return Hold::take(folder + "/run.lock", "the run '" + folder + "'");
}

}  // namespace

Result<std::shared_ptr<Store>> Store::create(const std::string& root, const RunInfo& info) {
  auto folder = make_folder(root, info.name);
  if (!folder) {
    return folder.failure();
  }
  // Opening for writing makes the tables.
  auto hold = hold_run(*folder);
  if (!hold) {
    return hold.failure();
  }
  auto database = Database::open(database_path(*folder), Database::Mode::write);
  if (!database) {
    return database.failure();
  }
  std::shared_ptr<Store> store(new Store(*folder, std::move(database).value(), std::move(*hold)));
  // synchronous = NORMAL: a commit survives the death of the process; only a power cut may undo the last ones.
  for (const std::string& sql :
       {std::string("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;"), schema_sql(), verdicts_view_sql()}) {
    if (auto status = store->database_->execute(sql); !status) {
      return status.failure();
    }
  }
  auto done = store->run(std::string("INSERT INTO runs (id, recipe, preset, seed, status, started_s, config, data) "
                                     "VALUES (?, ?, ?, ?, 'running', ") +
                             kNow + ", ?, ?)",
                         {fs::path(*folder).filename().string(), info.recipe, info.preset, info.seed,
                          dump_json(info.config), dump_json(info.note)});
  if (!done) {
    return done.failure();
  }
  return store;
}

Result<std::shared_ptr<Store>> Store::open(const std::string& folder, Mode mode) {
  if (!fs::is_regular_file(database_path(folder))) {
    return Failure{"'" + folder + "' is not a run: it has no run.sqlite", "bad_input"};
  }
  Hold hold;
  if (mode == Mode::write) {
    auto taken = hold_run(folder);
    if (!taken) {
      return taken.failure();
    }
    hold = std::move(*taken);
  }
  auto database =
      Database::open(database_path(folder), mode == Mode::write ? Database::Mode::write : Database::Mode::read);
  if (!database) {
    return database.failure();
  }
  std::shared_ptr<Store> store(new Store(folder, std::move(database).value(), std::move(hold)));
  if (mode == Mode::write) {
    std::string sql = "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; " + schema_sql() +
                      "UPDATE runs SET status = 'running', finished_s = NULL;";
    if (auto status = store->database_->execute(sql); !status) {
      return status.failure();
    }
  }
  if (auto status = store->database_->execute(verdicts_view_sql()); !status) {
    return status.failure();
  }
  return store;
}

Store::~Store() {
  close();
}

void Store::close() {
  database_.reset();
  hold_ = Hold();
}

std::vector<std::string> Store::runs(const std::string& root) {
  std::vector<std::string> folders;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(root, error)) {
    if (fs::is_regular_file(database_path(entry.path().string()))) {
      folders.push_back(entry.path().string());
    }
  }
  // Names begin with the time; the -2 of a second run in one second sorts behind its first.
  std::sort(folders.begin(), folders.end());
  return folders;
}

Result<std::string> Store::find(const std::string& root, const std::string& name) {
  if (!name.empty() && fs::is_regular_file(database_path(name))) {
    return name;
  }
  std::vector<std::string> all = runs(root), found;
  for (const auto& folder : all) {
    std::string id = fs::path(folder).filename().string();
    if (id == name) {
      return folder;
    }
    if (id.find(name) != std::string::npos) {
      found.push_back(folder);
    }
  }
  if (name.empty() && !all.empty()) {
    return all.back();
  }
  if (found.size() == 1) {
    return found.front();
  }
  if (all.empty()) {
    return Failure{(name.empty() ? "" : "no run '" + name + "': ") + "there are no runs in '" + root + "'",
                   "bad_input"};
  }
  return Failure{found.empty() ? "no run '" + name + "' in '" + root + "'; the newest is " +
                                     fs::path(all.back()).filename().string()
                               : "'" + name + "' fits " + std::to_string(found.size()) + " runs, the newest is " +
                                     fs::path(found.back()).filename().string(),
                 "bad_input"};
}

Status Store::begin() {
  if (auto status = require_open(); !status) {
    return status;
  }
  auto status = database_->execute(depth_ == 0 ? "BEGIN IMMEDIATE" : "SAVEPOINT s" + std::to_string(depth_));
  depth_ += status ? 1 : 0;
  return status;
}

Status Store::commit() {
  if (auto status = require_open(); !status) {
    return status;
  }
  auto status = database_->execute(depth_ <= 1 ? "COMMIT" : "RELEASE s" + std::to_string(depth_ - 1));
  depth_ -= status ? 1 : 0;
  return status;
}

Status Store::rollback() {
  if (auto status = require_open(); !status) {
    return status;
  }
  if (depth_ == 0) {
    return ok();
  }
  --depth_;
  std::string savepoint = "s" + std::to_string(depth_);
  return database_->execute(depth_ == 0 ? "ROLLBACK" : "ROLLBACK TO " + savepoint + "; RELEASE " + savepoint);
}

Status Store::begin_stage(const std::string& name) {
  auto known = stage(name);
  if (!known) {
    return known.failure();
  }
  if (known->is_object() && known->value("status", "") == "done") {
    return Failure{"stage '" + name + "' was finished in this run", "bad_input"};
  }
  auto done = run(std::string("INSERT INTO stages (name, status, attempts, started_s) VALUES (?, 'running', 1, ") +
                      kNow + ") ON CONFLICT (name) DO UPDATE SET attempts = attempts + 1",
                  {name});
  return done ? ok() : Status(done.failure());
}

Status Store::finish_stage(const std::string& name, const Json& result) {
  auto done = run(std::string("UPDATE stages SET status = 'done', result = ?, finished_s = ") + kNow +
                      " WHERE name = ? RETURNING name",
                  {result.is_null() ? Json() : Json(dump_json(result)), name});
  if (!done) {
    return done.failure();
  }
  return done->empty() ? Status(Failure{"stage '" + name + "' was never begun", "bad_input"}) : ok();
}

Result<Json> Store::stage(const std::string& name) {
  return get("stages", name);
}

Result<Json> Store::trajectories(const std::string& stage_name, int64_t step) {
  StoreQuery query;
  query.where = {{"stage", stage_name}, {"step", step}};
  return list("trajectories", query);
}

Status Store::metrics(const std::string& stage_name, int64_t step, const Json& values, const std::string& script_hash) {
  if (auto status = begin(); !status) {
    return status;
  }
  for (const auto& [name, value] : values.items()) {
    Json row = {{"stage", stage_name}, {"step", step}, {"name", name}, {"value", value}};
    if (!script_hash.empty()) {
      row["script_hash"] = script_hash;
    }
    if (auto id = append("metrics", row); !id) {
      (void)rollback();
      return id.failure();
    }
  }
  return commit();
}

Result<Json> Store::info() {
  auto found = run("SELECT * FROM runs", {});
  if (!found || found->empty()) {
    return found ? Result<Json>(Failure{"'" + folder_ + "' has no row in runs", "io"}) : found;
  }
  Json row = found->front();
  row["folder"] = folder_;
  row["config"] = Json::parse(row["config"].get_ref<const std::string&>());
  row["note"] = Json::parse(row["data"].get_ref<const std::string&>());
  row.erase("data");
  return row;
}

Status Store::finish(const std::string& status) {
  auto done = run(std::string("UPDATE runs SET status = ?, finished_s = ") + kNow, {status});
  return done ? ok() : Status(done.failure());
}

Result<Json> Store::query(const std::string& sql, const std::vector<Json>& parameters) {
  if (auto status = require_open(); !status) {
    return status.failure();
  }
  auto statement = database_->prepare(sql);
  if (!statement) {
    return statement.failure();
  }
  if (!statement->read_only()) {
    return Failure{"query reads only; append and put write", "bad_input"};
  }
  return run(sql, parameters);
}

Result<Json> Store::run(const std::string& sql, const std::vector<Json>& parameters) {
  if (auto status = require_open(); !status) {
    return status.failure();
  }
  auto statement = database_->prepare(sql);
  if (!statement) {
    return statement.failure();
  }
  if (statement->parameters() != static_cast<int>(parameters.size())) {
    return Failure{"the statement has " + std::to_string(statement->parameters()) + " parameters, got " +
                       std::to_string(parameters.size()),
                   "bad_input"};
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    statement->bind(static_cast<int>(i + 1), parameters[i]);
  }
  Json rows_found = Json::array();
  while (true) {
    auto more = statement->step();
    if (!more) {
      return more.failure();
    }
    if (!*more) {
      return rows_found;
    }
    Json row = Json::object();
    for (int column = 0; column < statement->columns(); ++column) {
      row[statement->name(column)] = statement->value(column);
    }
    rows_found.push_back(std::move(row));
  }
}

}  // namespace khost
