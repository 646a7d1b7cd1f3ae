#include "sandbox/subject/selftest.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <new>

#include "sandbox/subject/player.h"
#include "sandbox/subject/turn.h"
#include "skills/cpp-kernel/template/utils/khost.h"

namespace khost::sandbox {
namespace {

// More integer and more floating arguments than there are registers, and structs among them.
extern "C" int selftest_mix(const float* x, float* out, std::int64_t n, float a, double b, bool c, std::int8_t d,
                            std::uint8_t e, std::int32_t f, khost::workspace scratch, khost::threads threads, float g,
                            float h, float i, float j, float k, float l, float m, const float* null) {
  if (scratch.bytes != 4096 || threads.count != 3 || null != nullptr) {
    return 7;
  }
  std::memset(scratch.data, 1, scratch.bytes);
  const double sum = a + b + (c ? 1 : 0) + d + e + f + g + h + i + j + k + l + m;
  for (std::int64_t index = 0; index < n; index++) {
    out[index] = x[index] + static_cast<float>(sum);
  }
  return 0;
}
KHOST_EXPORT(selftest_mix)

Plan selftest_plan() {
  Plan plan;
  plan.workspace = {4096};
  plan.regions = {{{16, 0}}, {}, {{16, 64}}};
  Launch launch{"selftest_mix", {}};
  const auto scalar = [&](char type, const Json& value) {
    PlanArgument argument;
    argument.type = type;
    argument.bits = scalar_bits(type, value).value();
    launch.arguments.push_back(argument);
  };
  const auto memory = [&](char role, Slot slot) {
    PlanArgument argument;
    argument.role = role;
    argument.slot = slot;
    launch.arguments.push_back(argument);
  };
  memory('r', Slot::input);
  memory('w', Slot::output);
  scalar('l', 4);
  scalar('f', 0.5);
  scalar('d', 0.25);
  scalar('?', true);
  scalar('b', -3);
  scalar('B', 200);
  scalar('i', -70000);
  memory('W', Slot::workspace);
  memory('T', Slot::none);
  for (int i = 0; i < 7; i++) {
    scalar('f', 1000.0 * i);
  }
  memory('r', Slot::null);
  plan.launches.push_back(std::move(launch));
  return plan;
}

void* lookup(void*, const char* symbol) {
  return std::strcmp(symbol, "selftest_mix") == 0 ? reinterpret_cast<void*>(&selftest_mix) : nullptr;
}

const char* check_arguments() {
  alignas(64) float memory[64] = {1, 2, 3, 4};
  auto* base = reinterpret_cast<std::byte*>(memory);
  Result<Player> player = Player::prepare(selftest_plan(), {nullptr, lookup, {base, nullptr, base}, 3});
  if (!player) {
    return "a plan could not be prepared";
  }
  if (player->run() != 0) {
    return "a launcher got wrong arguments";
  }
  const float sum = 0.5f + 0.25f + 1 - 3 + 200 - 70000 + 21000;
  return memory[16] == 1 + sum && memory[19] == 4 + sum ? nullptr : "a launcher got wrong numbers";
}

const char* check_turns() {
  void* memory = mmap(nullptr, kControlBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return "no shared memory";
  }
  auto& page = *new (memory) ControlPage{};
  const pid_t child = fork();
  if (child == 0) {
    std::uint32_t seq = kReady;
    acknowledge(page, seq, 0);
    while (wait_go(page, ++seq)) {
      acknowledge(page, seq, 10 * seq);
    }
    _exit(0);
  }
  bool good = child > 0 && wait_done(page, kReady, 5);
  for (std::uint32_t seq = 2; good && seq < 100; seq++) {
    post_go(page, seq);
    good = wait_done(page, seq, 5) && page.status == 10 * seq;
  }
  good = good && !wait_done(page, 1000, 0.01);  // a wait that nobody answers ends
  post_go(page, kExit);
  int status = 1;
  waitpid(child, &status, 0);
  munmap(memory, kControlBytes);
  return good && status == 0 ? nullptr : "turns were lost";
}

}  // namespace

int selftest() {
  for (const char* problem : {check_arguments(), check_turns()}) {
    if (problem != nullptr) {
      std::fprintf(stderr, "khost-subject: self-test: %s\n", problem);
      return 1;
    }
  }
  std::puts("ok");
  return 0;
}

}  // namespace khost::sandbox
