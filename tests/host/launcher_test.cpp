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
