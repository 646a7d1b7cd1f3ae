#include "sandbox/build/build.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <thread>

#include "sandbox/build/build_cache.h"
#include "tests/sandbox/abi_fixture.h"

using namespace khost::sandbox;
using namespace khost::sandbox::test;
namespace fs = std::filesystem;

namespace {

const std::string kScale =
    "#include \"khost.h\"\nextern \"C\" int scale(const float* x, float* out, int64_t n) {\n"
    "  for (int64_t i = 0; i < n; i++) out[i] = 2 * x[i];\n  return 0;\n}\nKHOST_EXPORT(scale)\n";

}  // namespace

TEST_CASE("the same content is built once") {
  const auto first = build_source(kScale);
  REQUIRE_MESSAGE(first, first.failure().message);
  CHECK(first.value().signatures == Signatures{{"scale", "rfwfsl"}});
  const auto second = build_source(kScale);
  REQUIRE(second);
  CHECK(second.value().path == first.value().path);
  CHECK(second.value().wall_s == 0);
  const auto other = build({.files = {{"kernels/k.cpp", kScale}}, .flags = {"-O1"}, .cache_dir = shared_cache()});
  REQUIRE(other);
  CHECK(other.value().hash != first.value().hash);
}

TEST_CASE("libraries that were used least recently leave a full cache, and none that may still be opened") {
  const CacheFolder folder;
  const BuildCache cache(folder.path, 2 << 20);
  const std::string library(1 << 20, 'x');
  const khost::Json entry = {{"signatures", khost::Json::object()}, {"warnings", ""}};
  const auto age = [&](const std::string& hash, int hours) {
    const fs::path path = fs::path(folder.path) / (hash + ".so");
    fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(hours));
  };
  for (const std::string hash : {"a", "b", "c"}) {
    REQUIRE(cache.store(hash, library, entry));
  }
  CHECK(cache.find("a").has_value());  // all were used just now
  age("a", 3);
  age("b", 2);
  age("c", 1);
  CHECK(cache.find("a").has_value());  // which is used again
  for (const std::string hash : {"d", "e"}) {
    REQUIRE(cache.store(hash, library, entry));
  }
  CHECK_FALSE(cache.find("b").has_value());
  CHECK_FALSE(cache.find("c").has_value());
  CHECK_FALSE(fs::exists(fs::path(folder.path) / "b.json"));
  for (const std::string hash : {"a", "d", "e"}) {
    CHECK(cache.find(hash).has_value());
  }
}

TEST_CASE("compiler errors come back with relative paths, and again from the cache") {
  const std::string source = "int main() { return missing; }\n";
  for (int round = 0; round < 2; round++) {
    const auto built = build_source(source);
    REQUIRE_FALSE(built);
    CHECK(built.failure().code == "build");
    CHECK(built.failure().message.find("kernels/k.cpp:1:21: error:") != std::string::npos);
    CHECK(built.failure().message.find("/build/") == std::string::npos);
  }
}

TEST_CASE("a flood of compiler errors is cut in the middle") {
  std::string source;
  for (int i = 0; i < 9; i++) {
    source += "int a" + std::to_string(i) + " = " + std::string(5000, 'x') + std::to_string(i) + ";\n";
  }
  const auto built = build_source(source);
  REQUIRE_FALSE(built);
  CHECK(built.failure().message.size() < 8000);
  CHECK(built.failure().message.find("bytes left out") != std::string::npos);
}

TEST_CASE("a build sees neither the host's files nor runs for ever") {
  const auto peek = build_source("#include \"" + std::string(KHOST_SOURCE_DIR) + "/CMakeLists.txt\"\n");
  REQUIRE_FALSE(peek);
  CHECK(peek.failure().message.find("No such file") != std::string::npos);
  const auto endless = build({.files = {{"kernels/k.cpp",
                                         "constexpr long f(long n) { long s = 0; for (long i = 0; i < n; i++) s += i; "
                                         "return s; }\nstatic_assert(f(100000000000) != 1);\n"}},
                              .flags = {"-fconstexpr-ops-limit=900000000000", "-fconstexpr-loop-limit=2000000000"},
                              .timeout_s = 1,
                              .cache_dir = shared_cache()});
  REQUIRE_FALSE(endless);
  CHECK(endless.failure().code == "timeout");
}

TEST_CASE("only plain file names below kernels are taken") {
  const auto named = [](const std::string& path) {
    return build({.files = {{path, kScale}}, .cache_dir = shared_cache()});
  };
  CHECK(named("kernels/deep/k.cpp"));
  for (const char* path : {"kernels/../k.cpp", "kernels/a b.cpp", "kernels/-o.cpp", "kernels/$(id).cpp", "k.cpp",
                           "/kernels/k.cpp", "kernels/k.txt"}) {
    const auto built = named(path);
    REQUIRE_FALSE(built);
    CHECK_MESSAGE(built.failure().code == "bad_input", path);
  }
  CHECK_FALSE(build({.target = "tpu"}));
}

TEST_CASE("builds of the same content at the same time agree") {
  const CacheFolder cache;
  std::vector<std::thread> threads;
  std::vector<std::string> paths(3);
  for (std::string& path : paths) {
    threads.emplace_back([&] {
      const auto built = build({.files = {{"kernels/k.cpp", kScale}}, .cache_dir = cache.path});
      path = built ? built.value().path : built.failure().message;
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  CHECK(fs::exists(paths[0]));
  CHECK(paths[0] == paths[1]);
  CHECK(paths[1] == paths[2]);
  const auto files = [&](const fs::directory_entry& entry) { return entry.is_regular_file(); };
  CHECK(std::count_if(fs::directory_iterator(cache.path), fs::directory_iterator(), files) == 2);
}

TEST_CASE("headers that are precompiled change nothing in the library") {
  const CacheFolder cache;
  const std::string fast = abi_file("kernels/fast.h").value();
  const std::string kernel =
      "#include \"fast.h\"\n"
      "extern \"C\" int k(const float* x, float* out, long n) {\n"
      "  for (long i = 0; i < n; i++) out[i] = fast::tanh(x[i]) + std::sqrt(x[i]);\n  return 0;\n}\nKHOST_EXPORT(k)\n";
  auto with = build({.files = {{"kernels/k.cpp", kernel}, {"kernels/fast.h", fast}}, .cache_dir = cache.path});
  REQUIRE(with);
  // The flag changes no code, and with it the compiler may not take what was made without.
  auto without =
      build({.files = {{"kernels/k.cpp", kernel}, {"kernels/fast.h", fast}}, .flags = {"-g"}, .cache_dir = cache.path});
  REQUIRE(without);
  const auto code_of = [](const std::string& path) {
    std::string text;
    FILE* pipe = popen(("objdump -d -j .text " + path + " | tail -n +4").c_str(), "r");
    for (int c = fgetc(pipe); c != EOF; c = fgetc(pipe)) {
      text += static_cast<char>(c);
    }
    pclose(pipe);
    return text;
  };
  const std::string code = code_of(with->path);
  CHECK(code.size() > 1000);
  CHECK((code == code_of(without->path)));
  CHECK(with->path != without->path);
}

TEST_CASE("a header that is precompiled may be included behind others") {
  const CacheFolder cache;
  const auto built = build({.files = {{"kernels/k.cpp", std::string("#include <vector>\n#include <cmath>\n") + kScale}},
                            .cache_dir = cache.path});
  CHECK_MESSAGE(built, (built ? "" : built.failure().message));
}

TEST_CASE("CUDA kernels build where there is a toolkit") {
  if (!fs::exists("/usr/local/cuda/bin/nvcc")) {
    MESSAGE("no /usr/local/cuda/bin/nvcc: not checked");
    return;
  }
  const auto built = build({.files = {{"kernels/scale.cu", R"(
#include "khost.h"
__global__ void kernel(const float* x, float* out, int64_t n) {
  const int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
  if (i < n) out[i] = 2 * x[i];
}
extern "C" int scale(const float* x, float* out, int64_t n, khost::handles*, khost::stream* stream) {
  kernel<<<(n + 255) / 256, 256, 0, khost::cuda(stream)>>>(x, out, n);
  return cudaGetLastError();
}
KHOST_EXPORT(scale)
)"}},
                            .target = "cuda",
                            .cache_dir = shared_cache()});
  REQUIRE_MESSAGE(built, built.failure().message);
  CHECK(built.value().signatures == Signatures{{"scale", "rfwfslH-S-"}});
}

TEST_CASE("every good, wrong and crashing candidate builds, and only the announced ones do not") {
  for (const char* group : {"cpu/good", "cpu/wrong", "cpu/crash"}) {
    for (const auto& entry : fs::directory_iterator(fs::path(KHOST_SOURCE_DIR) / "tests/data/kernels" / group)) {
      const std::string expected = read_text(entry.path() / "expected.json");
      const auto built = build({.files = candidate_files(entry.path()), .cache_dir = shared_cache()});
      const bool refused = expected.find("\"stage\": \"build\"") != std::string::npos;
      CHECK_MESSAGE(static_cast<bool>(built) == !refused, entry.path().string());
    }
  }
}
