// The launcher as users meet it, and the installed tree. The launcher runs with small folders of its own in place of
// the build and the cache.
#include <doctest/doctest.h>
#include <grp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "host/host.h"
#include "tests/host/child.h"
#include "tests/lua_cases.h"

namespace khost::tests {
namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  std::string result = text.str();
  while (!result.empty() && result.back() == '\n') {
    result.pop_back();
  }
  return result;
}

void write_program(const fs::path& path, const std::string& text) {
  std::ofstream(path) << text;
  fs::permissions(path, fs::perms(0755));
}

// A folder that an ordinary user may enter and write.
struct Folder {
  Folder() : path(fs::temp_directory_path() / ("khost-launcher-" + std::to_string(getpid()))) {
    fs::remove_all(path);
    fs::create_directories(path / "cache");
    fs::create_directories(path / "build");
    fs::create_directories(path / "bin");
    for (const fs::path& each : {path, path / "cache", path / "build"}) {
      fs::permissions(each, fs::perms::all);
    }
  }
  ~Folder() { fs::remove_all(path); }

  std::map<std::string, std::string> environment() const {
    return {{"XDG_CACHE_HOME", (path / "cache").string()},
            {"KHOST_BUILD", (path / "build").string()},
            {"KHOST_PYTHON", ""},
            {"KHOST_PREBUILT", ""},
            {"KHOST_CMAKE", ""}};
  }
  fs::path path;
};

std::string launcher() {
  return std::string(KHOST_SOURCE_DIR) + "/khost";
}

// A Python that claims to have PyTorch, and a cmake that notes its targets in build/calls, waits for build/go where it
// is told to (FAKE_GATE), says what Ninja says of four units, FAKE_SECONDS each, and makes programs that print their
// arguments.
struct FakeTools : Folder {
  FakeTools() {
    write_program(path / "bin/python", "#!/bin/sh\nexit 0\n");
    write_program(path / "bin/cmake", R"(#!/bin/bash
cd "$KHOST_BUILD"
if [ "$1" = -S ]; then echo configured >>calls; : >build.ninja; exit 0; fi
while [ "$1" != --target ]; do shift; done
shift
echo "$*" >>calls
while [ -n "$FAKE_GATE" ] && [ ! -e go ]; do sleep 0.05; done
for unit in 1 2 3 4; do sleep "$FAKE_SECONDS"; echo "[$unit/4] Building CXX object unit$unit.o"; done
printf '#!/bin/bash\necho "ran $*"\n' >khost
cp khost khost_tests
chmod +x khost khost_tests
)");
  }
  std::map<std::string, std::string> with_seconds(const std::string& seconds) const {
    auto result = environment();
    result["PATH"] = (path / "bin").string() + ":" + std::getenv("PATH");
    result["KHOST_PYTHON"] = (path / "bin/python").string();
    result["FAKE_SECONDS"] = seconds;
    result["FAKE_GATE"] = "";
    result["CI"] = "";
    return result;
  }
  std::map<std::string, std::string> with_gate() const {
    auto result = with_seconds("0");
    result["FAKE_GATE"] = "1";
    return result;
  }
  void open_gate() const { std::ofstream(path / "build/go") << "\n"; }
  // What was built, one call a line.
  std::string calls() const { return text_of(path / "build/calls"); }
  bool until_called(const std::string& call) const {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!calls().ends_with(call) && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return calls().ends_with(call);
  }
};

}  // namespace

TEST_CASE("launcher: a start after the first only looks whether something changed, in less than a second") {
  const Folder folder;
  write_program(folder.path / "build/khost", "#!/bin/sh\necho \"started with $*\"\n");
  const std::string python = "/usr/bin/python3";
  std::ofstream(folder.path / "build/.python") << python << "\n";
  std::ofstream(folder.path / "build/.current")
      << python << "  " << text_of(fs::path(KHOST_SOURCE_DIR) / "trainer/requirements.txt") << "\n";
  Child child({"bash", launcher(), "recipes/x.lua", "--set", "a b=c"}, folder.environment());
  CHECK(child.wait(20) == 0);
  CHECK_MESSAGE(child.text() == "started with recipes/x.lua --set a b=c\n", child.text());
  CHECK(child.seconds() < 1);
}

TEST_CASE("launcher: a prebuilt tree runs without network, compiler or set-up") {
  const Folder folder;
  auto environment = folder.environment();
  environment["KHOST_PREBUILT"] = executable_dir();
  environment["PATH"] = "/usr/bin:/bin";
  std::vector<std::string> words{"bash", launcher(), "--version"};
  if (geteuid() == 0) {
    words.insert(words.begin(), {"unshare", "--net"});
  }
  Child child(words, environment);
  CHECK(child.wait(20) == 0);
  CHECK_MESSAGE(child.text().starts_with("khost "), child.text());
  CHECK(fs::is_empty(folder.path / "cache"));
  environment["KHOST_PREBUILT"] = (folder.path / "bin").string();
  Child wrong({"bash", launcher(), "--version"}, environment);
  CHECK(wrong.wait(20) == 1);
  CHECK_MESSAGE(wrong.has("holds no khost"), wrong.text());
  CHECK_MESSAGE(wrong.has("remedy: "), wrong.text());
}

TEST_CASE("launcher: an ordinary user without sudo is told which packages root must install") {
  const Folder folder;
  // What the launcher itself needs, and neither compiler nor sudo.
  for (const char* name :
       {"bash", "dirname", "readlink", "cat",     "tail",      "sed",     "mkdir",      "id",   "grep", "awk",
        "find", "date",    "env",      "apt-get", "apt-cache", "python3", "pkg-config", "head", "tr",   "nproc"}) {
    for (const char* base : {"/usr/bin/", "/bin/"}) {
      if (fs::exists(std::string(base) + name)) {
        fs::create_symlink(std::string(base) + name, folder.path / "bin" / name);
        break;
      }
    }
  }
  auto environment = folder.environment();
  environment["PATH"] = (folder.path / "bin").string();
  std::vector<std::string> words{"/bin/bash", launcher(), "doctor"};
  if (geteuid() == 0) {
    if (access("/usr/bin/setpriv", X_OK) != 0) {
      return skip("no setpriv");
    }
    struct stat info {};
    stat(KHOST_SOURCE_DIR, &info);
    words.insert(words.begin(), {"/usr/bin/setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"});
    Child readable({"/usr/bin/setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "cat", launcher()});
    if (readable.wait(20) != 0) {
      return skip("the source folder is closed to other users");
    }
  }
  Child child(words, environment);
  CHECK(child.wait(60) == 1);
  CHECK_MESSAGE(child.has("missing packages and no sudo"), child.text());
  CHECK_MESSAGE(child.has("remedy: as root: apt-get install --no-install-recommends g++"), child.text());
  CHECK_MESSAGE(child.has("cmake"), child.text());
}

TEST_CASE("launcher: a KHOST_PYTHON without PyTorch is refused with a remedy") {
  const Folder folder;
  write_program(folder.path / "bin/python", "#!/bin/sh\nexec /usr/bin/python3 -S -I \"$@\"\n");
  auto environment = folder.environment();
  environment["KHOST_PYTHON"] = (folder.path / "bin/python").string();
  // All packages are there on a machine that could build this test; the launcher says at once when they are not.
  Child child({"bash", launcher(), "doctor"}, environment);
  CHECK(child.wait(120) == 1);
  CHECK_MESSAGE(child.has("has no PyTorch of the same minor version"), child.text());
  CHECK_MESSAGE(child.has("remedy: point KHOST_PYTHON at one that has"), child.text());
}

TEST_CASE("launcher: test refuses unknown arguments and names that no test has") {
  const Folder folder;
  auto environment = folder.environment();
  environment["KHOST_PREBUILT"] = executable_dir();
  Child unknown({"bash", launcher(), "test", "--frobnicate"}, environment);
  CHECK(unknown.wait(20) == 2);
  CHECK_MESSAGE(unknown.has("unknown argument '--frobnicate'"), unknown.text());
  Child label({"bash", launcher(), "test", "frobnicate"}, environment);
  CHECK(label.wait(20) == 2);
  CHECK_MESSAGE(label.has("no test has the label 'frobnicate'"), label.text());
  Child place({"bash", launcher(), "test", "tests/frobnicate"}, environment);
  CHECK(place.wait(20) == 2);
  CHECK_MESSAGE(place.has("there are tests in tests/host tests/lua tests/sandbox tests/trainer"), place.text());
}

TEST_CASE("launcher: the help of test lists folders and labels") {
  const Folder folder;
  Child help({"bash", launcher(), "test", "--help"}, folder.environment());
  CHECK(help.wait(20) == 0);
  for (const char* text : {"Folders: tests/host tests/lua", " judge ", " launcher ", "--slow"}) {
    CHECK_MESSAGE(help.has(text), help.text());
  }
}

TEST_CASE("launcher: a command builds the program alone, and other parts when they are asked for") {
  const FakeTools tools;
  const auto run = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"bash", launcher()});
    Child child(words, tools.with_seconds("0"));
    const int code = child.wait(60);
    return std::to_string(code) + " " + child.text();
  };
  CHECK(run({"evaluate", "--task", "a b"}).ends_with("ran evaluate --task a b\n"));
  CHECK(tools.calls() == "configured\npart-program");
  CHECK(run({"evaluate"}) == "0 ran evaluate\n");  // nothing is left to do
  CHECK(run({"build", "trainer"}).starts_with("0 "));
  CHECK(tools.calls() == "configured\npart-program\npart-trainer");
  CHECK(run({"build", "trainer"}) == "0 ");
  CHECK(run({"setup"}).starts_with("0 "));
  CHECK(tools.calls().ends_with("part-program part-serve part-trainer part-trainer-cuda part-judge-cuda"));
  CHECK(run({"test", "-R", "some name"}).ends_with("ran --test-case=*some name* --no-skip\n"));
  CHECK(tools.calls().ends_with("part-judge-cuda part-tests"));
  CHECK(run({"test", "tests/lua", "chat", "--slow"}).ends_with("ran tests/lua chat --no-skip\n"));
  const std::string wrong = run({"build", "engine"});
  CHECK_MESSAGE(wrong.starts_with("2 khost: build: unknown part 'engine'; there are program serve trainer"), wrong);
}

TEST_CASE("launcher: two starts in one folder wait for each other, and the second builds nothing again") {
  const FakeTools tools;
  Child first({"bash", launcher(), "first"}, tools.with_gate());
  REQUIRE_MESSAGE(tools.until_called("part-program"), first.text());
  Child second({"bash", launcher(), "second"}, tools.with_gate());
  CHECK_MESSAGE(
      second.until("another khost (process " + std::to_string(first.pid()) + ") builds in this folder; waiting", 60),
      second.text());
  tools.open_gate();
  CHECK(first.wait(60) == 0);
  CHECK(second.wait(60) == 0);
  CHECK_MESSAGE(first.text().ends_with("ran first\n"), first.text());
  CHECK_MESSAGE(second.text().ends_with("waiting\nran second\n"), second.text());
  CHECK(tools.calls() == "configured\npart-program");
}

TEST_CASE("launcher: a build that was killed goes on with the next start, without what may be half of a library") {
  const FakeTools tools;
  Child killed({"bash", launcher(), "first"}, tools.with_gate());
  REQUIRE_MESSAGE(tools.until_called("part-program"), killed.text());
  std::ofstream(tools.path / "build/libkhost_trainer.so") << "half";
  killed.signal(SIGKILL);
  CHECK(killed.wait(60) == 128 + SIGKILL);
  tools.open_gate();
  Child next({"bash", launcher(), "next"}, tools.with_seconds("0"));
  CHECK(next.wait(60) == 0);
  CHECK_MESSAGE(next.has("did not end; going on with it"), next.text());
  CHECK_MESSAGE(next.text().ends_with("ran next\n"), next.text());
  CHECK(!fs::exists(tools.path / "build/libkhost_trainer.so"));
  CHECK(!fs::exists(tools.path / "build/.building"));
  CHECK(tools.calls() == "configured\npart-program\npart-program");
}

TEST_CASE("launcher: a build that fails shows the end of its log and a remedy") {
  const FakeTools tools;
  write_program(tools.path / "bin/cmake", "#!/bin/sh\necho 'unit.cpp:1: error: nonsense'\nexit 1\n");
  Child wrong({"bash", launcher(), "x"}, tools.with_seconds("0"));
  CHECK(wrong.wait(60) == 1);
  CHECK_MESSAGE(wrong.has("    unit.cpp:1: error: nonsense"), wrong.text());
  CHECK_MESSAGE(wrong.has("remedy: read the log"), wrong.text());
}

TEST_CASE("launcher: a build says how many units are done and about how long the others take") {
  const FakeTools tools;
  Child child({"bash", launcher(), "x"}, tools.with_seconds("4"));
  CHECK(child.wait(60) == 0);
  // After ten seconds two units of four seconds are done; a busy machine adds a second or two.
  CHECK_MESSAGE(child.has("khost:   2 of 4 units, about 1"), child.text());
  CHECK_MESSAGE(child.has(" s left\n"), child.text());
  CHECK_MESSAGE(child.has("khost:   done in 1"), child.text());
}

TEST_CASE("launcher: of two clones one installs what both lack, and the other waits") {
  const Folder folder;
  if (std::system("/usr/bin/python3 -c 'import torch' 2>/dev/null") == 0) {
    return skip("this machine's Python has PyTorch, so nothing gets installed");
  }
  fs::create_directories(folder.path / "cache/khost");
  const std::string lock = (folder.path / "cache/khost/.lock").string();
  std::ofstream(lock) << "4711\n";
  Child holder({"flock", lock, "sh", "-c", "echo held; sleep 60"});
  REQUIRE(holder.until("held", 20));
  Child child({"bash", launcher(), "x"}, folder.environment());
  CHECK_MESSAGE(child.until("khost: another khost (process 4711) installs packages or PyTorch; waiting\n", 60),
                child.text());
}

TEST_CASE("install: a prefix of its own holds the program with its scripts, and doctor runs from there") {
  if (!fs::exists(executable_dir() + "/cmake_install.cmake")) {
    return skip("these tests were not built by CMake");
  }
  const Folder folder;
  const std::string prefix = (folder.path / "prefix").string();
  Child install({"cmake", "--install", executable_dir(), "--prefix", prefix});
  REQUIRE_MESSAGE(install.wait(120) == 0, install.text());
  std::map<std::string, std::string> environment{{"KHOST_ROOT", ""},
                                                 {"PATH", prefix + "/bin:" + std::string(std::getenv("PATH"))}};
  Child version({"khost", "--version"}, environment, "/");
  CHECK(version.wait(20) == 0);
  CHECK_MESSAGE(version.text().starts_with("khost "), version.text());
  Child plan({"khost", "recipes/full_pipeline.lua", "--plan"}, environment, "/");
  CHECK(plan.wait(20) == 0);
  CHECK_MESSAGE(plan.has("single_turn"), plan.text());
  Child doctor({"khost", "doctor"}, environment, "/");
  const int code = doctor.wait(120);
  CHECK_MESSAGE((code == 0 || code == 1), doctor.text());
  CHECK_MESSAGE(doctor.has("khost's own programs in " + prefix + "/bin"), doctor.text());
  CHECK_MESSAGE(doctor.has("free at " + prefix + "/share/khost"), doctor.text());
  CHECK_MESSAGE(!doctor.has(KHOST_SOURCE_DIR), doctor.text());
}

}  // namespace khost::tests
