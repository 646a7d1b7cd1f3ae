// Candidates in Python: their rules, what they build, and (in cuda_judge_test.cpp, with a GPU) their verdicts.
#include <doctest/doctest.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "host/base/json.h"
#include "sandbox/build/extension.h"
#include "sandbox/build/extension_rules.h"
#include "sandbox/jail/jail.h"
#include "tests/lua_cases.h"
#include "tests/sandbox/abi_fixture.h"

using namespace khost;
using namespace khost::sandbox;
using namespace khost::sandbox::test;
namespace fs = std::filesystem;

namespace {

const fs::path kPython = fs::path(KHOST_SOURCE_DIR) / "tests/data/kernels/python";

bool torch_ready() {
  const bool ready = getenv("KHOST_PYTHON") != nullptr;
  if (!ready) {
    khost::tests::skip("needs KHOST_PYTHON, a Python with torch");
  }
  return ready;
}

bool script(const std::string& arguments) {
  const std::string command = std::string(getenv("KHOST_PYTHON")) + " " KHOST_SOURCE_DIR "/tests/python/" + arguments;
  const int status = std::system(command.c_str());
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

ExtensionRequest workspace(const fs::path& folder) {
  Result<ExtensionRequest> request = workspace_extension(candidate_files(folder));
  REQUIRE_MESSAGE(request, request.failure().message);
  request->python = getenv("KHOST_PYTHON");
  request->cache_dir = shared_cache();
  return *request;
}

}  // namespace

TEST_CASE("a candidate in Python is read, refused and placed as its rules say") {
  if (torch_ready()) {
    CHECK(script("candidate_test.py " + self_directory() + "/libkhost_subject_python.so"));
  }
}

TEST_CASE("what comes up beside others' work measures nothing, and want of the device's memory is known by its words") {
  if (torch_ready()) {
    CHECK(script("baselines_test.py"));
  }
}

TEST_CASE("a workspace's extension builds with the light headers, and its functions check and answer in Python") {
  if (!torch_ready()) {
    return;
  }
  const ExtensionRequest request = workspace(kPython / "good/workspace");
  Result<Built> built = build_extension(request);
  REQUIRE_MESSAGE(built, built.failure().message);
  CHECK(built->wall_s > 0);
  CHECK(script("candidate_test.py extension " + built->path + " cuda_extension"));
  Result<Built> again = build_extension(request);
  REQUIRE(again);
  CHECK(again->hash == built->hash);
  CHECK(again->wall_s == 0);  // out of the cache

  ExtensionRequest other = request;
  other.sources["kernels/affine_relu.cu"] += "// another\n";
  Result<Built> changed = build_extension(other);
  REQUIRE(changed);
  CHECK(changed->hash != built->hash);
}

TEST_CASE("a mistake of the candidate's own comes back in the compiler's words, without torch's headers being read") {
  if (!torch_ready()) {
    return;
  }
  Result<Built> built = build_extension(workspace(kPython / "wrong/does_not_build"));
  REQUIRE(!built);
  CHECK(built.failure().code == "build");
  CHECK(built.failure().message.find("kernels/affine_relu.cu(7): error: identifier \"fmaxf_of\" is undefined") !=
        std::string::npos);
}

TEST_CASE("only mistakes that no header mends are taken for the candidate's own") {
  const auto own = [](const std::string& words) {
    return own_mistakes(
        words, [](const std::string& name) { return name == "AT_DISPATCH_ALL_TYPES" || name == "cudnnHandle_t"; });
  };
  CHECK(
      own("kernels/a.cu(3): error: expected a \";\"\n  torch::Tensor x\n                  ^\n\n1 error detected in the "
          "compilation"));
  CHECK(own("a.cu(7): error: identifier \"fmaxf_of\" is undefined"));
  CHECK(
      own("a.cpp:3:9: error: ‘nothing_here’ was not declared in this scope\na.cpp:4:1: error: expected ‘;’ before ‘}’ "
          "token"));
  CHECK_FALSE(own("a.cu(7): error: identifier \"AT_DISPATCH_ALL_TYPES\" is undefined"));
  CHECK_FALSE(
      own("a.cu(7): error: identifier \"fmaxf_of\" is undefined\na.cu(9): error: too few arguments in function call"));
  CHECK_FALSE(own("a.cpp:3: error: class \"at::Tensor\" has no member \"sum\""));
  CHECK_FALSE(own("a.cu(1): fatal error: ATen/cuda/CUDABlas.h: No such file or directory"));
  CHECK_FALSE(own("Killed"));
}

TEST_CASE("symbols name torch's operators, and those that create or view are allowed") {
  CHECK(operator_of("_ZN2at4_ops4relu4callERKNS_6TensorE") == "relu");
  CHECK(operator_of("_ZN2at4_ops10add_Tensor4callERKNS_6TensorES4_RKN3c106ScalarE") == "add_Tensor");
  CHECK(operator_of("_ZN2at4_ops19empty_memory_format4callE") == "empty");
  CHECK(operator_of("_ZN2at4_ops12fill__Scalar4callE") == "fill_");
  CHECK(operator_of("_ZN3c105ErrorC1E") == "");
}

TEST_CASE("of a candidate's flags only those about its own code reach the compiler") {
  CHECK(harmless_flags({"-O3", "-std=c++20", "-DX=1", "-I/etc", "@file", "-fplugin=x", "", "-wrapper", "-B."}, false) ==
        std::vector<std::string>{"-O3", "-std=c++20", "-DX=1"});
  CHECK(harmless_flags({"--use_fast_math", "-ccbin", "--compiler-bindir=/tmp", "-maxrregcount=64"}, true) ==
        std::vector<std::string>{"--use_fast_math", "-maxrregcount=64"});
  CHECK(harmless_libraries({"-lcublas", "-levil", "/tmp/x.a", "-lcudnn"}) ==
        std::vector<std::string>{"-lcublas", "-lcudnn"});
}
