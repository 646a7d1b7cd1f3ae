// Kernel tables on a real GPU. Without one, or without a Python with torch (KHOST_PYTHON), the cases are skipped by
// name.
#include <doctest/doctest.h>
#include <stdlib.h>

#include <algorithm>

#include "sandbox/judge/service/service.h"
#include "sandbox/subject/cuda_driver.h"
#include "tests/lua_cases.h"
#include "tests/sandbox/abi_fixture.h"

using namespace khost;
using namespace khost::sandbox;
using namespace khost::sandbox::test;
namespace fs = std::filesystem;

TEST_CASE("a profile on a GPU names the candidate's kernel, its shape, and what eager launches instead") {
  if (!use_device(0) || getenv("KHOST_PYTHON") == nullptr) {
    khost::tests::skip("needs an NVIDIA GPU and KHOST_PYTHON");
    return;
  }
  const CacheFolder cache;
  judge::Service service({getenv("KHOST_PYTHON"), KHOST_SOURCE_DIR}, cache.path + "/lease", 0, Limits{});
  const fs::path folder = fs::path(KHOST_SOURCE_DIR) / "tests/data/kernels/cuda/good/plain";
  Result<Json> answer = service.handle({{"kind", "profile"},
                                        {"target", "cuda"},
                                        {"against", "eager"},
                                        {"task", {{"source", read_text(folder / "model.py")}}},
                                        {"files", candidate_files(folder)}});
  REQUIRE(answer);
  REQUIRE_MESSAGE((*answer)["status"] == "ok", answer->dump());
  const Json& sides = (*answer)["profile"]["sides"];
  REQUIRE_MESSAGE(sides["candidate"].contains("kernels"), sides.dump());
  const Json& mine = sides["candidate"];
  REQUIRE(mine["kernels"].size() == 1);
  CHECK(mine["kernels"][0]["name"].get<std::string>().find("affine_relu") != std::string::npos);
  CHECK(mine["kernels"][0]["block"][0].get<int>() > 0);
  CHECK(mine["kernels"][0]["registers"].get<int>() > 0);
  CHECK(mine["launches"].get<double>() == doctest::Approx(1));
  CHECK(mine["calls"] == 10);
  // The judge's clock and CUPTI measure the same kernel with cold caches.
  const double judged = (*answer)["times"]["candidate_s"].get<double>();
  CHECK(mine["busy_s"].get<double>() > 0.7 * judged);
  CHECK(mine["busy_s"].get<double>() < 1.3 * judged);
  REQUIRE_MESSAGE(sides["eager"].contains("kernels"), sides.dump());
  CHECK(sides["eager"]["kernels"].size() > 1);
  const Json& ceilings = (*answer)["profile"]["ceilings"];
  CHECK(ceilings["bandwidth"].get<double>() > 1e11);
  CHECK(ceilings["fma"].get<double>() > 1e12);
  CHECK(ceilings["gemm"]["bfloat16"].get<double>() > ceilings["fma"].get<double>());
  const std::string text = (*answer)["text"].get<std::string>();
  CHECK(std::count(text.begin(), text.end(), '\n') <= 40);
  CHECK(text.find("affine_relu") != std::string::npos);
}

TEST_CASE("no verdict on a GPU carries a profile") {
  if (!use_device(0) || getenv("KHOST_PYTHON") == nullptr) {
    khost::tests::skip("needs an NVIDIA GPU and KHOST_PYTHON");
    return;
  }
  const CacheFolder cache;
  judge::Service service({getenv("KHOST_PYTHON"), KHOST_SOURCE_DIR}, cache.path + "/lease", 0, Limits{});
  const fs::path folder = fs::path(KHOST_SOURCE_DIR) / "tests/data/kernels/cuda/good/plain";
  Result<Json> verdict = service.handle({{"kind", "evaluate"},
                                         {"target", "cuda"},
                                         {"measure", false},
                                         {"task", {{"source", read_text(folder / "model.py")}}},
                                         {"files", candidate_files(folder)}});
  REQUIRE(verdict);
  CHECK((*verdict)["status"] == "ok");
  CHECK_FALSE(verdict->contains("profile"));
}
