// Parts: libraries that the program loads when they are first asked for.
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "host/base/part.h"
#include "host/host.h"
#include "tests/host/child.h"
#include "tests/lua_cases.h"

namespace khost::tests {
namespace {

namespace fs = std::filesystem;

// A launcher and a recipe that needs the trainer.
struct Launched {
  Launched() : folder(fs::temp_directory_path() / ("khost-part-" + std::to_string(getpid()))) {
    fs::create_directories(folder);
    std::ofstream(folder / "needs.lua") << "return { run = function() require 'khost.trainer' return 0 end }\n";
  }
  ~Launched() { fs::remove_all(folder); }

  Child run(const std::string& launcher_text) const {
    const fs::path launcher = folder / "launcher";
    std::ofstream(launcher) << launcher_text;
    fs::permissions(launcher, fs::perms(0755));
    return Child({executable_dir() + "/khost", (folder / "needs.lua").string()},
                 {{"KHOST_LAUNCHER", launcher.string()}, {"KHOST_ROOT", KHOST_SOURCE_DIR}});
  }
  fs::path folder;
};

}  // namespace

TEST_CASE("part: a library that is not there is told in the words of its part") {
  const Result<void*> part = load_part({"none", "libkhost_none.so", "this build has none"});
  REQUIRE(!part);
  CHECK(part.failure().message == "this build has none");
  CHECK(part.failure().code == "host");
}

TEST_CASE("part: a library of other headers is refused") {
  const Result<void*> part = load_part({"none", "libkhost_subject_python.so", ""});  // it has no face
  REQUIRE(!part);
  CHECK_MESSAGE(part.failure().message.ends_with("were built from different headers: build both again, "
                                                 "CMake's target is part-none"),
                part.failure().message);
}

TEST_CASE("part: what a recipe needs is built by the launcher first, and a build that fails ends the recipe") {
  const Launched launched;
  Child child = launched.run("#!/bin/sh\necho \"asked: $*\"\nexit 0\n");
  const int code = child.wait(60);
  CHECK_MESSAGE(child.has("asked: build trainer\n"), child.text());
#ifdef KHOST_WITH_TRAINER
  CHECK_MESSAGE(code == 0, child.text());
#else
  CHECK(code == 1);
  CHECK_MESSAGE(child.has("module 'khost.trainer' is not part of this build"), child.text());
#endif
  Child failed = launched.run("#!/bin/sh\nexit 1\n");
  CHECK(failed.wait(60) == 1);
  CHECK_MESSAGE(failed.has("launcher build trainer' failed; its messages stand above"), failed.text());
}

TEST_CASE("part: the judge's target cuda can be loaded where no GPU is") {
  if (!fs::exists(executable_dir() + "/libkhost_judge_cuda.so")) {
    return skip("this build has no target cuda");
  }
  const Result<void*> part = load_part({"judge-cuda", "libkhost_judge_cuda.so", ""});
  CHECK_MESSAGE(bool(part), part.failure().message);
}

}  // namespace khost::tests
