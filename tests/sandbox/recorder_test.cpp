// Runs tests/python where a Python with PyTorch is known: KHOST_PYTHON, or the virtual environment of the
// launcher.
#include <doctest/doctest.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <filesystem>
#include <string>

#include "host/base/json.h"
#include "sandbox/abi/plan.h"
#include "tests/sandbox/abi_fixture.h"

using namespace khost;
using namespace khost::sandbox;
using namespace khost::sandbox::test;
namespace fs = std::filesystem;

namespace {

std::string python_with_torch() {
  if (const char* python = getenv("KHOST_PYTHON"); python != nullptr) {
    return python;
  }
  const char* cache = getenv("XDG_CACHE_HOME");
  const char* home = getenv("HOME");
  const fs::path folder =
      cache != nullptr ? fs::path(cache) / "khost" : fs::path(home != nullptr ? home : "/") / ".cache/khost";
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().filename().string().rfind("venv-torch", 0) == 0 && fs::exists(entry.path() / "bin/python")) {
      return (entry.path() / "bin/python").string();
    }
  }
  return "";
}

}  // namespace

TEST_CASE("the recorder turns model_new.py into plans and refuses everything else") {
  const std::string python = python_with_torch();
  if (python.empty()) {
    MESSAGE("no Python with PyTorch (set KHOST_PYTHON): not checked");
    return;
  }
  const int status = std::system((python + " " KHOST_SOURCE_DIR "/tests/python/recorder_test.py").c_str());
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("the calibrated tolerance refuses answers that leave work out and accepts honest ones") {
  const std::string python = python_with_torch();
  if (python.empty()) {
    MESSAGE("no Python with PyTorch (set KHOST_PYTHON): not checked");
    return;
  }
  for (const std::string file : {"tolerance_test.py", "tolerance_kinds_test.py", "tolerance_plain_test.py",
                                 "planting_test.py", "structure_test.py", "jumps_test.py", "questions_test.py"}) {
    CAPTURE(file);
    const int status = std::system((python + " " KHOST_SOURCE_DIR "/tests/python/" + file).c_str());
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
  }
}

TEST_CASE("task files as people write them are judged, or their fault is named") {
  const std::string python = python_with_torch();
  if (python.empty()) {
    MESSAGE("no Python with PyTorch (set KHOST_PYTHON): not checked");
    return;
  }
  const int status = std::system((python + " " KHOST_SOURCE_DIR "/tests/python/task_file_test.py").c_str());
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("what the recorder writes is a plan that binds to the built library") {
  const std::string python = python_with_torch();
  if (python.empty()) {
    MESSAGE("no Python with PyTorch (set KHOST_PYTHON): not checked");
    return;
  }
  const fs::path folder = fs::path(KHOST_SOURCE_DIR) / "tests/data/kernels/cpu/good/multi_kernel";
  const auto files = candidate_files(folder);
  const auto built = build({.files = files, .cache_dir = shared_cache()});
  REQUIRE_MESSAGE(built, built.failure().message);
  const auto vector = [](const char* name, std::vector<int> size, int storage) {
    return Json{{"kind", "tensor"},   {"dtype", "float32"},
                {"storage", storage}, {"offset", 0},
                {"size", size},       {"stride", size.size() == 2 ? std::vector<int>{size[1], 1} : std::vector<int>{1}},
                {"name", name}};
  };
  const Json inputs = {{"storages", {{{"bytes", 64 * 128 * 4}, {"offset", 0}}}},
                       {"tree", {{"kind", "tuple"}, {"items", Json::array({vector("x", {64, 128}, 0)})}}}};
  Json storages = Json::array();
  int offset = 0;
  for (const int count : {256 * 128, 256, 256, 256}) {
    storages.push_back({{"bytes", count * 4}, {"offset", offset}});
    offset += count * 4;
  }
  const Json state = {{"storages", storages},
                      {"tree",
                       {{"kind", "dict"},
                        {"items", Json::array({vector("up.weight", {256, 128}, 0), vector("up.bias", {256}, 1),
                                               vector("norm.weight", {256}, 2), vector("norm.bias", {256}, 3)})}}}};
  const Json request = {{"model_source", files.at("model.py")},
                        {"model_new_source", files.at("model_new.py")},
                        {"signatures", built.value().signatures},
                        {"inputs", inputs},
                        {"state", state}};
  const CacheFolder scratch;
  std::ofstream(scratch.path + "/request") << request.dump();
  const std::string command = python + " " KHOST_SOURCE_DIR "/sandbox/python/khost/candidate/recorder.py < " +
                              scratch.path + "/request > " + scratch.path + "/plan";
  REQUIRE(std::system(command.c_str()) == 0);
  const std::string answer = read_text(scratch.path + "/plan");
  Result<Plan> plan = Plan::parse(Json::parse(answer));
  REQUIRE_MESSAGE(plan, answer);
  const Status bound =
      plan->bind(built.value().signatures, Manifest::parse(inputs).value(), Manifest::parse(state).value());
  REQUIRE_MESSAGE(bound, bound.failure().message);
  CHECK(plan->launches.size() == 3);
  CHECK(plan->launches[0].arguments[1].slot == Slot::state);
  CHECK(plan->launches[2].arguments[3].slot == Slot::output);
  CHECK(plan->workspace.size() == 2);  // scratch, and the hidden layer
  CHECK(plan->outputs.tensors.size() == 2);
  CHECK(plan->outputs.tensors[1].size == std::vector<std::int64_t>{64});
}
