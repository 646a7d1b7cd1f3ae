#include "sandbox/jail/jail.h"

#include <doctest/doctest.h>

using namespace khost;
using namespace khost::sandbox;

namespace {

JailSpec shell(const std::string& script) {
  JailSpec spec;
  spec.name = "test";
  spec.argv = {"/bin/bash", "-c", script};
  return spec;
}

Output run(const JailSpec& spec, double timeout_s = 20, const std::string& input = "") {
  Result<Output> output = run_in_jail(spec, input, timeout_s, 1 << 16);
  REQUIRE_MESSAGE(bool(output), output.failure().message);
  return *output;
}

}  // namespace

TEST_CASE("a jailed program gets its input and its exit code comes back") {
  const Output output = run(shell("read x; echo got $x; echo bad >&2; exit 7"), 20, "word\n");
  CHECK(output.out == "got word\n");
  CHECK(output.err == "bad\n");
  CHECK(output.exit.code == 7);
  CHECK(output.exit.signal == 0);
}
