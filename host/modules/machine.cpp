// khost.machine: facts about this machine, and running one of its programs. Not for candidates: those have jails.
#include "host/machine.h"

#include "host/host.h"
#include "host/modules/modules.h"
#include "host/modules/workers.h"
#include "host/process.h"

namespace khost {

// The binder finds fields by the namespace of the struct.
constexpr auto fields(lua::Tag<ProgramOptions>) {
  return std::tuple(lua::field("timeout_s", &ProgramOptions::timeout_s),
                    lua::field("output_bytes", &ProgramOptions::output_bytes));
}

constexpr auto fields(lua::Tag<ProgramResult>) {
  return std::tuple(lua::field("code", &ProgramResult::code), lua::field("output", &ProgramResult::output),
                    lua::field("wall_s", &ProgramResult::wall_s));
}

namespace modules {
namespace {

Json facts(lua_State* L, std::optional<std::string> path) {
  return machine_facts(path.value_or(Host::of(L).root()));
}

// Programs may run as long as khost does, and as many at once as a machine has cards: not in the pool, which has few
// threads.
void run(lua::Resume<ProgramResult> done, std::vector<std::string> argv, ProgramOptions options) {
  auto stop = std::make_shared<ProgramStop>();
  done.on_cancel([stop] { stop->ask(); });
  submit_blocking([done, argv = std::move(argv), options, stop] {
    auto result = run_program(argv, options, stop);
    if (result) {
      done(std::move(result).value());
    } else {
      done.fail(result.failure());
    }
  });
}

}  // namespace

void open_machine(lua_State* L) {
  lua_newtable(L);
  lua::add(L, {lua::def<facts>("facts"), lua::def<run>("run")});
}

}  // namespace modules
}  // namespace khost
