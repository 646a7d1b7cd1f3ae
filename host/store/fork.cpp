// A run that begins where another one stands.
#include <filesystem>

#include "host/log/log.h"
#include "host/store/store.h"

namespace khost {

namespace fs = std::filesystem;

namespace {

constexpr const char* kDatabase = "run.sqlite";
constexpr const char* kCheckpoints = "checkpoints";

// A consistent snapshot, also while a process writes the run.
Status copy_database(const std::string& from, const std::string& to) {
  auto source = Database::open(from, Database::Mode::read);
  if (!source) {
    return source.failure();
  }
  auto copy = source->prepare("VACUUM INTO ?");
  if (!copy) {
    return copy.failure();
  }
  copy->bind_text(1, to);
  const auto done = copy->step();
  return done ? ok() : Status(done.failure());
}

// Hard links: a checkpoint's files are never changed in place, and models are large. Copies where links are refused.
Status link_checkpoints(const fs::path& from, const fs::path& to) {
  std::error_code error;
  if (!fs::exists(from, error)) {
    return ok();
  }
  fs::copy(from, to, fs::copy_options::recursive | fs::copy_options::create_hard_links, error);
  if (error) {
    fs::remove_all(to, error);
    fs::copy(from, to, fs::copy_options::recursive, error);
  }
  return error ? Status(Failure{"cannot copy '" + from.string() + "': " + error.message(), "io"}) : ok();
}

Status rename_run(const std::string& database, const std::string& id, const RunInfo& info) {
  auto opened = Database::open(database, Database::Mode::write);
  if (!opened) {
    return opened.failure();
  }
  auto update = opened->prepare(
      "UPDATE runs SET id = ?, recipe = ?, preset = ?, seed = ?, config = ?, data = ?, "
      "status = 'running', finished_s = NULL");
  if (!update) {
    return update.failure();
  }
  update->bind_text(1, id);
  update->bind_text(2, info.recipe);
  update->bind_text(3, info.preset);
  update->bind(4, info.seed);
  update->bind_text(5, dump_json(info.config));
  update->bind_text(6, dump_json(info.note));
  const auto done = update->step();
  return done ? ok() : Status(done.failure());
}

}  // namespace

Status Store::fork(const std::string& from, const std::string& folder, const RunInfo& info) {
  const fs::path source(from), target(folder), part(folder + ".part");
  std::error_code error;
  if (!fs::is_regular_file(source / kDatabase, error)) {
    return Failure{"'" + from + "' is not a run: it has no run.sqlite", "bad_input"};
  }
  if (fs::exists(target, error)) {
    return Failure{"'" + folder + "' exists; a fork needs a folder of its own", "exists"};
  }
  fs::remove_all(part, error);  // of a fork that was killed
  if (!fs::create_directories(part, error)) {
    return Failure{"cannot create '" + part.string() + "': " + error.message(), "io"};
  }
  Status status = copy_database((source / kDatabase).string(), (part / kDatabase).string());
  status = status ? link_checkpoints(source / kCheckpoints, part / kCheckpoints) : status;
  status = status ? rename_run((part / kDatabase).string(), target.filename().string(), info) : status;
  if (status) {
    fs::rename(part, target, error);
    status = error ? Status(Failure{"cannot create '" + folder + "': " + error.message(), "io"}) : status;
  }
  return status;
}

}  // namespace khost
