#include "sandbox/workspace/workspace.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "sandbox/jail/jail.h"
#include "sandbox/workspace/workspace_home.h"
#include "tests/host/child.h"

using namespace khost;
using namespace khost::sandbox;
namespace fs = std::filesystem;

namespace {

std::shared_ptr<Workspace> make(WorkspaceOptions options = {}) {
  options.files.insert({{"model.py", "model\n"},
                        {"SKILL.md", "skill\n"},
                        {"utils/request.py", "pass\n"},
                        {"kernels/a.cpp", "int a;\n"},
                        {"model_new.py", "new\n"}});
  Result<std::shared_ptr<Workspace>> made = Workspace::create(options);
  REQUIRE_MESSAGE(bool(made), made.failure().message);
  return *made;
}

std::string in_jail(const Workspace& workspace, const std::string& script) {
  JailSpec spec = workspace.jail_spec();
  spec.argv = {"bash", "-c", script};
  const Result<Output> output = run_in_jail(spec, "", 20, 1 << 16);
  REQUIRE_MESSAGE(bool(output), output.failure().message);
  return output.value().out + output.value().err;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

template <class T>
std::string code_of(const Result<T>& result) {
  return result ? "" : result.failure().code;
}

}  // namespace

TEST_CASE("the template is read-only inside, kernels and model_new.py are the agent's") {
  const auto workspace = make();
  const std::string text = in_jail(*workspace,
                                   "cat model.py; echo x > model.py; rm -f model.py; mv utils u; echo x > utils/y; "
                                   "chmod 777 utils; echo b > kernels/b.cpp; echo n > model_new.py; touch own; "
                                   "cat utils/request.py; pwd");
  CHECK(contains(text, "model\n"));
  CHECK(contains(text, "model.py: Read-only file system"));
  CHECK(contains(text, "rm: cannot remove 'model.py': Device or resource busy"));
  CHECK(contains(text, "mv: cannot move 'utils' to 'u': Device or resource busy"));
  CHECK(contains(text, "utils/y: Read-only file system"));
  CHECK(contains(text, "pass\n/workspace\n"));
  CHECK(workspace->read("model.py").value() == "model\n");
  CHECK(workspace->read("kernels/b.cpp").value() == "b\n");
  const auto snapshot = workspace->snapshot();
  REQUIRE(bool(snapshot));
  CHECK(snapshot.value().size() == 3);
  CHECK(snapshot.value().at("model_new.py") == "n\n");
}

TEST_CASE("a written file is the agent's to change, a protected one is refused by name") {
  const auto workspace = make();
  CHECK(bool(workspace->write("kernels/deep/c.cpp", "c\n")));
  CHECK(in_jail(*workspace, "echo d >> kernels/deep/c.cpp; touch kernels/deep/x; cat kernels/deep/c.cpp") == "c\nd\n");
  CHECK(code_of(workspace->write("model.py", "")) == "protected");
  CHECK(code_of(workspace->write("./utils//request.py", "")) == "protected");
  CHECK(code_of(workspace->remove("SKILL.md")) == "protected");
  CHECK(bool(workspace->put("model.py", "changed\n")));
  CHECK(workspace->is_protected("utils/new.py"));
  CHECK(!workspace->is_protected("kernels/a.cpp"));
}

TEST_CASE("links, fifos and paths out of the workspace are refused") {
  const auto workspace = make();
  in_jail(*workspace,
          "ln -s /etc/passwd kernels/link; ln -s /etc kernels/folder; ln -s ../../.. up; mkfifo kernels/fifo; "
          "ln -s model.py alias; rm -r kernels/a.cpp");
  CHECK(code_of(workspace->read("kernels/link")) == "bad_input");
  CHECK(code_of(workspace->read("kernels/folder/passwd")) == "bad_input");
  CHECK(code_of(workspace->read("up/etc/passwd")) == "bad_input");
  CHECK(code_of(workspace->read("../tmp")) == "bad_input");
  CHECK(code_of(workspace->read("/etc/passwd")) == "bad_input");
  CHECK(code_of(workspace->read("kernels/fifo")) == "bad_input");
  CHECK(code_of(workspace->read("alias")) == "bad_input");
  CHECK(code_of(workspace->write("kernels/link", "x")) == "bad_input");
  CHECK(code_of(workspace->write("kernels/folder/x", "x")) == "bad_input");
  CHECK(code_of(workspace->read("kernels/none")) == "io");
  const auto snapshot = workspace->snapshot();
  REQUIRE(bool(snapshot));
  CHECK(snapshot.value().size() == 1);  // model_new.py: links and fifos are not files
  CHECK(bool(workspace->remove("kernels/link")));
  CHECK(fs::exists("/etc/passwd"));
}

TEST_CASE("a snapshot is restored exactly") {
  const auto workspace = make();
  const auto before = workspace->snapshot();
  REQUIRE(bool(before));
  in_jail(*workspace, "rm kernels/a.cpp; echo z > kernels/z.cpp; echo other > model_new.py");
  REQUIRE(bool(workspace->restore(before.value())));
  CHECK(workspace->snapshot().value() == before.value());
}

TEST_CASE("a workspace has a size and a number of files") {
  WorkspaceOptions options;
  options.bytes = 8 << 20;
  options.most_files = 100;
  const auto workspace = make(options);
  const std::string text = in_jail(*workspace, "dd if=/dev/zero of=kernels/big bs=1M count=100 2>&1 | tail -n 1");
  if (geteuid() == 0) {
    CHECK(fs::file_size(workspace->path() + "/kernels/big") < (20u << 20));
  }
  CHECK(code_of(workspace->within_limits()) == "limit");
  in_jail(*workspace, "rm kernels/big; for i in $(seq 300); do touch kernels/$i; done");
  CHECK(code_of(workspace->within_limits()) == "limit");
  CHECK(code_of(workspace->snapshot()) != "io");
}

TEST_CASE("programs inside ask and the host answers") {
  const auto workspace = make();
  CHECK(!workspace->take_request());
  in_jail(*workspace, "echo '{\"kind\": \"verify\"}' > .khost/draft; mv .khost/draft .khost/request-17.json");
  const std::optional<Request> request = workspace->take_request();
  REQUIRE(bool(request));
  CHECK(request->id == 17);
  CHECK(request->text == "{\"kind\": \"verify\"}\n");
  CHECK(!workspace->take_request());
  REQUIRE(bool(workspace->answer(17, "{\"ok\": true}")));
  CHECK(in_jail(*workspace, "cat .khost/response-17.json; rm .khost/response-17.json") == "{\"ok\": true}");
}

TEST_CASE("files below a folder come sorted and without links") {
  const auto workspace = make();
  in_jail(*workspace, "mkdir -p kernels/x/y; touch kernels/x/y/z kernels/b; ln -s / kernels/root");
  const auto files = workspace->files("kernels");
  REQUIRE(bool(files));
  REQUIRE(files.value().size() == 3);
  CHECK(files.value()[0].path == "kernels/a.cpp");
  CHECK(files.value()[2].path == "kernels/x/y/z");
}

TEST_CASE("destroying a workspace leaves nothing, also of what a jail locked up") {
  std::string path;
  {
    const auto workspace = make();
    path = workspace->path();
    in_jail(*workspace, "mkdir -p kernels/locked/deep; touch kernels/locked/deep/x; chmod 000 kernels/locked");
  }
  CHECK(!fs::exists(path));
}

TEST_CASE("workspaces of a killed process are swept by the next") {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t owner = fork();
  if (owner == 0) {
    const auto workspace = make();
    [[maybe_unused]] const ssize_t n = write(ends[1], workspace->path().data(), workspace->path().size());
    pause();
  }
  char text[512] = {};
  REQUIRE(read(ends[0], text, sizeof text - 1) > 0);
  sweep_homes();
  CHECK(fs::exists(text));
  kill(owner, SIGKILL);
  waitpid(owner, nullptr, 0);
  sweep_homes();
  CHECK(!fs::exists(text));
  close(ends[0]);
  close(ends[1]);
}

TEST_CASE("workspaces: a program that ends leaves no folder and no lock behind") {
  const fs::path folder = fs::temp_directory_path() / ("khost-workspaces-" + std::to_string(getpid()));
  fs::remove_all(folder);
  fs::create_directories(folder);
  std::ofstream(folder / "makes.lua") << R"lua(
    local function run()
      assert(require("khost.sandbox").workspace(nil, { files = { ["a.txt"] = "a" } }))
      return 0
    end
    return { name = "makes", summary = "a workspace", options = {}, run = run })lua";
  khost::tests::Child child({self_directory() + "/khost", (folder / "makes.lua").string()},
                            {{"KHOST_ROOT", KHOST_SOURCE_DIR}, {"KHOST_WORKSPACES", (folder / "homes").string()}});
  CHECK_MESSAGE(child.wait(30) == 0, child.text());
  REQUIRE(fs::exists(folder / "homes"));
  CHECK(fs::is_empty(folder / "homes"));
  fs::remove_all(folder);
}
