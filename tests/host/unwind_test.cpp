// LuaJIT on x86-64 unwinds with the system's unwinder: destructors of C++ frames run when a Lua error passes them,
// and a C++ exception that nobody translated passes Lua frames. The host relies on the first and survives the second.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <exception>
#include <stdexcept>
#include <string>

#include "tests/host/lua_probe.h"

namespace khost::tests {
namespace {

int live = 0;
int most = 0;
struct Guard {
  Guard() { most = std::max(most, ++live); }
  ~Guard() { live--; }
  Guard(const Guard&) = delete;
};

// Bare functions of the C API, without the binder's `guarded`.
int raises_in_c(lua_State* L) {
  const Guard guard;
  const std::string on_the_heap(1000, 'x');
  return luaL_error(L, "raised below %d bytes", static_cast<int>(on_the_heap.size()));
}

int throws_bare(lua_State*) {
  const Guard guard;
  throw std::runtime_error("thrown");
}

int calls_lua(lua_State* L) {
  const Guard guard;
  lua_call(L, lua_gettop(L) - 1, 0);
  return 0;
}

int catches_outside(lua_State* L) {
  try {
    const Guard guard;
    lua_call(L, lua_gettop(L) - 1, 0);
  } catch (const std::runtime_error& error) {
    lua_settop(L, 0);
    lua_pushstring(L, error.what());
    return 1;
  }
  return 0;
}

int64_t guards_alive() {
  return live;
}

int open(lua_State* L) {
  lua_newtable(L);
  lua::add(L, {lua::def<say>("say"), lua::raw("raises_in_c", raises_in_c), lua::raw("throws_bare", throws_bare),
               lua::raw("calls_lua", calls_lua), lua::raw("catches_outside", catches_outside),
               lua::def<guards_alive>("alive")});
  return 1;
}

}  // namespace

TEST_CASE("unwind: destructors of C++ frames run when a Lua error passes them") {
  live = most = 0;
  ProbeHost probe(open);
  CHECK(probe.run(R"lua(
    assert(raises(probe.raises_in_c):find "raised below 1000 bytes")
    assert(probe.alive() == 0)
    -- Three C++ frames with Lua frames between them, and the error comes from Lua.
    local message = raises(function()
      probe.calls_lua(function() probe.calls_lua(function() probe.calls_lua(function() error "deep" end) end) end)
    end)
    assert(message:find "probe.lua:7: deep", message)
  )lua") == 0);
  CHECK(live == 0);
  CHECK(most == 3);
}

TEST_CASE("unwind: an error that ends a task runs the destructors of its C++ frames") {
  live = most = 0;
  ProbeHost probe(open);
  CHECK(probe.run(R"lua(
    local task = sched.spawn(function() probe.calls_lua(function() error "in a task" end) end)
    local value, message = task:wait()
    assert(value == nil and message:find "in a task")
    assert(task:trace():find "calls_lua", task:trace())
  )lua") == 0);
  CHECK(live == 0);
  CHECK(most == 1);
}

// In a process of its own: an exception that LuaJIT swallows is never caught as C++ sees it, so that
// std::uncaught_exceptions() stays above zero, and what asks for it (doctest does) takes every later scope for
// unwinding.
TEST_CASE("unwind: a C++ exception that nobody translated is an error in Lua, or reaches the C++ frame that waits") {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    live = most = 0;
    ProbeHost probe(open);
    const int failed = probe.run(R"lua(
      assert(not pcall(probe.throws_bare))
      assert(not pcall(function() probe.calls_lua(function() probe.throws_bare() end) end))
      assert(probe.catches_outside(function() probe.throws_bare() end) == "thrown")
      -- The state is sound afterwards: calls, errors, coroutines and collection go on.
      assert(raises(function() error "next" end):find "next")
      sched.sleep(0)
      sched.collect_garbage()
    )lua");
    _exit(failed != 0 ? 1 : live != 0 ? 2 : most < 2 ? 3 : 0);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(std::uncaught_exceptions() == 0);
}

TEST_CASE("unwind: running out of memory inside a C++ function runs its destructors") {
  live = most = 0;
  HostOptions options = probe_options();
  options.memory_bytes = size_t{32} << 20;
  ProbeHost probe(open, options);
  CHECK(probe.run(R"lua(
    local message = raises(function()
      probe.calls_lua(function() local t = {} while true do t[#t + 1] = ("x"):rep(1e5) .. #t end end)
    end)
    assert(message == "not enough memory", message)
    assert(probe.alive() == 0)
  )lua") == 0);
  CHECK(most == 1);
}

}  // namespace khost::tests
