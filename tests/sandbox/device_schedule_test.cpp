// Who may use the card, and when: threads in place of evaluations and starts, files in place of a card.
#include "sandbox/judge/service/device_schedule.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <future>

namespace khost::judge {
namespace {

using Steady = std::chrono::steady_clock;
using Use = DeviceSchedule::Use;
using Start = DeviceSchedule::Start;

constexpr auto kMoment = std::chrono::milliseconds(100);
constexpr auto kLong = std::chrono::seconds(20);

std::string lease_path() {
  return (std::filesystem::temp_directory_path() / ("khost-schedule-" + std::to_string(getpid()))).string();
}

struct Evaluation {
  explicit Evaluation(DeviceSchedule& schedule, bool times = true) : turn(schedule, times) { REQUIRE(turn.open()); }
  DeviceSchedule::Turn turn;
};

// Runs `work` on a thread of its own.
template <class Work>
std::future<void> begin(Work work) {
  return std::async(std::launch::async, std::move(work));
}

bool waits(const std::future<void>& thread) {
  return thread.wait_for(kMoment) == std::future_status::timeout;
}

bool comes(const std::future<void>& thread) {
  return thread.wait_for(kLong) == std::future_status::ready;
}

TEST_CASE("schedule: one evaluation at a time has the card, and keeps it between verifying and timing") {
  DeviceSchedule schedule(lease_path(), 1, 60);
  Evaluation first(schedule);
  { const auto verifying = first.turn.use(Use::verify); }
  std::future<void> other = begin([&] {
    Evaluation second(schedule);
    const auto verifying = second.turn.use(Use::verify);
  });
  CHECK(waits(other));
  { const auto timing = first.turn.use(Use::time); }
  CHECK(waits(other));
  first.turn.leave();
  CHECK(comes(other));
}

TEST_CASE("schedule: starts go on beside a verification and end before anything is timed") {
  DeviceSchedule schedule(lease_path(), 1, 0.01);
  Evaluation one(schedule), patient(schedule);
  {
    const auto verifying = one.turn.use(Use::verify);
    std::future<void> beside = begin([&] { CHECK(schedule.start()); });
    CHECK(comes(beside));
  }
  std::future<void> timed;
  {
    const auto starting = patient.turn.start(Start::patient);
    timed = begin([&] { const auto timing = one.turn.use(Use::time); });
    CHECK(waits(timed));
  }
  CHECK(comes(timed));
  std::future<void> start;
  {
    const auto timing = one.turn.use(Use::time);
    start = begin([&] { CHECK(schedule.start()); });
    CHECK(waits(start));
  }
  CHECK(comes(start));
}

TEST_CASE("schedule: a judge beside this one waits for a timing, and this one for its") {
  DeviceSchedule here(lease_path(), 1, 60), there(lease_path(), 1, 60);
  Evaluation one(here), other(there);
  std::future<void> verified;
  {
    const auto timing = one.turn.use(Use::time);
    verified = begin([&] { const auto verifying = other.turn.use(Use::verify); });
    CHECK(waits(verified));
  }
  CHECK(comes(verified));
}

TEST_CASE("schedule: a start in advance waits for evaluations that want to time, up to its limit") {
  DeviceSchedule schedule(lease_path(), 1, 60);
  Evaluation first(schedule), second(schedule);
  { const auto used = first.turn.use(Use::verify); }  // it keeps its claim
  first.turn.leave();
  { const auto starting = first.turn.start(Start::next); }  // a claim without the device lock
  { const auto used = second.turn.use(Use::verify); }
  std::future<void> start = begin([&] { CHECK(schedule.start()); });
  CHECK(waits(start));
  first.turn.leave();
  CHECK(waits(start));
  second.turn.leave();
  CHECK(comes(start));

  DeviceSchedule hurried(lease_path(), 1, 0.2);
  Evaluation claims(hurried);
  { const auto used = claims.turn.use(Use::verify); }
  const auto begin = Steady::now();
  CHECK(hurried.start());
  CHECK(Steady::now() - begin >= std::chrono::milliseconds(190));
  { const auto starting = claims.turn.start(Start::patient); }  // gives its claim up: it is not in its own way
  const auto again = Steady::now();
  CHECK(hurried.start());
  CHECK(Steady::now() - again < kLong);
}

TEST_CASE("schedule: an evaluation that is verified only holds no start in advance up") {
  DeviceSchedule schedule(lease_path(), 1, 60);
  Evaluation verified(schedule, false);
  std::future<void> start, again;
  {
    const auto verifying = verified.turn.use(Use::verify);
    start = begin([&] { CHECK(schedule.start()); });
    CHECK(comes(start));
  }
  { const auto starting = verified.turn.start(Start::next); }
  again = begin([&] { CHECK(schedule.start()); });
  CHECK(comes(again));
}

TEST_CASE("schedule: while a process ends others verify and nothing is timed") {
  DeviceSchedule schedule(lease_path(), 1, 0.01);
  Evaluation ends(schedule, false), next(schedule, false), timed(schedule);
  std::future<void> verified, measured;
  {
    DeviceSchedule::Held used = ends.turn.use(Use::verify);
    verified = begin([&] {
      { const auto verifying = next.turn.use(Use::verify); }
      next.turn.leave();
    });
    CHECK(waits(verified));
    ends.turn.leave_ending(used);
    CHECK(comes(verified));
    measured = begin([&] { const auto timing = timed.turn.use(Use::time); });
    CHECK(waits(measured));
  }
  CHECK(comes(measured));
}

TEST_CASE("schedule: a lost card is opened again when no start is under way") {
  DeviceSchedule schedule(lease_path(), 1, 0.01);
  Evaluation one(schedule), starts(schedule);
  const auto used = one.turn.use(Use::verify);
  std::future<void> reset;
  {
    const auto starting = starts.turn.start(Start::patient);
    reset = begin([&] { const auto alone = schedule.reset(); });
    CHECK(waits(reset));
  }
  CHECK(comes(reset));
}

TEST_CASE("schedule: tasks that load and processes that wait are counted") {
  DeviceSchedule schedule(lease_path(), 1, 60);
  std::future<void> second;
  {
    const auto slot = schedule.loading();
    second = begin([&] { const auto next = schedule.loading(); });
    CHECK(waits(second));
  }
  CHECK(comes(second));
  CHECK(schedule.reserve(2));
  CHECK(schedule.reserve(2));
  CHECK_FALSE(schedule.reserve(2));
  CHECK(schedule.reserved() == 2);
  schedule.release(1);
  CHECK(schedule.reserve(2));
}

}  // namespace
}  // namespace khost::judge
