// The CUDA target. Building and laying out run wherever the toolkit is; verdicts need a GPU and a Python with torch
// (KHOST_PYTHON) and say by name that they are skipped.
#include <doctest/doctest.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "sandbox/abi/derive.h"
#include "sandbox/judge/cuda/device.h"
#include "sandbox/judge/cuda/views.h"
#include "sandbox/judge/elements.h"
#include "sandbox/judge/service.h"
#include "tests/lua_cases.h"
#include "tests/sandbox/abi_fixture.h"

using namespace khost;
using namespace khost::sandbox;
using namespace khost::sandbox::test;
namespace fs = std::filesystem;

namespace {

const fs::path kCuda = fs::path(KHOST_SOURCE_DIR) / "tests/kernels/cuda";

Result<Built> build_folder(const fs::path& folder) {
  return build({.files = candidate_files(folder), .target = "cuda", .cache_dir = shared_cache()});
}

TensorLeaf leaf(std::vector<std::int64_t> size, std::vector<std::int64_t> stride) {
  TensorLeaf result;
  result.dtype = "float32";
  result.size = std::move(size);
  result.stride = std::move(stride);
  return result;
}

judge::gpu::View view_of(const TensorLeaf& got, const TensorLeaf& expected) {
  Manifest mine, theirs;
  mine.storages = theirs.storages = {{std::size_t{1} << 20, 0}};
  mine.tensors = {got};
  theirs.tensors = {expected};
  return judge::gpu::views_of(mine, nullptr, theirs, nullptr, {judge::Tolerance{}})[0];
}

bool gpu_ready() {
  const bool ready = use_device(0) && getenv("KHOST_PYTHON") != nullptr;
  if (!ready) {
    khost::tests::skip("needs an NVIDIA GPU and KHOST_PYTHON");
  }
  return ready;
}

judge::Service& service() {
  static const CacheFolder folder;
  static judge::Service instance({getenv("KHOST_PYTHON"), KHOST_SOURCE_DIR}, folder.path + "/lease", 0, Limits{});
  return instance;
}

Json verdict_on(const fs::path& folder) {
  Result<Json> verdict = service().handle({{"kind", "evaluate"},
                                           {"target", "cuda"},
                                           {"against", "eager"},  // the compiler says nothing about who is accepted
                                           {"task", {{"source", read_text(folder / "model.py")}}},
                                           {"files", candidate_files(folder)}});
  return verdict ? *verdict : Json{{"status", "FAILED"}, {"detail", verdict.failure().message}};
}

bool accepted(const Json& wanted, const Json& verdict) {
  const bool status = wanted["status"].is_array() ? std::find(wanted["status"].begin(), wanted["status"].end(),
                                                              verdict["status"]) != wanted["status"].end()
                                                  : wanted["status"] == verdict["status"];
  return status && (!wanted.contains("reason") || wanted["reason"] == verdict["reason"]);
}

constexpr std::size_t kAtOnce = 6;

std::vector<Json> verdicts_on(const std::vector<fs::path>& folders) {
  std::vector<Json> verdicts(folders.size());
  std::atomic<std::size_t> next{0};
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kAtOnce; i++) {
    threads.emplace_back([&] {
      for (std::size_t at = next++; at < folders.size(); at = next++) {
        verdicts[at] = verdict_on(folders[at]);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  return verdicts;
}

void check_groups(const std::vector<std::string>& groups) {
  if (!gpu_ready()) {
    return;
  }
  std::vector<fs::path> folders;
  for (const std::string& group : groups) {
    for (const auto& entry : fs::directory_iterator(kCuda / group)) {
      const Json wanted = Json::parse(read_text(entry.path() / "expected.json"));
      if (wanted.value("needs", "") == "cudnn.h" && !cudnn_installed()) {
        MESSAGE("left out, for there is no cudnn.h: " << entry.path().string());
      } else {
        folders.push_back(entry.path());
      }
    }
  }
  const std::vector<Json> verdicts = verdicts_on(folders);
  for (std::size_t i = 0; i < folders.size(); i++) {
    CAPTURE(folders[i].string());
    CAPTURE(verdicts[i].dump());
    CHECK(accepted(Json::parse(read_text(folders[i] / "expected.json")), verdicts[i]));
  }
}

}  // namespace

TEST_CASE("a CUDA kernel builds in the jail, and its signature says which arguments are streams and handles") {
  Result<Built> plain = build_folder(kCuda / "good/plain");
  REQUIRE_MESSAGE(plain, plain.failure().message);
  CHECK(plain->signatures.at("affine_relu") == "rfrfrfwfslslS-");
  if (cudnn_installed()) {
    const Result<Built> cudnn = build_folder(kCuda / "good/conv_cudnn");
    CHECK_MESSAGE(cudnn, (cudnn ? "" : cudnn.failure().message));
  }
  Result<Built> cublas = build_folder(kCuda / "good/linear_cublas");
  REQUIRE_MESSAGE(cublas, cublas.failure().message);
  CHECK(cublas->signatures.at("linear_relu") == "rfrfrfwfslslH-S-");
}

TEST_CASE("the adversary that calibrates the clock builds like any candidate") {
  Result<Built> built = build_folder(fs::path(KHOST_SOURCE_DIR) / "sandbox/judge/cuda/adversary");
  REQUIRE_MESSAGE(built, built.failure().message);
  CHECK(built->signatures.at("work_and_acknowledge") == "wfslslslS-");
  CHECK(built->signatures.at("stream_and_stamp") == "wfslslslS-");
}

TEST_CASE("the comparison on the device walks contiguous outputs as one piece and strided ones by few dimensions") {
  const TensorLeaf whole = leaf({4, 5, 6}, {30, 6, 1});
  CHECK(view_of(whole, whole).dimensions == 0);
  CHECK(view_of(leaf({4, 1, 6}, {6, 99, 1}), leaf({4, 1, 6}, {6, 6, 1})).dimensions == 0);
  const auto turned = view_of(leaf({5, 4}, {1, 5}), leaf({5, 4}, {4, 1}));
  REQUIRE(turned.dimensions == 2);
  CHECK(judge::gpu::element_offset(turned, 0) == 0);
  CHECK(judge::gpu::element_offset(turned, 1) == 5);
  CHECK(judge::gpu::element_offset(turned, 4) == 1);
  const auto rows = view_of(leaf({2, 3, 8}, {48, 16, 1}), leaf({2, 3, 8}, {24, 8, 1}));
  CHECK(rows.dimensions == 2);  // the first two are one walk
  CHECK(judge::gpu::element_offset(rows, 8 * 4 + 3) == 16 * 4 + 3);
}

TEST_CASE("numbers of half, bfloat16 and integer elements are read as a person would") {
  const std::uint16_t half = 0xc000, tiny = 0x0001, brain = 0x3f80;
  const std::int8_t small = -7;
  CHECK(judge::number_of("float16", reinterpret_cast<const std::byte*>(&half)) == -2);
  CHECK(judge::number_of("float16", reinterpret_cast<const std::byte*>(&tiny)) == doctest::Approx(5.96e-8));
  CHECK(judge::number_of("bfloat16", reinterpret_cast<const std::byte*>(&brain)) == 1);
  CHECK(judge::number_of("int8", reinterpret_cast<const std::byte*>(&small)) == -7);
}

TEST_CASE("without a GPU a request for target cuda is answered with what is missing") {
  if (use_device(0)) {
    khost::tests::skip("there is a GPU");
    return;
  }
  const fs::path folder = kCuda / "good/plain";
  judge::Service local({"/bin/false", KHOST_SOURCE_DIR}, shared_cache() + "/lease", 0, Limits{});
  const Result<Json> verdict = local.handle({{"kind", "evaluate"},
                                             {"target", "cuda"},
                                             {"task", {{"source", read_text(folder / "model.py")}}},
                                             {"files", candidate_files(folder)}});
  REQUIRE(verdict);
  CHECK((*verdict)["status"] == "void");
  CHECK((*verdict)["detail"].get<std::string>().find("NVIDIA") != std::string::npos);
}

TEST_CASE("every known CUDA candidate gets its verdict") {
  check_groups({"good", "wrong", "cheat", "crash"});
}

TEST_CASE("every known CUDA candidate in Python gets its verdict") {
  check_groups({"python/good", "python/wrong", "python/cheat"});
}
