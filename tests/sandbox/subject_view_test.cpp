// What a kernel's process sees of the system's files.
#include <doctest/doctest.h>

#include <string>

#include "sandbox/jail/libraries.h"
#include "sandbox/judge/subject.h"
#include "tests/sandbox/judge_fixture.h"

namespace khost::sandbox {
namespace {

using test::fixture;
using test::JudgeProcess;

// Right where it finds no file in /usr, /etc/alternatives and /opt but libraries of its own; else it says how many
// there are.
constexpr const char* kKernel = R"(
#include <filesystem>
#include "khost.h"
namespace fs = std::filesystem;
extern "C" int relu_plus_one(const float* x, float* out, int64_t n) {
  int others = 0;
  for (const char* folder : {"/usr", "/opt", "/etc/alternatives"}) {
    std::error_code error;
    const auto options = fs::directory_options::skip_permission_denied;
    for (fs::recursive_directory_iterator at(folder, options, error), end; !error && at != end; at.increment(error)) {
      const std::string name = at->path().filename().string();
      std::error_code unknown;
      others += at->is_regular_file(unknown) && name.rfind("lib", 0) != 0 && name.rfind("ld-linux", 0) != 0;
    }
  }
  for (int64_t i = 0; i < n; i++) {
    out[i] = (x[i] > 0 ? x[i] : 0) + 1;
  }
  return others;
}
KHOST_EXPORT(relu_plus_one)
)";

TEST_CASE("a kernel sees no file of the system but the libraries that it may link") {
  if (JudgeProcess::python() == nullptr) {
    MESSAGE("skipped: KHOST_PYTHON names no Python with PyTorch");
    return;
  }
  if (judge::kSanitized || kernel_libraries().empty()) {
    MESSAGE("skipped: this build, or this system, shows subjects all of /usr");
    return;
  }
  Json body = fixture("good/relu_plus_one");
  body["files"] = {{"kernels/relu_plus_one.cpp", kKernel}};
  body["measure"] = false;
  const Json verdict = JudgeProcess::shared().ask("evaluate", body);
  CAPTURE(verdict.dump());
  CHECK(verdict.value("status", "") == "ok");
}

}  // namespace
}  // namespace khost::sandbox
