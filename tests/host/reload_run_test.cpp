// A run goes on while somebody edits its reward: real process, real store, a copy of the scripts.
#include <doctest/doctest.h>
#include <sqlite3.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "host/host.h"
#include "tests/host/child.h"

namespace khost::tests {
namespace {

namespace fs = std::filesystem;

// Steps of a run that scores two episodes each, as the stages do: at_step() at its beginning, then score().
constexpr const char* kRecipe = R"lua(
local fs = require "khost.fs"
local log = require "khost.log"
local reward = require "run.reward"
local sched = require "khost.sched"
local store = require "khost.store"
return { run = function(list)
  local record = assert(store.create(list[1], { name = "reload" }))
  local scheme = assert(reward.open("rewards.milestone", record))
  assert(log.open { folder = record:folder() })
  local verdict = { status = "ok", correct = true, faster = { eager = true, compile = false }, times = {},
    speedup = {}, evidence = { tolerance = "calibrated" } }
  local step = 0
  while not fs.exists(list[1] .. "/stop") do
    step = step + 1
    local hash = scheme:at_step("steps", step)
    record:append("metrics", { stage = "steps", step = step, name = "began", value = 1, script_hash = hash })
    for _ = 1, 2 do
      local total, parts, by = scheme:score({ verdict = verdict, task = "t" }, step)
      assert(total, parts)
      record:append("metrics", { stage = "steps", step = step, name = "reward", value = total, script_hash = by })
      sched.sleep(0.03)
    end
    fs.eprint(("step %d\n"):format(step))
  end
end }
)lua";

class Run {
 public:
  Run() : root_(fs::temp_directory_path() / ("khost-reload-run-" + std::to_string(getpid()))) {
    fs::remove_all(root_);
    fs::create_directories(root_ / "runs");
    const fs::path source = KHOST_SOURCE_DIR;
    fs::copy(source / "scripts", root_ / "scripts", fs::copy_options::recursive);
    fs::create_directories(root_ / "host");
    fs::copy(source / "host/modules", root_ / "host/modules", fs::copy_options::recursive);
    original_ = read(scheme());
    std::ofstream(root_ / "steps.lua") << kRecipe;
  }
  ~Run() { fs::remove_all(root_); }

  fs::path scheme() const { return root_ / "scripts/rewards/milestone.lua"; }
  const fs::path& root() const { return root_; }
  const std::string& original() const { return original_; }

  // Replaces the scheme as editors do: a new file under the old name.
  void edit(const std::string& text) const {
    std::ofstream(root_ / "edited") << text;
    fs::rename(root_ / "edited", scheme());
  }

  // Each row of the query as its columns joined by " ".
  std::vector<std::string> query(const std::string& sql) const {
    std::vector<std::string> rows;
    for (const auto& entry : fs::directory_iterator(root_ / "runs")) {
      sqlite3* database = nullptr;
      if (sqlite3_open_v2((entry.path() / "run.sqlite").c_str(), &database, SQLITE_OPEN_READONLY, nullptr) ==
          SQLITE_OK) {
        sqlite3_busy_timeout(database, 2000);
        const int code = sqlite3_exec(
            database, sql.c_str(),
            [](void* out, int n, char** values, char**) {
              std::string row;
              for (int i = 0; i < n; i++) {
                row += (i > 0 ? " " : "") + std::string(values[i] != nullptr ? values[i] : "-");
              }
              static_cast<std::vector<std::string>*>(out)->push_back(row);
              return 0;
            },
            &rows, nullptr);
        CHECK_MESSAGE(code == SQLITE_OK, sqlite3_errmsg(database));
      }
      sqlite3_close(database);
    }
    return rows;
  }

  static std::string read(const fs::path& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }

 private:
  fs::path root_;
  std::string original_;
};

int steps_so_far(const Child& child) {
  const size_t at = child.text().rfind("step ");
  return at == std::string::npos ? 0 : std::atoi(child.text().c_str() + at + 5);
}

// Until `more` further steps have ended: the run goes on.
bool goes_on(Child& child, int more, double seconds = 30) {
  const int wanted = steps_so_far(child) + more;
  return child.until("step " + std::to_string(wanted) + "\n", seconds);
}

std::string replaced(std::string text, const std::string& what, const std::string& with) {
  const size_t at = text.find(what);
  REQUIRE(at != std::string::npos);
  return text.replace(at, what.size(), with);
}

}  // namespace

TEST_CASE("reload: a reward edited during a run counts from the next step, and what is broken is refused by name") {
  const Run run;
  const std::string runs = (run.root() / "runs").string();
  Child child({executable_dir() + "/khost", (run.root() / "steps.lua").string(), runs},
              {{"KHOST_ROOT", run.root().string()}});
  REQUIRE_MESSAGE(goes_on(child, 3), child.text());

  // A valid edit: faster than eager is worth one more.
  run.edit(replaced(run.original(), "1 + eager", "2 + eager"));
  REQUIRE(goes_on(child, 4));
  const auto changes = run.query(
      "SELECT json_extract(data,'$.step'), json_extract(data,'$.from'), json_extract(data,'$.to') FROM events "
      "WHERE event = 'reward_changed'");
  REQUIRE(changes.size() == 1);
  const std::string hash = changes[0].substr(changes[0].rfind(' ') + 1);
  CHECK(hash.size() == 64);
  CHECK(run.query("SELECT count(*) FROM scripts WHERE hash = '" + hash + "' AND text LIKE '%2 + eager%'") ==
        std::vector<std::string>{"1"});
  // No step is scored by two generations, and every reward belongs to the scripts that its hash names.
  CHECK(run.query("SELECT step FROM metrics GROUP BY step HAVING count(DISTINCT script_hash) > 1").empty());
  CHECK(run.query("SELECT DISTINCT value FROM metrics WHERE name = 'reward' AND script_hash = '" + hash + "'") ==
        std::vector<std::string>{"3.0"});
  CHECK(run.query("SELECT DISTINCT value FROM metrics WHERE name = 'reward' AND script_hash <> '" + hash + "'") ==
        std::vector<std::string>{"2.0"});

  struct Broken {
    const char* what;
    std::string text;
    const char* message;
  };
  const std::string good = replaced(run.original(), "1 + eager", "2 + eager");
  const Broken cases[] = {
      {"syntax", "return {\n  name = = 'x',\n}\n", "scripts/rewards/milestone.lua:2: unexpected symbol"},
      {"endless", "local n = 0\nwhile true do n = n + 1 end\n", "scripts/rewards/milestone.lua:2: ran too long"},
      {"raises", "local x = nil\n\nreturn { name = x.y }\n", "scripts/rewards/milestone.lua:3: attempt to index"},
      {"global", "value = 3\nreturn {}\n", "scripts/rewards/milestone.lua:1: assignment to the global 'value'"},
      {"no scheme", "return { name = 'x' }\n", "milestone"},
  };
  for (const Broken& broken : cases) {
    CAPTURE(broken.what);
    run.edit(broken.text);
    REQUIRE_MESSAGE(goes_on(child, 3), child.text());
    const auto refused = run.query(
        "SELECT json_extract(data,'$.message') FROM events WHERE event = 'reward_refused' ORDER BY id DESC LIMIT 1");
    REQUIRE(refused.size() == 1);
    CHECK_MESSAGE(refused[0].find(broken.message) != std::string::npos, refused[0]);
  }
  CHECK(run.query("SELECT count(*) FROM events WHERE event = 'reward_refused'") == std::vector<std::string>{"5"});
  // All of them were scored by the last good generation.
  const std::string last = "SELECT value, script_hash FROM metrics WHERE name = 'reward' ORDER BY id DESC LIMIT 1";
  CHECK(run.query(last) == std::vector<std::string>{"3.0 " + hash});

  // What loads but fails when it scores: reported with its line, and the last good generation scores instead.
  run.edit(replaced(good, "local function score(episode)\n", "local function score(episode)\n  error('in score')\n"));
  REQUIRE_MESSAGE(goes_on(child, 3), child.text());
  const auto failed = run.query(
      "SELECT json_extract(data,'$.message') FROM events WHERE event = 'reward_failed' ORDER BY id DESC LIMIT 1");
  REQUIRE(failed.size() == 1);
  CHECK_MESSAGE(failed[0].find("scripts/rewards/milestone.lua:8: in score") != std::string::npos, failed[0]);
  CHECK(run.query(last) == std::vector<std::string>{"3.0 " + hash});
  run.edit(replaced(good, "local function score(episode)\n", "local function score(episode)\n  while true do end\n"));
  REQUIRE_MESSAGE(goes_on(child, 3, 60), child.text());
  const auto looped = run.query(
      "SELECT json_extract(data,'$.message') FROM events WHERE event = 'reward_failed' ORDER BY id DESC LIMIT 1");
  REQUIRE(looped.size() == 1);
  CHECK_MESSAGE(looped[0].find("milestone.lua:8: ran too long") != std::string::npos, looped[0]);
  CHECK(run.query(last) == std::vector<std::string>{"3.0 " + hash});

  // Mending it swaps again.
  run.edit(run.original());
  REQUIRE(goes_on(child, 4));
  CHECK(run.query("SELECT value FROM metrics WHERE name = 'reward' ORDER BY id DESC LIMIT 1") ==
        std::vector<std::string>{"2.0"});
  std::ofstream(runs + "/stop") << "";
  CHECK(child.wait(20) == 0);
}

}  // namespace khost::tests
