// A run that is killed in each of its stages and resumed, and one that is interrupted. Real pipeline, real judge: some
// minutes, so these are run by name: `./khost test -R "kill -9"`.
#include <doctest/doctest.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "host/host.h"
#include "tests/host/child.h"
#include "tests/lua_cases.h"

namespace khost::tests {
namespace {

namespace fs = std::filesystem;

// When a stage is killed at the latest after its start; of those with episodes, when two of them are there.
struct Moment {
  const char* stage;
  double seconds;
};
constexpr Moment kStages[] = {{"synthesize", 0},   {"filter", 4},   {"base", 0.5}, {"supervised", 0},
                              {"single_turn", 60}, {"collect", 60}, {"rft", 0.3},  {"value", 0.5},
                              {"agentic", 60},     {"evaluate", 4}, {"report", 0}};

class Pipeline {
 public:
  Pipeline() : folder_(fs::temp_directory_path() / ("khost-kill-" + std::to_string(getpid()))) {
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "runs");
    fs::create_directories(folder_ / "tmp");
  }
  ~Pipeline() { fs::remove_all(folder_); }

  std::vector<std::string> words(bool resume) const {
    std::vector<std::string> list{executable_dir() + "/khost",
                                  "recipes/full_pipeline.lua",
                                  "--preset",
                                  "mini",
                                  "--set",
                                  "machine.runs=" + (folder_ / "runs").string()};
    if (resume) {
      list.push_back("--resume");
    }
    return list;
  }
  std::map<std::string, std::string> environment() const {
    return {{"KHOST_ROOT", KHOST_SOURCE_DIR},
            {"KHOST_WORKSPACES", (folder_ / "workspaces").string()},
            {"KHOST_LEASE", (folder_ / "lease").string()},
            {"TMPDIR", (folder_ / "tmp").string()}};
  }

  // First columns -> the others, of each row; empty while there is no database.
  std::map<std::string, std::string> rows(const std::string& sql) const {
    std::map<std::string, std::string> found;
    for (const auto& entry : fs::directory_iterator(folder_ / "runs")) {
      sqlite3* database = nullptr;
      if (sqlite3_open_v2((entry.path() / "run.sqlite").c_str(), &database, SQLITE_OPEN_READONLY, nullptr) ==
          SQLITE_OK) {
        sqlite3_busy_timeout(database, 5000);
        sqlite3_exec(
            database, sql.c_str(),
            [](void* out, int n, char** values, char**) {
              std::string rest;
              for (int i = 1; i < n; i++) {
                rest += std::string(values[i] != nullptr ? values[i] : "-") + " ";
              }
              (*static_cast<std::map<std::string, std::string>*>(out))[values[0]] = rest;
              return 0;
            },
            &found, nullptr);
      }
      sqlite3_close(database);
    }
    return found;
  }

  std::map<std::string, std::string> finished_stages() const {
    return rows("SELECT name, attempts, started_s, finished_s FROM stages WHERE status = 'done'");
  }
  std::map<std::string, std::string> trajectories() const {
    return rows(
        "SELECT stage || ' ' || step || ' ' || idx, id, task, reward, seconds, token_count, hex(tokens) "
        "FROM trajectories");
  }

  std::string remains() const {
    std::string left;
    for (int i = 0; i < 100; i++) {
      left.clear();
      for (const auto& task : fs::directory_iterator("/proc/self/task")) {
        std::ifstream(task.path() / "children") >> left;
      }
      // Those of a killed process that come to us end on their own; they are reaped here.
      while (waitpid(-1, nullptr, WNOHANG) > 0) {
      }
      if (left.empty()) {
        break;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    left = left.empty() ? "" : "process " + left + "\n";
    std::ostringstream mounts;
    mounts << std::ifstream("/proc/self/mounts").rdbuf();
    left += mounts.str().find(folder_.string()) != std::string::npos ? "a mount\n" : "";
    return left;
  }
  std::string files_left() const {
    std::string left;
    for (const char* name : {"tmp", "workspaces"}) {
      if (fs::exists(folder_ / name)) {
        for (const auto& entry : fs::directory_iterator(folder_ / name)) {
          left += entry.path().string() + "\n";
        }
      }
    }
    return left;
  }

 private:
  fs::path folder_;
};

// All of `before` stands unchanged in `after`.
void check_kept(const std::map<std::string, std::string>& before, const std::map<std::string, std::string>& after) {
  for (const auto& [key, value] : before) {
    const auto found = after.find(key);
    CHECK_MESSAGE(found != after.end(), key);
    if (found != after.end()) {
      CHECK_MESSAGE(found->second == value, key);
    }
  }
}

bool has_trainer() {
#ifdef KHOST_WITH_TRAINER
  return true;
#else
  skip("this build has no trainer");
  return false;
#endif
}

}  // namespace

TEST_CASE("kill -9 in each stage, then --resume: no finished stage is repeated, no finished trajectory lost" *
          doctest::skip()) {
  if (!has_trainer()) {
    return;
  }
  const Pipeline pipeline;
  bool first = true;
  int kills = 0;
  for (const auto& [name, seconds] : kStages) {
    const std::string stage = name;
    CAPTURE(stage);
    const auto stages = pipeline.finished_stages();
    if (stages.count(stage) > 0) {
      continue;  // it ended before the signal came
    }
    const auto trajectories = pipeline.trajectories();
    Child child(pipeline.words(!first), pipeline.environment());
    first = false;
    REQUIRE_MESSAGE(child.until("== " + stage + "\n", 900), child.text());
    const std::string count = "SELECT 1, count(*) FROM trajectories WHERE stage = '" + stage + "'";
    const double begun = child.seconds();
    while (child.seconds() - begun < seconds && std::atoi(pipeline.rows(count)["1"].c_str()) < 2 &&
           pipeline.finished_stages().count(stage) == 0) {
      child.until("never printed", std::min(seconds, 0.2));
    }
    child.signal(SIGKILL);
    const int code = child.wait(10);
    kills += code == 128 + SIGKILL;
    CHECK_MESSAGE(pipeline.remains().empty(), pipeline.remains());
    check_kept(stages, pipeline.finished_stages());
    check_kept(trajectories, pipeline.trajectories());
    MESSAGE(stage << ": killed after " << child.seconds() << " s with " << pipeline.finished_stages().size()
                  << " finished stages and " << pipeline.trajectories().size() << " trajectories");
  }
  CHECK(kills >= 7);  // the shortest stages may end before the signal comes
  const auto stages = pipeline.finished_stages();
  const auto trajectories = pipeline.trajectories();
  Child last(pipeline.words(true), pipeline.environment());
  CHECK_MESSAGE(last.wait(900) == 0, last.text());
  for (const auto& [name, times] : stages) {
    CHECK_MESSAGE(last.has("== " + name + ": finished before"), name);
  }
  const auto all = pipeline.finished_stages();
  CHECK(all.size() == std::size(kStages));
  check_kept(stages, all);
  check_kept(trajectories, pipeline.trajectories());
  CHECK_MESSAGE(pipeline.remains().empty(), pipeline.remains());
  CHECK_MESSAGE(pipeline.files_left().empty(), pipeline.files_left());
}

TEST_CASE("kill by Ctrl-C: a run stops within 5 seconds and leaves no process, mount or temporary folder" *
          doctest::skip()) {
  if (!has_trainer()) {
    return;
  }
  const Pipeline pipeline;
  bool first = true;
  for (const char* stage : {"filter", "single_turn", "agentic"}) {
    CAPTURE(stage);
    Child child(pipeline.words(!first), pipeline.environment());
    first = false;
    REQUIRE_MESSAGE(child.until("== " + std::string(stage) + "\n", 900), child.text());
    child.until("never printed", 2);
    // As a terminal does: to the whole group.
    ::kill(-child.pid(), SIGINT);
    const double asked = child.seconds();
    CHECK_MESSAGE(child.wait(20) == 130, child.text());
    CHECK(child.seconds() - asked < 5);
    MESSAGE(stage << ": stopped in " << child.seconds() - asked << " s");
    CHECK_MESSAGE(pipeline.remains().empty(), pipeline.remains());
    CHECK_MESSAGE(pipeline.files_left().empty(), pipeline.files_left());
  }
}

}  // namespace khost::tests
