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
#include "sandbox/judge/service/service.h"
#include "sandbox/judge/values/elements.h"
#include "tests/lua_cases.h"
#include "tests/sandbox/abi_fixture.h"
#include "tests/sandbox/expected.h"

using namespace khost;
using namespace khost::sandbox;
using namespace khost::sandbox::test;
namespace fs = std::filesystem;

namespace {

const fs::path kCuda = fs::path(KHOST_SOURCE_DIR) / "tests/data/kernels/cuda";

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

const Expectations& expectations() {
  static const Expectations all(KHOST_SOURCE_DIR);
  return all;
}

judge::Service& service() {
  static const CacheFolder folder;
  static judge::Service instance({getenv("KHOST_PYTHON"), KHOST_SOURCE_DIR}, folder.path + "/lease", 0, Limits{});
  return instance;
}

// `mark` makes another artefact of a candidate, of the same code.
Json verdict_on(judge::Service& judge, const std::string& name, const std::string& mark = "") {
  const fs::path folder = expectations().folder(name);
  std::map<std::string, std::string> files = candidate_files(folder);
  for (auto& [path, text] : files) {
    if (text.find("KHOST_EXPORT") != std::string::npos) {
      text += mark;
    }
  }
  Result<Json> verdict = judge.handle({{"kind", "evaluate"},
                                       {"target", "cuda"},
                                       {"against", "eager"},  // the compiler says nothing about who is accepted
                                       {"task", {{"source", read_text(folder / "model.py")}}},
                                       {"files", files}});
  return verdict ? *verdict : Json{{"status", "FAILED"}, {"detail", verdict.failure().message}};
}

constexpr std::size_t kAtOnce = 6;

std::vector<Json> verdicts_on(const std::vector<std::string>& names) {
  std::vector<Json> verdicts(names.size());
  std::atomic<std::size_t> next{0};
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kAtOnce; i++) {
    threads.emplace_back([&] {
      for (std::size_t at = next++; at < names.size(); at = next++) {
        verdicts[at] = verdict_on(service(), names[at]);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  return verdicts;
}

void check(const std::string& name, const Json& verdict) {
  CAPTURE(name);
  CAPTURE(expectations().of(name).dump());
  CAPTURE(verdict.dump());
  CHECK(expectations().met(name, verdict));
}

// Those with a victim are judged apart, each by a judge of its own.
void check_groups(const std::vector<std::string>& groups) {
  if (!gpu_ready()) {
    return;
  }
  std::vector<std::string> names;
  for (const std::string& group : groups) {
    for (const std::string& name : expectations().names(group)) {
      if (expectations().of(name).value("needs", "") == "cudnn.h" && !cudnn_installed()) {
        MESSAGE("left out, for there is no cudnn.h: " << name);
      } else if (const std::string why = expectations().open(name); !why.empty()) {
        MESSAGE("known open, skipped: " << name << ": " << why);
      } else if (expectations().victim(name).empty()) {
        names.push_back(name);
      }
    }
  }
  const std::vector<Json> verdicts = verdicts_on(names);
  for (std::size_t i = 0; i < names.size(); i++) {
    check(names[i], verdicts[i]);
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
  check_groups({"cuda/good", "cuda/wrong", "cuda/cheat", "cuda/crash"});
}

TEST_CASE("every known CUDA candidate in Python gets its verdict") {
  check_groups({"python/good", "python/wrong", "python/cheat"});
}

TEST_CASE("who comes behind a CUDA candidate before the same judge gets its own verdict") {
  if (!gpu_ready()) {
    return;
  }
  for (const char* group : {"cuda/cheat", "cuda/crash"}) {
    for (const std::string& name : expectations().names(group)) {
      const std::string victim = expectations().victim(name);
      const std::string why = expectations().open(name);
      if (!why.empty() && !victim.empty()) {
        MESSAGE("known open, skipped: " << name << ", then " << victim << ": " << why);
      } else if (!victim.empty()) {
        CAPTURE(name);
        const CacheFolder folder;
        judge::Service judge({getenv("KHOST_PYTHON"), KHOST_SOURCE_DIR}, folder.path + "/lease", 0, Limits{});
        check(name, verdict_on(judge, name));
        check(victim, verdict_on(judge, victim, "// once\n"));
        check(victim, verdict_on(judge, victim, "// twice\n"));
      }
    }
  }
}
