// The rule set `mixed` for candidates in Python on the CUDA target. Verdicts need a GPU; that a build which failed
// behind an `except` comes back in the compiler's words needs the toolkit alone.
#include <doctest/doctest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>

#include "sandbox/build/extension.h"
#include "sandbox/judge/cuda/device.h"
#include "sandbox/judge/service/service.h"
#include "tests/lua_cases.h"
#include "tests/sandbox/abi_fixture.h"
#include "tests/sandbox/expected.h"

using namespace khost;
using namespace khost::sandbox;
using namespace khost::sandbox::test;
namespace fs = std::filesystem;

namespace {

bool ready(bool device) {
  const bool found = getenv("KHOST_PYTHON") != nullptr && (!device || use_device(0));
  if (!found) {
    khost::tests::skip(device ? "needs an NVIDIA GPU and KHOST_PYTHON" : "needs KHOST_PYTHON, a Python with torch");
  }
  return found;
}

// What candidate_record.py answers to a file.
Json recorded(const fs::path& file, const fs::path& answer) {
  const std::string folder = KHOST_SOURCE_DIR;
  const std::string program =
      "import json, sys; sys.path.insert(0, sys.argv[1]); from khost.candidate.candidate_record import record; "
      "json.dump(record({'source': open(sys.argv[2]).read(), 'init': None}), open(sys.argv[3], 'w'))";
  const std::string command = std::string(getenv("KHOST_PYTHON")) + " -c \"" + program + "\" " + folder +
                              "/sandbox/python " + file.string() + " " + answer.string();
  REQUIRE(std::system(command.c_str()) == 0);
  return Json::parse(read_text(answer));
}

}  // namespace

TEST_CASE("mixed rules on a GPU: sound candidates pass, and those whose own kernels do no work are refused") {
  if (!ready(true)) {
    return;
  }
  const Expectations expectations(KHOST_SOURCE_DIR);
  const CacheFolder folder;
  judge::Service service({getenv("KHOST_PYTHON"), KHOST_SOURCE_DIR}, folder.path + "/lease", 0, Limits{});
  for (const std::string& name : expectations.names("cuda/mixed")) {
    const fs::path place = expectations.folder(name);
    Result<Json> verdict = service.handle({{"kind", "evaluate"},
                                           {"target", "cuda"},
                                           {"rules", "mixed"},
                                           {"measure", false},
                                           {"task", {{"source", read_text(place / "model.py")}}},
                                           {"files", candidate_files(place)}});
    CAPTURE(name);
    REQUIRE(verdict);
    CAPTURE(verdict->dump());
    CHECK(expectations.met(name, *verdict));
    CHECK(verdict->value("rules", "") == "mixed");
  }
}

TEST_CASE("a build that failed behind an except comes back in the compiler's words, whatever the rule set") {
  if (!ready(false)) {
    return;
  }
  const CacheFolder folder;
  const fs::path file =
      fs::path(KHOST_SOURCE_DIR) / "tests/data/kernels/cuda/mixed/hides_its_failed_build/model_new.py";
  const Json answer = recorded(file, fs::path(folder.path) / "recorded.json");
  CAPTURE(answer.dump());
  REQUIRE(answer.contains("extensions"));
  REQUIRE(answer["extensions"].size() == 1);
  ExtensionRequest request;
  request.name = answer["extensions"][0]["name"].get<std::string>();
  for (const auto& [path, text] : answer["extensions"][0]["sources"].items()) {
    request.sources[path] = text.get<std::string>();
  }
  request.python = getenv("KHOST_PYTHON");
  request.cache_dir = shared_cache();
  const Result<Built> built = build_extension(request);
  REQUIRE(!built);
  CHECK(built.failure().code == "build");
  CHECK(built.failure().message.find("error: expected a \";\"") != std::string::npos);
}
