// `./khost lint` over a small checkout with one broken file of each language. A linter that is not installed skips its
// case by name; nothing is installed for a test.
#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "tests/host/child.h"
#include "tests/lua_cases.h"

namespace khost::tests {
namespace {

namespace fs = std::filesystem;

constexpr double kTimeout = 60;  // seconds of one call; a linter takes a few tenths

// A git checkout with the launcher, the linters' settings and one commit. Its build folder is empty.
class Checkout {
 public:
  Checkout() : path_(fs::temp_directory_path() / ("khost-lint-" + std::to_string(getpid()))) {
    const fs::path source = KHOST_SOURCE_DIR;
    fs::remove_all(path_);
    fs::create_directories(path_ / "tests");
    for (const char* name : {"khost", ".clang-format", ".clang-tidy", ".luacheckrc", ".ruff.toml", ".shellcheckrc"}) {
      fs::copy_file(source / name, path_ / name);
    }
    fs::copy(source / "tests/lint", path_ / "tests/lint", fs::copy_options::recursive);
    const std::string make =
        "git init -q -b main . && git -c user.name=t -c user.email=t@t add -A && "
        "git -c user.name=t -c user.email=t@t commit -q -m first";
    Child git({"bash", "-c", make}, environment(), path_.string());
    has_git_ = git.wait(kTimeout) == 0;
  }
  Checkout(const Checkout&) = delete;
  ~Checkout() { fs::remove_all(path_); }

  bool has_git() const { return has_git_; }
  const fs::path& path() const { return path_; }

  void write(const std::string& name, const std::string& text) const {
    fs::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name) << text;
  }

  std::string text_of(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(path_ / name).rdbuf();
    return text.str();
  }

  // Exit code and output of `./khost lint --no-install WORDS`.
  int lint(std::vector<std::string> words, std::string& text) const {
    words.insert(words.begin(), {"bash", (path_ / "khost").string(), "lint", "--no-install"});
    Child child(words, environment(), path_.string());
    const int code = child.wait(kTimeout);
    text = child.text();
    return code;
  }

 private:
  // As on a developer's machine: CI would have other files looked at.
  std::map<std::string, std::string> environment() const {
    return {{"CI", ""}, {"KHOST_BUILD", (path_ / "build").string()}, {"GIT_CONFIG_GLOBAL", "/dev/null"}};
  }
  fs::path path_;
  bool has_git_ = false;
};

// A new file that `linter` must name with this line, and the same file as it must be to pass.
void check_linter(const std::string& linter, const std::string& name, const std::string& broken, int line,
                  const std::string& sound) {
  const Checkout checkout;
  if (!checkout.has_git()) {
    return skip("no git");
  }
  if (linter == "clang-tidy") {
    const std::string file = (checkout.path() / name).string();
    checkout.write("build/compile_commands.json", "[\n{\n  \"directory\": \"" + checkout.path().string() +
                                                      "\",\n  \"command\": \"c++ -std=c++20 -c " + file +
                                                      "\",\n  \"file\": \"" + file + "\"\n}\n]\n");
  }
  checkout.write(name, broken);
  std::string text;
  const int code = checkout.lint({"--only", linter}, text);
  if (code == 3) {
    return skip(linter + " is not installed");
  }
  CHECK_MESSAGE(code == 1, text);
  CHECK_MESSAGE(text.find(name + ":" + std::to_string(line) + ":") != std::string::npos, text);
  CHECK_MESSAGE(text.find("findings of " + linter) != std::string::npos, text);
  checkout.write(name, sound);
  CHECK(checkout.lint({"--only", linter}, text) == 0);
  CHECK_MESSAGE(text.find("nothing found") != std::string::npos, text);
}

}  // namespace

TEST_CASE("lint: C++ that is not formatted, and a comment that is too long, are named with their lines") {
  const std::string comment = "// " + std::string(118, 'x') + "\n";
  check_linter("clang-format", "host/a.cpp", "int a;\nint   b;\n", 2, "int a;\nint b;\n");
  check_linter("clang-format", "host/a.cpp", "int a;\n" + comment + "int b;\n", 2, "int a;\n// x\nint b;\n");
}

TEST_CASE("lint: a branch that is written twice is found in C++ that the build knows") {
  check_linter("clang-tidy", "host/a.cpp",
               "int f(int a) {\n  if (a > 1) {\n    return 2;\n  } else {\n    return 2;\n  }\n}\n", 2,
               "int f(int a) {\n  return a > 1 ? 2 : 1;\n}\n");
}

TEST_CASE("lint: C++ that no build knows yet is left out of clang-tidy with a message") {
  const Checkout checkout;
  if (!checkout.has_git()) {
    return skip("no git");
  }
  checkout.write("host/a.cpp", "int a;\n");
  std::string text;
  CHECK(checkout.lint({"--only", "clang-tidy"}, text) == 0);
  CHECK_MESSAGE(text.find("has no compile_commands.json; ./khost setup makes it") != std::string::npos, text);
}

TEST_CASE("lint: a global that nobody declared is found in Lua") {
  check_linter("luacheck", "scripts/a.lua", "local a = 1\n\nreturn b\n", 3, "local a = 1\n\nreturn a\n");
}

TEST_CASE("lint: a name that nobody defined is found in Python") {
  check_linter("ruff", "tools/a.py", "import os\n\nprint(os.name, b)\n", 3, "import os\n\nprint(os.name)\n");
}

TEST_CASE("lint: a script without an ending is known by its first line") {
  check_linter("shellcheck", "tools/a", "#!/bin/bash\necho $1\n", 2, "#!/bin/bash\necho \"$1\"\n");
}

TEST_CASE("lint: --fix formats, and only files that changed are looked at") {
  const Checkout checkout;
  if (!checkout.has_git()) {
    return skip("no git");
  }
  checkout.write("host/a.cpp", "int   a;\n");
  std::string text;
  const int code = checkout.lint({"--only", "clang-format", "--fix"}, text);
  if (code == 3) {
    return skip("clang-format is not installed");
  }
  CHECK_MESSAGE(code == 0, text);
  CHECK_MESSAGE(text.find("nothing found in 1 files") != std::string::npos, text);
  CHECK(checkout.text_of("host/a.cpp") == "int a;\n");
}

TEST_CASE("lint: hostile fixtures are left out, and a file that is not there is misuse") {
  const Checkout checkout;
  if (!checkout.has_git()) {
    return skip("no git");
  }
  checkout.write("tests/data/kernels/cpu/cheat/a.cpp", "int   a;\n");
  std::string text;
  CHECK(checkout.lint({"--only", "clang-format", "tests/data/kernels/cpu/cheat/a.cpp"}, text) == 0);
  CHECK(checkout.lint({"host/b.cpp"}, text) == 2);
  CHECK_MESSAGE(text.find("host/b.cpp: no such file") != std::string::npos, text);
  CHECK(checkout.lint({"--only", "lint"}, text) == 2);
  CHECK_MESSAGE(text.find("--only lint: expected one of") != std::string::npos, text);
}

}  // namespace khost::tests
