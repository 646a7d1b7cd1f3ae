// Bad input as users meet it: each is answered by a clear message and the right exit code, and nothing else happens.
// The judged ones start real judges with real compilers: they are run by name, `./khost test -R "bad input"`.
#include <doctest/doctest.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "host/base/json.h"
#include "host/host.h"
#include "tests/host/child.h"

namespace khost::tests {
namespace {

namespace fs = std::filesystem;

std::string read_file(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// Processes whose parent is this one: descendants of a child that died come to us (child subreaper).
std::string left_processes() {
  std::string left;
  for (const auto& task : fs::directory_iterator("/proc/self/task")) {
    std::istringstream ids(read_file(task.path() / "children"));
    std::string id;
    while (ids >> id) {
      std::string words = read_file("/proc/" + id + "/cmdline");
      std::replace(words.begin(), words.end(), '\0', ' ');
      left += id + " " + words + "\n";
    }
  }
  return left;
}

// A world of its own for one child: temporary files, workspaces, lease and runs lie in one folder.
class World {
 public:
  World() : folder_(fs::temp_directory_path() / ("khost-bad-input-" + std::to_string(getpid()))) {
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    fs::remove_all(folder_);
    for (const char* name : {"tmp", "runs"}) {
      fs::create_directories(folder_ / name);
    }
    fs::permissions(folder_ / "tmp", fs::perms::all | fs::perms::sticky_bit);
  }
  ~World() { fs::remove_all(folder_); }

  // Runs khost with the words; the text of both streams.
  int run(const std::vector<std::string>& words, double seconds) {
    std::vector<std::string> all{executable_dir() + "/khost"};
    all.insert(all.end(), words.begin(), words.end());
    Child child(all, {{"KHOST_ROOT", KHOST_SOURCE_DIR},
                      {"TMPDIR", (folder_ / "tmp").string()},
                      {"KHOST_WORKSPACES", (folder_ / "workspaces").string()},
                      {"KHOST_LEASE", (folder_ / "lease").string()}});
    const int code = child.wait(seconds);
    text_ = child.text();
    return code;
  }
  bool has(const std::string& part) const { return text_.find(part) != std::string::npos; }
  const std::string& text() const { return text_; }
  const fs::path& folder() const { return folder_; }

  // What a child that has ended left behind: processes, mounts, temporary files. Empty is right.
  std::string remains() const {
    std::string left;
    // The kernel takes a moment to end what lived in a killed pid namespace. The dead are reaped here: they come to us
    // because we are a subreaper, as they would come to init.
    for (int i = 0; i < 50 && !(left = left_processes()).empty(); i++) {
      while (waitpid(-1, nullptr, WNOHANG) > 0) {
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    std::istringstream mounts(read_file("/proc/self/mounts"));
    for (std::string line; std::getline(mounts, line);) {
      left += line.find(folder_.string()) != std::string::npos ? "mount " + line + "\n" : "";
    }
    for (const auto& entry : fs::recursive_directory_iterator(folder_ / "tmp")) {
      left += "file " + entry.path().string() + "\n";
    }
    if (fs::exists(folder_ / "workspaces")) {
      for (const auto& entry : fs::recursive_directory_iterator(folder_ / "workspaces")) {
        left += "file " + entry.path().string() + "\n";
      }
    }
    left += fs::is_empty(folder_ / "runs") ? "" : "a run\n";
    return left;
  }

 private:
  fs::path folder_;
  std::string text_;
};

// `khost evaluate` without timing; the verdict, null when it printed none.
Json evaluate(World& world, const std::string& task, const std::string& workspace, double seconds = 400) {
  const int code = world.run({"evaluate", "--task", task, "--workspace", workspace, "--no-measure", "--json"}, seconds);
  CHECK_MESSAGE(code == 0, world.text());
  const size_t at = world.text().find('{');
  Json verdict = at == std::string::npos ? Json() : Json::parse(world.text().substr(at), nullptr, false);
  CHECK_MESSAGE(verdict.is_object(), world.text());
  const std::string left = world.remains();
  CHECK_MESSAGE(left.empty(), left);
  return verdict.is_object() ? verdict : Json::object();
}

constexpr const char* kModel =
    "import torch\nimport torch.nn as nn\n"
    "class Model(nn.Module):\n    def forward(self, x):\n        return torch.relu(x) + 1\n"
    "def get_inputs():\n    return [torch.rand(64, 64)]\ndef get_init_inputs():\n    return []\n";

std::string task_file(const World& world, const std::string& text) {
  const fs::path path = world.folder() / "task.py";
  std::ofstream(path) << text;
  return path.string();
}

std::string workspace(const World& world, const std::string& kernel) {
  fs::create_directories(world.folder() / "work/kernels");
  std::ofstream(world.folder() / "work/kernels/k.cpp") << kernel;
  return (world.folder() / "work").string();
}

constexpr const char* kKernel =
    "#include \"khost.h\"\n"
    "extern \"C\" int k(const float* x, float* out, int64_t n) {\n"
    "  for (int64_t i = 0; i < n; i++) out[i] = (x[i] > 0 ? x[i] : 0) + 1;\n  return 0;\n}\nKHOST_EXPORT(k)\n";

}  // namespace

TEST_CASE("bad input: a missing file, an unknown command, preset or key ends with 2 and names the nearest legal one") {
  World world;
  const std::string runs = "machine.runs=" + (world.folder() / "runs").string();
  const std::string recipe = "recipes/full_pipeline.lua";
  CHECK(world.run({"evaluate", "--task", "/no/such/task.py", "--workspace", "/no/such"}, 20) == 2);
  CHECK_MESSAGE(world.has("--task /no/such/task.py: no such file"), world.text());
  CHECK(world.run({"evaluate", "--task", task_file(world, kModel), "--workspace", "/no/such"}, 20) == 2);
  CHECK_MESSAGE(world.has("--workspace /no/such: no such folder"), world.text());
  CHECK(world.run({"evaluate", "--workspace", "/no/such"}, 20) == 2);
  CHECK_MESSAGE(world.has("--task"), world.text());
  CHECK(world.run({"evaluate", "--tsak", "x"}, 20) == 2);
  CHECK_MESSAGE(world.has("did you mean '--task'"), world.text());
  CHECK(world.run({"evalute"}, 20) == 2);
  CHECK_MESSAGE(world.has("did you mean 'evaluate'"), world.text());
  CHECK(world.run({recipe, "--preset", "smok", "--set", runs}, 20) == 2);
  CHECK_MESSAGE(world.has("smoke"), world.text());
  CHECK(world.run({recipe, "--set", "single_turn.stesp=2", "--set", runs}, 20) == 2);
  CHECK_MESSAGE(world.has("did you mean 'single_turn.steps'"), world.text());
  CHECK(world.run({recipe, "--set", "single_turn.steps=many", "--set", runs}, 20) == 2);
  CHECK_MESSAGE(world.has("single_turn.steps"), world.text());
  CHECK(world.run({recipe, "--set", "nonsense", "--set", runs}, 20) == 2);
  CHECK(world.run({recipe, "--resume=no-such-run", "--set", runs}, 20) == 2);
  CHECK_MESSAGE(world.has("no-such-run"), world.text());
  CHECK_MESSAGE(world.remains().empty(), world.remains());
}

TEST_CASE("bad input: a workspace without kernels ends with 2 before anything is started") {
  World world;
  fs::create_directories(world.folder() / "work/kernels");
  CHECK(world.run({"evaluate", "--task", task_file(world, kModel), "--workspace", (world.folder() / "work").string()},
                  20) == 2);
  CHECK_MESSAGE(world.has("no file in "), world.text());
  CHECK_MESSAGE(world.remains().empty(), world.remains());
}

TEST_CASE("bad input, judged: a task that has no Model, or whose get_inputs raises, is a bad task with its reason" *
          doctest::skip()) {
  World world;
  const std::string work = workspace(world, kKernel);
  const Json without = evaluate(world, task_file(world, "def get_inputs():\n    return []\n"), work);
  CHECK(without.value("status", "") == "bad_task");
  CHECK_MESSAGE(without.dump().find("Model") != std::string::npos, without.dump());
  std::string text = kModel;
  text += "def get_inputs():\n    raise ValueError('no inputs today')\n";
  const Json raising = evaluate(world, task_file(world, text), work);
  CHECK(raising.value("status", "") == "bad_task");
  CHECK_MESSAGE(raising.dump().find("no inputs today") != std::string::npos, raising.dump());
}

TEST_CASE("bad input, judged: a task whose get_inputs never returns ends by itself" * doctest::skip()) {
  World world;
  std::string text = kModel;
  text += "def get_inputs():\n    while True:\n        pass\n";
  const Json verdict = evaluate(world, task_file(world, text), workspace(world, kKernel));
  CHECK(verdict.value("status", "") == "bad_task");
  MESSAGE(verdict.dump());
}

TEST_CASE("bad input, judged: without model_new.py a kernel whose call cannot be derived says what is missing" *
          doctest::skip()) {
  World world;
  const std::string work = workspace(world,
                                     "#include \"khost.h\"\n"
                                     "extern \"C\" int k(const float* x, float* out, int64_t depth) {\n"
                                     "  for (int64_t i = 0; i < depth; i++) out[i] = x[i];\n  return 0;\n}\n"
                                     "KHOST_EXPORT(k)\n");
  const Json verdict = evaluate(world, task_file(world, kModel), work);
  CHECK(verdict.value("stage", "") == "plan");
  CHECK_MESSAGE(verdict.dump().find("depth") != std::string::npos, verdict.dump());
  CHECK_MESSAGE(verdict.dump().find("model_new.py") != std::string::npos, verdict.dump());
}

TEST_CASE("bad input, judged: kernels that do not compile, crash, hang, flood, fork, fill the disk or write outside" *
          doctest::skip()) {
  const char* names[] = {"does_not_compile",  "segfault",       "hang",          "prints_a_gigabyte",
                         "forks_without_end", "fills_the_disk", "writes_outside"};
  for (const char* name : names) {
    CAPTURE(name);
    World world;
    const fs::path folder = fs::path(KHOST_SOURCE_DIR) / "tests/data/kernels/cpu/crash" / name;
    const Json expected = Json::parse(read_file(folder / "expected.json"));
    const Json verdict = evaluate(world, (folder / "model.py").string(), folder.string());
    CHECK(verdict.value("status", "") == expected.value("status", "?"));
    CHECK(verdict.value("stage", "") == expected.value("stage", verdict.value("stage", "")));
    const bool right = verdict.value("status", "") == "ok";
    CHECK_MESSAGE((right || verdict.value("reason", "") + verdict.value("detail", "") != ""), verdict.dump());
    // What it printed is not passed on: the text is the verdict and a few lines of ours.
    CHECK(world.text().size() < 200000);
  }
}

}  // namespace khost::tests
