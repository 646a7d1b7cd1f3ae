#include "tests/selection.h"

#include <doctest/doctest.h>

using namespace khost::tests;

TEST_CASE("tests are chosen by folder, file and label") {
  const std::string file = "/somewhere/khost/tests/sandbox/cuda_judge_test.cpp";
  CHECK(stands_in(file, "tests/sandbox"));
  CHECK(stands_in(file, "tests/sandbox/"));
  CHECK(stands_in(file, "tests/sandbox/cuda_judge_test.cpp"));
  CHECK_FALSE(stands_in(file, "tests/sand"));
  CHECK_FALSE(stands_in(file, "tests/host"));
  CHECK(stands_in("tests/lua/chat_test.lua", "tests/lua"));
  for (const char* label : {"sandbox", "cuda", "judge"}) {
    CHECK(has_label(file, label));
  }
  for (const char* label : {"test", "jud", "host", "cuda_judge"}) {
    CHECK_FALSE(has_label(file, label));
  }
}
