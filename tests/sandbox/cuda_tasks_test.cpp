// The tasks of a device with sessions on the processor: no GPU is needed to see what is kept and what is given up.
#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "sandbox/judge/cuda/tasks.h"
#include "tests/sandbox/zygote_fixture.h"

using namespace khost;

namespace {

std::string task(int number) {
  return "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return x * " +
         std::to_string(number) + "\ndef get_inputs():\n    return [torch.randn(1024)]\n";
}

}  // namespace

TEST_CASE("a task is opened once, keeps what was measured, and gives up its sets when others need the room") {
  const std::unique_ptr<judge::Zygote> zygote = tests::reference_zygote();
  if (!zygote) {
    return;
  }
  judge::gpu::Tasks tasks;
  int opened = 0;
  const auto get = [&](int number, std::size_t most = SIZE_MAX) {
    const std::string source = task(number);
    return tasks.get(source, [&] {
      opened++;
      judge::SessionOptions options;
      options.most_to_open = most;
      return judge::Session::open(*zygote, source, options);
    });
  };
  std::vector<std::shared_ptr<judge::gpu::Task>> all;
  for (int i = 0; i < 3; i++) {
    Result<std::shared_ptr<judge::gpu::Task>> one = get(i);
    REQUIRE_MESSAGE(one, one.failure().message);
    all.push_back(*one);
  }
  all[0]->idle_open_s = 1;
  CHECK(get(0).value() == all[0]);  // which makes it the last used
  CHECK(opened == 3);

  const std::size_t batch = all[0]->session->bytes();
  REQUIRE(batch > 0);
  tasks.make_room(all[2], 2 * batch);
  CHECK(all[0]->session->bytes() > 0);
  CHECK(all[1]->session->bytes() == 0);
  CHECK(all[2]->session->bytes() > 0);
  tasks.make_room(all[1], 2 * batch);  // for its sets, which are about to be made again
  CHECK(all[0]->session->bytes() == 0);
  CHECK(all[2]->session->bytes() > 0);
  CHECK(all[1]->session->batch_at_hand("one") == nullptr);
  REQUIRE(all[1]->session->batch_for(*zygote, "one"));
  CHECK(all[1]->session->batch_at_hand("one") == nullptr);  // it has met them
  CHECK(all[1]->session->batch_at_hand("another") != nullptr);
  CHECK(get(0).value()->idle_open_s == 1);
  CHECK(opened == 3);

  const Result<std::shared_ptr<judge::gpu::Task>> large = get(3, batch / 2);
  REQUIRE_FALSE(large);
  CHECK(large.failure().code == "large");
  CHECK(get(3));
  tasks.clear();
  CHECK(get(0).value() != all[0]);
}

TEST_CASE("what is kept for tasks goes where it was used longest ago, and never from the one that needs it") {
  using judge::gpu::Kept;
  const auto at = [](int s) { return std::chrono::steady_clock::time_point(std::chrono::seconds(s)); };
  const std::vector<Kept> all = {{10, at(4)}, {10, at(1)}, {10, at(3)}, {10, at(2)}};
  CHECK(judge::gpu::to_give_up(all, 4, 40).empty());
  CHECK(judge::gpu::to_give_up(all, 2, 40) == std::vector<std::size_t>{3, 1});
  CHECK(judge::gpu::to_give_up(all, 4, 30) == std::vector<std::size_t>{1});
  CHECK(judge::gpu::to_give_up({{10, at(4)}, {10, at(1), true}}, 1, 40) == std::vector<std::size_t>{0});
  CHECK(judge::gpu::to_give_up({{50, at(1), true}, {10, at(2)}}, 4, 40) == std::vector<std::size_t>{1});
}

TEST_CASE(
    "want of the device's memory is told from a task's own errors, and an oracle is left out only where that is "
    "wanted") {
  const std::unique_ptr<judge::Zygote> zygote = tests::reference_zygote();
  if (!zygote) {
    return;
  }
  const auto opened = [&](const std::string& forward, judge::Oracle oracle) {
    judge::SessionOptions options;
    options.oracle = oracle;
    return judge::Session::open(*zygote,
                                "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        " +
                                    forward +
                                    "\n        return x * 2\ndef get_inputs():\n    return [torch.randn(64)]\n",
                                options);
  };
  const std::string full = "raise torch.OutOfMemoryError('CUDA out of memory. Tried to allocate 2 GiB.')";
  const std::string in_double = "if x.element_size() == 8: ";  // its dtype is the reference's for a task
  CHECK(opened(full, judge::Oracle::where_it_fits).failure().code == "limit");
  CHECK(opened("raise ValueError('out of ideas')", judge::Oracle::where_it_fits).failure().code == "bad_task");

  const auto insisted = opened(in_double + full, judge::Oracle::needed);
  REQUIRE_FALSE(insisted);
  CHECK(insisted.failure().code == "limit");
  const auto without = opened(in_double + full, judge::Oracle::where_it_fits);
  REQUIRE(without);
  CHECK((*without)->calibration()->oracle_error.find("OutOfMemoryError") != std::string::npos);
  // One that does not run in double at all is no want of room.
  const auto never = opened(in_double + "raise TypeError('no doubles')", judge::Oracle::needed);
  REQUIRE(never);
  CHECK((*never)->calibration()->oracle_error.find("no doubles") != std::string::npos);
}
