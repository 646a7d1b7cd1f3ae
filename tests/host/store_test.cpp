#include "host/store/store.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>

using namespace khost;
namespace fs = std::filesystem;

namespace {

struct Root {
  std::string folder;
  Root() {
    char name[] = "/tmp/khost-store-XXXXXX";
    folder = mkdtemp(name);
  }
  ~Root() { fs::remove_all(folder); }
};

std::shared_ptr<Store> make(const Root& root, const RunInfo& info = {}) {
  auto store = Store::create(root.folder, info);
  REQUIRE(store);
  return *store;
}

Json sample_verdict() {
  return Json::parse(R"({"status": "ok", "stage": "time", "reason": "", "correct": true,
    "times": {"candidate_s": 0.5, "eager_s": 1.0, "compile_s": 0.75},
    "speedup": {"eager": 2.0, "compile": 1.5, "interval": [1.4, 1.6]},
    "faster": {"eager": true, "compile": true}, "slack_s": 1e-5,
    "evidence": {"artefact_hash": "abc", "seeds": [1, 2]}, "wall_s": {"build": 0.2}})");
}

Json sample_trajectory(int index) {
  return {{"stage", "ppo"},
          {"step", 3},
          {"index", index},
          {"task", "relu"},
          {"status", "submitted"},
          {"reward", 2.0},
          {"messages", {{{"role", "user"}, {"content", "make it fast"}}}},
          {"tokens", {1, 500, 3}},
          {"mask", {0, 1, 1}},
          {"logprobs", {0, -0.5, -1.25}},
          {"script_hash", "feed"},
          {"turns", {{{"role", "assistant"}, {"text", "x"}, {"tool", "Bash"}, {"arguments", {{"a", 1}}}}}},
          {"verdict", sample_verdict()}};
}

}  // namespace

TEST_CASE("a run has a folder, a row and its configuration") {
  Root root;
  RunInfo info;
  info.name = "full pipeline";
  info.recipe = "recipes/full_pipeline.lua";
  info.preset = "smoke";
  info.seed = 2;
  info.config = {{"ppo", {{"steps", 6}}}};
  auto store = make(root, info);
  CHECK(store->folder().ends_with("-full_pipeline"));
  auto row = store->info();
  REQUIRE(row);
  CHECK((*row)["seed"] == 2);
  CHECK((*row)["status"] == "running");
  CHECK((*row)["config"]["ppo"]["steps"] == 6);
  REQUIRE(store->finish("done"));
  CHECK(store->info()->at("status") == "done");
}

TEST_CASE("a trajectory comes back as it was, with its turns and its verdict") {
  Root root;
  auto store = make(root);
  auto id = store->append("trajectories", sample_trajectory(4));
  REQUIRE(id);
  auto read = store->get("trajectories", *id);
  REQUIRE(read);
  CHECK((*read)["index"] == 4);
  CHECK((*read)["tokens"] == Json({1, 500, 3}));
  CHECK((*read)["mask"] == Json({0, 1, 1}));
  CHECK((*read)["logprobs"] == Json({0.0, -0.5, -1.25}));
  CHECK((*read)["messages"][0]["content"] == "make it fast");
  CHECK((*read)["token_count"] == 3);
  CHECK((*read)["turns"][0]["arguments"]["a"] == 1);
  Json verdict = (*read)["verdict"];
  verdict.erase("id");
  CHECK(verdict == sample_verdict());
}

TEST_CASE("what people query has columns of its own") {
  Root root;
  auto store = make(root);
  REQUIRE(store->append("trajectories", sample_trajectory(0)));
  auto rows = store->query(
      "SELECT stage, judge_stage, step, task, status, correct, candidate_s, compile_s, speedup_compile, faster_eager,"
      " script_hash, artefact_hash, reward FROM verdicts WHERE stage = ?",
      {"ppo"});
  REQUIRE(rows);
  CHECK(rows->at(0) == Json::parse(R"({"stage": "ppo", "judge_stage": "time", "step": 3, "task": "relu",
    "status": "ok", "correct": 1, "candidate_s": 0.5, "compile_s": 0.75, "speedup_compile": 1.5, "faster_eager": 1,
    "script_hash": "feed", "artefact_hash": "abc", "reward": 2.0})"));
}

TEST_CASE("a verdict without a trajectory keeps the judge's stage apart from the recipe's") {
  Root root;
  auto store = make(root);
  auto id = store->append("verdicts", {{"stage", "evaluate"}, {"policy", "expert"}, {"verdict", sample_verdict()}});
  REQUIRE(id);
  auto row = store->get("verdicts", *id);
  CHECK((*row)["stage"] == "evaluate");
  CHECK((*row)["judge_stage"] == "time");
  CHECK((*row)["times"]["eager_s"] == 1.0);
  CHECK((*row)["wall_s"]["build"] == 0.2);
}

TEST_CASE("a trajectory that fails to store leaves nothing behind") {
  Root root;
  auto store = make(root);
  Json bad = sample_trajectory(0);
  bad["verdict"]["slack_s"] = "much";
  auto id = store->append("trajectories", bad);
  REQUIRE_FALSE(static_cast<bool>(id));
  CHECK(id.failure().message == "verdicts.slack_s must be a number, got text");
  CHECK(*store->count("trajectories", {}) == 0);
  CHECK(*store->count("turns", {}) == 0);
  REQUIRE(store->append("trajectories", sample_trajectory(0)));
  CHECK_FALSE(static_cast<bool>(store->append("trajectories", sample_trajectory(0))));
  CHECK(*store->count("trajectories", {}) == 1);
}

TEST_CASE("records are listed by columns, behind an id, with a limit") {
  Root root;
  auto store = make(root);
  for (int i = 0; i < 5; ++i) {
    REQUIRE(
        store->append("metrics", {{"stage", i < 3 ? "a" : "b"}, {"step", i}, {"name", "loss"}, {"value", i * 0.5}}));
  }
  StoreQuery query;
  query.where = {{"stage", "a"}};
  query.after = 1;
  query.limit = 1;
  auto rows = store->list("metrics", query);
  REQUIRE(rows);
  REQUIRE(rows->size() == 1);
  CHECK(rows->at(0)["step"] == 1);
  CHECK(*store->count("metrics", {{"stage", "b"}}) == 2);
  query.where = {{"stgae", "a"}};
  CHECK(store->list("metrics", query).failure().message ==
        "kind 'metrics' has no column 'stgae'; did you mean 'stage'?");
  CHECK(store->append("metric", Json::object()).failure().message ==
        "the store has no kind 'metric'; did you mean 'metrics'?");
}

TEST_CASE("keyed records are replaced, state holds any value") {
  Root root;
  auto store = make(root);
  REQUIRE(store->put("tasks", "relu", {{"split", "train"}, {"status", "kept"}, {"extra", {1, 2}}}));
  REQUIRE(store->put("tasks", "relu", {{"split", "test"}, {"status", "kept"}, {"extra", {3}}}));
  CHECK(*store->count("tasks", {}) == 1);
  CHECK(*store->get("tasks", "relu") == Json({{"id", "relu"}, {"split", "test"}, {"status", "kept"}, {"extra", {3}}}));
  REQUIRE(store->put("state", "curriculum", {{"level", 2}}));
  REQUIRE(store->put("state", "number", 7));
  CHECK(store->get("state", "curriculum")->at("level") == 2);
  CHECK(*store->get("state", "number") == 7);
  CHECK(store->get("state", "none")->is_null());
  CHECK_FALSE(static_cast<bool>(store->put("metrics", "x", Json::object())));
  CHECK_FALSE(static_cast<bool>(store->append("tasks", Json::object())));
}

TEST_CASE("text that is not UTF-8 is stored") {
  Root root;
  auto store = make(root);
  auto id = store->append("turns", {{"trajectory", 1}, {"text", "a\xff"}, {"arguments", {{"b", "\xfe"}}}});
  REQUIRE(id);
  CHECK(store->get("turns", *id)->at("text") == "a\xff");
}

TEST_CASE("stages remember that they began and what they resulted in") {
  Root root;
  auto store = make(root);
  CHECK(store->stage("rft")->is_null());
  CHECK_FALSE(static_cast<bool>(store->finish_stage("rft", nullptr)));
  REQUIRE(store->begin_stage("rft"));
  REQUIRE(store->begin_stage("rft"));
  CHECK(store->stage("rft")->at("attempts") == 2);
  CHECK(store->stage("rft")->at("status") == "running");
  REQUIRE(store->finish_stage("rft", {{"kept", 12}}));
  CHECK(store->stage("rft")->at("result")["kept"] == 12);
  CHECK_FALSE(static_cast<bool>(store->begin_stage("rft")));
}

TEST_CASE("transactions nest and roll back") {
  Root root;
  auto store = make(root);
  REQUIRE(store->begin());
  REQUIRE(store->append("events", {{"event", "one"}}));
  REQUIRE(store->begin());
  REQUIRE(store->append("events", {{"event", "two"}}));
  REQUIRE(store->rollback());
  REQUIRE(store->commit());
  CHECK(*store->count("events", {}) == 1);
  REQUIRE(store->begin());
  REQUIRE(store->metrics("a", 1, {{"x", 1}, {"y", 2}}, ""));
  REQUIRE(store->rollback());
  CHECK(*store->count("metrics", {}) == 0);
}

TEST_CASE("one process writes a run, others read it meanwhile") {
  Root root;
  auto store = make(root);
  REQUIRE(store->append("events", {{"event", "one"}}));
  CHECK(Store::open(store->folder(), Store::Mode::write).failure().code == "busy");
  auto reader = Store::open(store->folder(), Store::Mode::read);
  REQUIRE(reader);
  CHECK(*(*reader)->count("events", {}) == 1);
  CHECK_FALSE(static_cast<bool>((*reader)->append("events", {{"event", "two"}})));
  CHECK_FALSE(static_cast<bool>(store->query("DELETE FROM events", {})));
  CHECK_FALSE(static_cast<bool>(store->query("SELECT ?", {})));
  store->close();
  CHECK(store->append("events", {{"event", "two"}}).failure().code == "gone");
  CHECK(Store::open(store->folder(), Store::Mode::write));
}

TEST_CASE("runs are found by id, by a part of it, or as the newest") {
  Root root;
  CHECK_FALSE(static_cast<bool>(Store::find(root.folder, "")));
  RunInfo first, second;
  first.name = "alpha";
  second.name = "beta";
  std::string a = make(root, first)->folder(), b = make(root, second)->folder();
  CHECK(*Store::find(root.folder, "alpha") == a);
  CHECK(*Store::find(root.folder, fs::path(b).filename()) == b);
  CHECK(*Store::find(root.folder, b) == b);
  CHECK(*Store::find(root.folder, "") == b);
  CHECK(Store::find(root.folder, "a").failure().message.find("fits 2 runs") != std::string::npos);
  CHECK(Store::find(root.folder, "gamma").failure().code == "bad_input");
  CHECK_FALSE(static_cast<bool>(Store::open(root.folder, Store::Mode::read)));
}

TEST_CASE("kill -9 loses no trajectory that was acknowledged and keeps the database whole") {
  Root root;
  std::string folder = make(root)->folder();
  int pipe_ends[2];
  REQUIRE(pipe(pipe_ends) == 0);
  pid_t child = fork();
  if (child == 0) {
    close(pipe_ends[0]);
    auto store = Store::open(folder, Store::Mode::write);
    if (!store || !(*store)->begin_stage("ppo")) {
      _exit(1);
    }
    for (int i = 0;; ++i) {
      if (!(*store)->append("trajectories", sample_trajectory(i)) || write(pipe_ends[1], &i, sizeof i) != sizeof i) {
        _exit(1);
      }
    }
  }
  close(pipe_ends[1]);
  int acknowledged = -1;
  for (int value; acknowledged < 200 && read(pipe_ends[0], &value, sizeof value) == sizeof value;) {
    acknowledged = value;
  }
  kill(child, SIGKILL);
  for (int value; read(pipe_ends[0], &value, sizeof value) == sizeof value;) {
    acknowledged = value;
  }
  int status = 0;
  waitpid(child, &status, 0);
  close(pipe_ends[0]);
  CHECK(WIFSIGNALED(status));
  auto store = Store::open(folder, Store::Mode::write);
  REQUIRE(store);
  CHECK((*store)->query("PRAGMA integrity_check", {})->at(0)["integrity_check"] == "ok");
  auto finished = (*store)->trajectories("ppo", 3);
  REQUIRE(finished);
  CHECK(finished->size() >= static_cast<size_t>(acknowledged + 1));
  // Each has its verdict and its turn: they were written together.
  CHECK(*(*store)->count("verdicts", {}) == static_cast<int64_t>(finished->size()));
  CHECK(*(*store)->count("turns", {}) == static_cast<int64_t>(finished->size()));
  CHECK((*store)->stage("ppo")->at("status") == "running");
  REQUIRE((*store)->begin_stage("ppo"));
}

// Rows as versions before the closed set of statuses wrote them: `policy` for a broken rule, and `correct` kept from
// the verification when the candidate was caught while it was timed.
TEST_CASE("a store of an earlier version reads with today's words, for writing and read-only") {
  Root root;
  std::string folder;
  {
    auto store = make(root);
    folder = store->folder();
  }
  sqlite3* old = nullptr;
  REQUIRE(sqlite3_open((folder + "/run.sqlite").c_str(), &old) == SQLITE_OK);
  REQUIRE(sqlite3_exec(old,
                       "INSERT INTO verdicts (stage, policy, task, status, judge_stage, reason, correct, faster_eager)"
                       " VALUES ('evaluate', 'p', 'a', 'ok', 'time', '', 1, 1),"
                       " ('evaluate', 'p', 'b', 'policy', 'plan', 'torch_compute', 0, NULL),"
                       " ('evaluate', 'p', 'c', 'crash', 'time', 'signal', 1, 1),"
                       " ('evaluate', 'p', 'd', 'void', 'task', 'gone', 0, NULL),"
                       " ('evaluate', 'p', 'e', 'bad_task', 'task', 'bad_task', 0, NULL)",
                       nullptr, nullptr, nullptr) == SQLITE_OK);
  sqlite3_close(old);
  for (const Store::Mode mode : {Store::Mode::read, Store::Mode::write}) {
    auto opened = Store::open(folder, mode);
    REQUIRE(opened);
    Store& store = **opened;
    auto rows = store.query("SELECT task, status, correct, faster_eager, counts FROM verdicts ORDER BY id", {});
    REQUIRE(rows);
    CHECK(*rows == Json::parse(R"([
      {"task": "a", "status": "ok", "correct": 1, "faster_eager": 1, "counts": "passed"},
      {"task": "b", "status": "violation", "correct": 0, "faster_eager": null, "counts": "failed"},
      {"task": "c", "status": "crash", "correct": 0, "faster_eager": 0, "counts": "failed"},
      {"task": "d", "status": "void", "correct": 0, "faster_eager": null, "counts": "not_counted"},
      {"task": "e", "status": "bad_task", "correct": 0, "faster_eager": null, "counts": "not_counted"}])"));
    auto rate = store.query("SELECT avg(correct) AS rate FROM verdicts WHERE counts <> 'not_counted'", {});
    CHECK(rate->at(0)["rate"].get<double>() == doctest::Approx(1.0 / 3));
    StoreQuery query;
    query.where = {{"status", "violation"}};
    auto listed = store.list("verdicts", query);
    REQUIRE(listed);
    REQUIRE(listed->size() == 1);
    CHECK(listed->at(0)["correct"] == false);
    CHECK(*store.count("verdicts", {{"status", "policy"}}) == 0);
    if (mode == Store::Mode::write) {  // and goes on being written
      REQUIRE(store.append("verdicts", {{"stage", "evaluate"}, {"task", "f"}, {"verdict", sample_verdict()}}));
      CHECK(*store.count("verdicts", {{"status", "ok"}}) == 2);
    }
  }
}

TEST_CASE("a fork has what its origin stored, a configuration of its own, and leaves the origin as it was") {
  Root root;
  RunInfo info;
  info.seed = 4;
  info.config = {{"ppo", {{"lr", 1.0}}}};
  auto origin = make(root, info);
  REQUIRE(origin->begin_stage("base"));
  REQUIRE(origin->finish_stage("base", {{"actor", "checkpoints/base/actor"}}));
  REQUIRE(origin->append("trajectories", sample_trajectory(1)));
  const std::string weights = origin->folder() + "/checkpoints/base/actor";
  fs::create_directories(weights);
  std::ofstream(weights + "/weights") << "7";

  RunInfo other = info;
  other.config["ppo"]["lr"] = 2.0;
  const std::string folder = root.folder + "/fork";
  REQUIRE(Store::fork(origin->folder(), folder, other));
  auto fork = Store::open(folder, Store::Mode::write);
  REQUIRE(fork);
  CHECK((*(*fork)->info())["config"]["ppo"]["lr"] == 2.0);
  CHECK((*(*fork)->info())["id"] == "fork");
  CHECK((*(*fork)->stage("base"))["status"] == "done");
  CHECK(*(*fork)->count("trajectories", Json::object()) == 1);
  CHECK(fs::exists(folder + "/checkpoints/base/actor/weights"));
  REQUIRE((*fork)->append("trajectories", sample_trajectory(2)));
  CHECK(*origin->count("trajectories", Json::object()) == 1);
  CHECK((*origin->info())["config"]["ppo"]["lr"] == 1.0);

  const Status again = Store::fork(origin->folder(), folder, other);
  REQUIRE_FALSE(again);
  CHECK(again.failure().code == "exists");
  CHECK(Store::fork(root.folder + "/nothing", root.folder + "/x", other).failure().code == "bad_input");
  // What a killed fork left is no obstacle.
  fs::create_directories(root.folder + "/second.part/checkpoints");
  CHECK(Store::fork(origin->folder(), root.folder + "/second", other));
  CHECK_FALSE(fs::exists(root.folder + "/second.part"));
}
