// The run store: runs/<id>/run.sqlite in WAL mode. One process writes (a lock file says who), any number read
// meanwhile. A write that returned survives kill -9 of this process; a resumed run asks for finished stages and
// finished trajectories.
// Used from one thread, the VM's.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "host/base/hold.h"
#include "host/base/json.h"
#include "host/base/result.h"
#include "host/store/database.h"
#include "host/store/schema.h"

namespace khost {

struct RunInfo {
  std::string name = "run";  // part of the folder's name
  std::string recipe;
  std::string preset;
  int64_t seed = 0;
  Json config = Json::object();
  Json note = Json::object();
};

struct StoreQuery {
  Json where = Json::object();  // columns or fields that must be equal; null: absent
  int64_t after = 0;            // rows behind this one
  int64_t limit = -1;
  std::vector<std::string> columns;  // only these typed fields; empty: the whole record
};

class Store {
 public:
  enum class Mode { read, write };

  // Makes <root>/<date>-<time>-<name>/.
  static Result<std::shared_ptr<Store>> create(const std::string& root, const RunInfo& info);
  // `busy` when another process writes the run.
  static Result<std::shared_ptr<Store>> open(const std::string& folder, Mode mode);
  // Makes `folder` a run of its own with everything that the run `from` has stored, and with another configuration:
  // finished stages stay finished. All or nothing, also after kill -9. exists when the folder does.
  static Status fork(const std::string& from, const std::string& folder, const RunInfo& info);
  // Folders of runs, oldest first; one run by id, part of an id, or path; without a name the newest.
  static std::vector<std::string> runs(const std::string& root);
  static Result<std::string> find(const std::string& root, const std::string& name);
  Store(const Store&) = delete;
  ~Store();

  Result<int64_t> append(const std::string& kind, const Json& record);
  Status put(const std::string& kind, const std::string& key, const Json& value);
  // null when absent. A trajectory comes with `turns` and `verdict`.
  Result<Json> get(const std::string& kind, const Json& key);
  Result<Json> list(const std::string& kind, const StoreQuery& query);
  Result<int64_t> count(const std::string& kind, const Json& where);
  // A reading statement; rows as tables by column name.
  Result<Json> query(const std::string& sql, const std::vector<Json>& parameters);

  // Nested transactions become savepoints.
  Status begin();
  Status commit();
  Status rollback();

  Status begin_stage(const std::string& name);
  Status finish_stage(const std::string& name, const Json& result);
  Result<Json> stage(const std::string& name);
  // [{index, …}] of one step: what need not be played again.
  Result<Json> trajectories(const std::string& stage, int64_t step);
  Status metrics(const std::string& stage, int64_t step, const Json& values, const std::string& script_hash);

  Result<Json> info();
  Status finish(const std::string& status);
  const std::string& folder() const { return folder_; }
  // Everything behind it fails with code "gone".
  void close();

 private:
  Store(std::string folder, Database database, Hold hold)
      : folder_(std::move(folder)), database_(std::move(database)), hold_(std::move(hold)) {}

  Status require_open() const;
  Result<int64_t> insert(const Kind& kind, Json record, const std::string& verb);
  Result<int64_t> append_trajectory(Json record);
  Status drop_void(const Json& record);
  Result<Json> rows(const Kind& kind, const StoreQuery& query, const std::string& extra_where, const Json& extra_value);
  Result<Json> run(const std::string& sql, const std::vector<Json>& parameters);

  std::string folder_;
  std::optional<Database> database_;
  Hold hold_;
  int depth_ = 0;
};

}  // namespace khost
