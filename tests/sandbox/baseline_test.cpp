// The task's own Model as a timed subject on the CPU: what it is charged with.
#include <doctest/doctest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "sandbox/judge/cpu/subject.h"
#include "tests/sandbox/zygote_fixture.h"

namespace khost::judge {
namespace {

constexpr int kCalls = 6;
constexpr long kFewFaults = 64;  // a fresh output of 16 MiB has 4,096 pages

const char* const kAddsOne =
    "import torch\n"
    "import torch.nn as nn\n"
    "class Model(nn.Module):\n"
    "  def forward(self, x):\n"
    "    return x + 1\n"
    "def get_inputs():\n"
    "  return [torch.randn(2048, 2048)]\n";

// Page faults of a process that needed no disk.
long minor_faults(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line, word;
  std::getline(file, line);
  std::istringstream rest(line.substr(line.rfind(')') + 1));
  for (int i = 0; i < 8; i++) {  // the tenth field; two stand before
    rest >> word;
  }
  return std::stol(word);
}

TEST_CASE("a baseline's outputs come out of memory that is there, as a candidate's do") {
  const std::unique_ptr<Zygote> zygote = khost::tests::zygote_for_tests("baselines", Serves::compilers);
  if (!zygote) {
    return;
  }
  Result<std::shared_ptr<Session>> session = Session::open(*zygote, kAddsOne);
  REQUIRE_MESSAGE(session, session.failure().message);
  Result<std::shared_ptr<const Batch>> batch = (*session)->visible(*zygote);
  REQUIRE_MESSAGE(batch, batch.failure().message);
  const Set& set = (*batch)->sets[0];
  Result<std::unique_ptr<BaselineSubject>> subject = BaselineSubject::start(*zygote, **session, set, {"eager"}, 60);
  REQUIRE_MESSAGE(subject, subject.failure().message);
  const auto call = [&] {
    (*subject)->write(**session, set);
    return (*subject)->clock().call(60).end == Window::End::done;
  };
  REQUIRE(call());
  REQUIRE(call());
  // A heap may grow once more after its first calls; one that gives its memory back takes all of it anew in each call.
  long faults = kFewFaults;
  for (int round = 0; round < 3 && faults >= kFewFaults; round++) {
    const long before = minor_faults((*subject)->pid());
    for (int i = 0; i < kCalls; i++) {
      REQUIRE(call());
    }
    faults = minor_faults((*subject)->pid()) - before;
  }
  CHECK(faults < kFewFaults);
}

}  // namespace
}  // namespace khost::judge
