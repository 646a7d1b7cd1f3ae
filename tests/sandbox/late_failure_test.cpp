// Kernels that are right while they are verified and fail while they are timed: by then they have passed, and must not
// keep it. Each is the softmax of good/row_softmax for twelve calls of a process; the verdict times the candidate
// against itself, so that no compiler has to be waited for.
#include <doctest/doctest.h>

#include "tests/sandbox/judge_fixture.h"

namespace khost::sandbox {
namespace {

using test::JudgeProcess;

struct Late {
  const char* name;
  const char* code;  // from the thirteenth call on
  const char *status, *reason;
};

const std::vector<Late> kLate = {
    {"traps", "__builtin_trap();", "crash", "signal"},
    {"exits", "_exit(3);", "crash", "exit"},
    {"returns an error", "return 7;", "crash", "status"},
    {"hangs", "for (volatile int i = 0;; i = 1) {}", "timeout", "call"},
    {"is wrong in one element", "out[rows * cols - 1] += 1;", "wrong", "mismatch"},
    {"dies of its memory", "_exit(12);", "oom", "memory"},
    {"writes its inputs", "const_cast<float*>(x)[0] = 1;", "crash", "signal"},
};

std::string source_of(const Late& late) {
  return std::string(R"(#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "khost.h"

extern "C" int late(const float* x, float* out, int64_t rows, int64_t cols) {
  for (int64_t r = 0; r < rows; r++) {
    const float* in = x + r * cols;
    float* to = out + r * cols;
    const float most = *std::max_element(in, in + cols);
    float sum = 0;
    for (int64_t c = 0; c < cols; c++) {
      sum += to[c] = std::exp(in[c] - most);
    }
    for (int64_t c = 0; c < cols; c++) {
      to[c] /= sum;
    }
  }
  static int calls = 0;
  if (++calls > 12) {
    )") + late.code +
         R"(
  }
  return 0;
}
KHOST_EXPORT(late)
)";
}

}  // namespace

TEST_CASE("a kernel that fails while it is timed is no longer correct") {
  if (JudgeProcess::python() == nullptr) {
    MESSAGE("skipped: KHOST_PYTHON names no Python with PyTorch");
    return;
  }
  JudgeProcess& judge = JudgeProcess::shared();
  std::vector<int> asked;
  for (const Late& late : kLate) {
    Json body = test::fixture("cpu/good/row_softmax");
    body["files"] = {{"kernels/late.cpp", source_of(late)}};
    body["against"] = "self";
    asked.push_back(judge.send("evaluate", body));
  }
  for (std::size_t i = 0; i < kLate.size(); i++) {
    const Json verdict = judge.wait(asked[i]);
    CAPTURE(kLate[i].name);
    CAPTURE(verdict.dump());
    CHECK(verdict.value("status", "") == kLate[i].status);
    CHECK(verdict.value("stage", "") == "time");
    CHECK(verdict.value("reason", "") == kLate[i].reason);
    CHECK(verdict.value("correct", true) == false);
    CHECK(verdict.value("speed", "") == "none");
    for (const auto& [kind, faster] : verdict.value("faster", Json::object()).items()) {
      CHECK_MESSAGE(faster == false, kind);
    }
  }
}

}  // namespace khost::sandbox
