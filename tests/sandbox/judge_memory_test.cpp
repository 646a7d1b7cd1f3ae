// What a task costs the judge while it is kept: memory that is charged to nobody else, and no descriptors.
#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <iterator>

#include "sandbox/jail/jail.h"
#include "sandbox/judge/task/region.h"
#include "sandbox/judge/task/session.h"
#include "tests/sandbox/zygote_fixture.h"

using namespace khost;
namespace fs = std::filesystem;

namespace {

std::size_t open_files() {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator()));
}

std::string task(int number) {
  return "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return x + " +
         std::to_string(number) + "\ndef get_inputs():\n    return [torch.randn(64)]\n";
}

}  // namespace

TEST_CASE("a jail may write more of the judge's memory than it may have of its own") {
  constexpr std::size_t kBytes = std::size_t{192} << 20;
  Result<judge::Region> region = judge::Region::make("test", kBytes, judge::Region::Others::write);
  REQUIRE(region);
  sandbox::JailSpec spec;
  spec.name = "writer";
  spec.argv = {"/bin/sh", "-c", "head -c " + std::to_string(kBytes) + " /dev/urandom >&7"};
  spec.limits.memory_bytes = std::size_t{64} << 20;
  spec.limit_address_space = false;
  spec.fds = {{region->fd(), 7}};
  Result<sandbox::Output> output = sandbox::run_in_jail(spec, "", 60, 1000);
  REQUIRE(output);
  CHECK(output->exit.signal == 0);
  CHECK_MESSAGE(output->exit.code == 0, output->err);
}

TEST_CASE("a task that is kept keeps no descriptor open") {
  const std::unique_ptr<judge::Zygote> zygote = tests::reference_zygote();
  if (!zygote) {
    return;
  }
  const std::size_t before = open_files();
  std::vector<std::shared_ptr<judge::Session>> kept;
  for (int i = 0; i < 3; i++) {
    Result<std::shared_ptr<judge::Session>> session = judge::Session::open(*zygote, task(i));
    REQUIRE_MESSAGE(session, session.failure().message);
    CHECK((*session)->bytes() > 0);
    kept.push_back(*session);
  }
  CHECK(open_files() == before);
}
