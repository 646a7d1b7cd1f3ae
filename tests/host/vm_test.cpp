// The VM: what scripts see, strict globals, module search, the memory limit and the watchdog.
#include <doctest/doctest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/host/lua_probe.h"

namespace khost::tests {
namespace {

namespace fs = std::filesystem;

int open(lua_State* L) {
  lua_newtable(L);
  lua::add(L, {lua::def<say>("say")});
  return 1;
}

// A root of its own with the given modules and the host's own Lua halves.
struct Root {
  Root() : path(fs::temp_directory_path() / ("khost-vm-root-" + std::to_string(getpid()))) {
    fs::create_directories(path / "scripts");
    fs::create_directories(path / "host");
    fs::create_directory_symlink(fs::path(KHOST_SOURCE_DIR) / "host/modules", path / "host/modules");
  }
  ~Root() { fs::remove_all(path); }
  void module(const std::string& name, const std::string& text) { std::ofstream(path / "scripts" / name) << text; }
  HostOptions options() const {
    HostOptions options;
    options.root = path.string();
    return options;
  }
  fs::path path;
};

HostOptions hasty() {
  HostOptions options = probe_options();
  options.longest_run_s = 0.1;
  return options;
}

}  // namespace

TEST_CASE("vm: a global that was not declared is an error at its line, read or written") {
  ProbeHost probe(open);
  CHECK(probe.run("\nprobe.say(raises(function() return cuont + 1 end))\n"
                  "probe.say(raises(function() count = 1 end))\n"
                  "probe.say(raises(function() rawget(_G, 'x').y = 1 end))") == 0);
  const std::string text = take_said();
  CHECK(holds(text, "probe.lua:3: undefined variable 'cuont'"));
  CHECK(holds(text, "probe.lua:4: assignment to the global 'count': declare it local"));
}

TEST_CASE("vm: scripts see neither the C interface nor files, clocks, draws or loaders of code") {
  ProbeHost probe(open);
  CHECK(probe.run(R"lua(
    for _, name in ipairs { "io", "os", "package", "ffi", "jit", "dofile", "loadfile", "load", "loadstring", "module",
                            "newproxy", "collectgarbage" } do
      assert(rawget(_G, name) == nil, name)
    end
    assert(math.random == nil and math.randomseed == nil and debug.traceback and debug.sethook == nil)
    assert(debug.getregistry == nil and debug.setupvalue == nil and string.dump ~= nil)
    assert(raises(function() string.upper = 1 end):find "read%-only")
    assert(raises(require, "ffi"):find "module 'ffi' not found")
    assert(raises(require, "khost.nothing"):find "not part of this build")
  )lua") == 0);
}

TEST_CASE("vm: modules load once, say where they were looked for, and may not require themselves") {
  Root root;
  root.module("once.lua", "return { n = 1 }");
  root.module("self.lua", "return require 'self'");
  root.module("bad.lua", "return {\n  = }");
  root.module("raises.lua", "error('at load')");
  root.module("dumped.lua", std::string("\x1bLJ\x02\x08", 5));
  ProbeHost probe(open, root.options());
  CHECK(probe.run(R"lua(
    assert(require "once" == require "once")
    assert(raises(require, "self"):find "requires itself")
    assert(raises(require, "bad"):find "scripts/bad.lua:2:")
    assert(raises(require, "raises"):find "scripts/raises.lua:1: at load")
    assert(raises(require, "raises"):find "at load", "a module that failed is tried again")
    assert(raises(require, "dumped"):find "attempt to load chunk with wrong mode", "bytecode is refused")
    assert(raises(require, "no.such"):find "neither scripts/no/such.lua nor no/such.lua under")
    assert(raises(require, 5):find "name of a module expected")
  )lua") == 0);
}

TEST_CASE("vm: a run that does not wait is stopped with its file and line, also in a coroutine of its own") {
  ProbeHost probe(open, hasty());
  const auto begin = std::chrono::steady_clock::now();
  CHECK(probe.run("probe.say(raises(function()\n  while true do end\nend))") == 0);
  CHECK(holds(take_said(), "probe.lua:3: ran too long without waiting: does it loop for ever?"));
  CHECK(probe.run("local co = coroutine.create(function()\n  while true do end\nend)\n"
                  "local ok, m = coroutine.resume(co)\nprobe.say(m)") == 0);
  CHECK(holds(take_said(), "probe.lua:3: ran too long"));
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(60));  // of a busy machine
}

TEST_CASE("vm: the watchdog counts each run from its start: waiting gives a new budget") {
  ProbeHost probe(open, hasty());
  CHECK(probe.run(R"lua(
    local turns = 0
    local task = sched.spawn(function() while true do end end)
    for _ = 1, 8 do
      local began = sched.now()
      while sched.now() - began < 0.03 do turns = turns + 1 end
      sched.sleep(0)
    end
    local value, message = task:wait()
    assert(value == nil and message:find "ran too long", message)
    assert(turns > 0)
  )lua") == 0);
}

TEST_CASE("vm: memory without bound is an error that a script can catch, in one piece or in many") {
  HostOptions options = probe_options();
  options.memory_bytes = size_t{48} << 20;
  options.longest_run_s = 120;  // sanitizers make three times 48 MB of small tables slow
  ProbeHost probe(open, options);
  CHECK(probe.run(R"lua(
    assert(raises(function() return ("x"):rep(2^30) end):find "not enough memory")
    for _ = 1, 3 do
      assert(raises(function() local t = {} while true do t[#t + 1] = { #t } end end):find "not enough memory")
    end
    sched.collect_garbage()
    assert(sched.stats().memory_bytes < 16e6)
    assert(sched.spawn(function() return 5 end):wait() == 5)
  )lua") == 0);
}

TEST_CASE("vm: a script that recurses without end gets an error, and its place is in the traceback") {
  ProbeHost probe(open);
  CHECK(probe.run("local function deep(n) return 1 + deep(n + 1) end\n"
                  "local task = sched.spawn(deep, 1)\n"
                  "local _, message = task:wait()\n"
                  "probe.say(message) probe.say(task:trace())") == 0);
  const std::string text = take_said();
  CHECK(holds(text, "stack overflow"));
  CHECK(holds(text, "probe.lua:2: in function"));
}

}  // namespace khost::tests
