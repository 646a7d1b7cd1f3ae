// `khost mcp` against the client that others wrote.
#include <doctest/doctest.h>

#include "host/base/executable.h"
#include "tests/host/child.h"
#include "tests/lua_cases.h"

using namespace khost;

TEST_CASE("mcp: the official client lists and calls the tools, and an agent solves a task by them alone") {
  constexpr int kSkipped = 77;
  tests::Child child(
      {"/usr/bin/env", "python3", KHOST_SOURCE_DIR "/tests/python/mcp_client.py", executable_dir() + "/khost"},
      {{"KHOST_ROOT", KHOST_SOURCE_DIR}});
  const int code = child.wait(900);
  if (code == kSkipped) {
    tests::skip(child.text());
    return;
  }
  CHECK_MESSAGE(code == 0, child.text());
  CHECK(child.has("all hold"));
}
