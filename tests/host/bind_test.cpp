// The binder: values both ways, what is refused and with which words, objects and their lives.
#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "host/base/json.h"
#include "tests/host/lua_probe.h"

namespace khost::tests {

// Beside the functions and not in the anonymous namespace: the binder finds both by the namespace of these types.
struct Inner {
  double seconds = 2.5;
  std::vector<std::string> names{"a"};
};
constexpr auto fields(lua::Tag<Inner>) {
  return std::tuple(lua::field("seconds", &Inner::seconds), lua::field("names", &Inner::names));
}
struct Outer {
  int64_t count = 7;
  bool quiet = false;
  std::optional<std::string> title;
  Inner inner;
};
constexpr auto fields(lua::Tag<Outer>) {
  return std::tuple(lua::field("count", &Outer::count), lua::field("quiet", &Outer::quiet),
                    lua::field("title", &Outer::title), lua::field("inner", &Outer::inner));
}

struct Counter {
  explicit Counter(int64_t n) : value(n) { alive++; }
  ~Counter() { alive--; }
  int64_t value;
  static inline int alive = 0;
};
constexpr const char* class_name(lua::Tag<Counter>) {
  return "Counter";
}
struct Stranger {};
constexpr const char* class_name(lua::Tag<Stranger>) {
  return "Stranger";
}

namespace {

using lua::def;

template <class T>
T echo(T value) {
  return value;
}

std::shared_ptr<Counter> make_counter(int64_t n) {
  return std::make_shared<Counter>(n);
}
std::shared_ptr<Counter> no_counter() {
  return nullptr;
}
std::shared_ptr<Stranger> make_stranger() {
  return std::make_shared<Stranger>();
}
int64_t add_to(std::shared_ptr<Counter> counter, int64_t n) {
  return counter->value += n;
}
Result<std::string> half(int64_t n) {
  if (n % 2 != 0) {
    return Failure{std::to_string(n) + " is odd", "odd"};
  }
  return std::to_string(n / 2);
}
std::tuple<int64_t, std::string> both() {
  return {4, "four"};
}
void throws(std::string text) {
  throw std::runtime_error(text);
}
int64_t count_alive() {
  return Counter::alive;
}
Json call_back(lua_State* L, lua::Function fn, Json argument) {
  const Result<Json> result = fn.call(L, {argument});
  return result ? Json{{"value", result.value()}} : Json{{"failed", result.failure().message}};
}

int open(lua_State* L) {
  lua::add_class<Counter>(L, {def<add_to>("add")});
  lua::add_class<Stranger>(L, {});
  lua_newtable(L);
  lua::add(L, {def<say>("say"),
               def<echo<bool>>("bool"),
               def<echo<int64_t>>("whole"),
               def<echo<int>>("small"),
               def<echo<uint64_t>>("count"),
               def<echo<uint8_t>>("byte"),
               def<echo<double>>("number"),
               def<echo<float>>("single"),
               def<echo<std::string>>("text"),
               def<echo<std::optional<double>>>("maybe"),
               def<echo<std::vector<int64_t>>>("list"),
               def<echo<std::map<std::string, double>>>("map"),
               def<echo<Json>>("data"),
               def<echo<Outer>>("record"),
               def<echo<std::vector<Inner>>>("records"),
               def<make_counter>("counter"),
               def<no_counter>("no_counter"),
               def<make_stranger>("stranger"),
               def<half>("half"),
               def<both>("both"),
               def<throws>("throws"),
               def<count_alive>("alive"),
               def<call_back>("call_back")});
  return 1;
}

}  // namespace

TEST_CASE("bind: values go to C++ and come back as they were") {
  ProbeHost probe(open);
  CHECK(probe.run(R"lua(
    assert(probe.bool(true) == true and probe.bool(false) == false)
    assert(probe.whole(-2^53) == -2^53 and probe.count(2^53) == 2^53 and probe.byte(255) == 255)
    assert(probe.number(0.1) == 0.1 and probe.number(1 / 0) == 1 / 0 and probe.single(0.5) == 0.5)
    assert(probe.text("a\0b") == "a\0b" and probe.text("") == "" and probe.text(("x"):rep(1e6)) == ("x"):rep(1e6))
    assert(probe.maybe(nil) == nil and probe.maybe() == nil and probe.maybe(3) == 3)
    local list = probe.list { 3, 1, 2 }
    assert(#list == 3 and list[1] == 3 and list[3] == 2 and #probe.list {} == 0)
    local map = probe.map { a = 1, ["b c"] = 2 }
    assert(map.a == 1 and map["b c"] == 2 and next(probe.map {}) == nil)
    local data = probe.data { list = { 1, json.null, "x" }, deep = { { {} } }, flag = false }
    assert(data.list[1] == 1 and data.list[2] == json.null and data.list[3] == "x" and data.flag == false)
    assert(next(data.deep[1][1]) == nil and probe.data(nil) == nil)
    local four, word = probe.both()
    assert(four == 4 and word == "four" and select("#", probe.both()) == 2 and select("#", probe.say "") == 0)
  )lua") == 0);
}

TEST_CASE("bind: a number that the C++ type cannot hold is refused, not changed") {
  ProbeHost probe(open);
  CHECK(probe.run(R"lua(
    for _, bad in ipairs { 1.5, 2^53 * 4, -2^60, 1 / 0, 0 / 0 } do
      assert(raises(probe.whole, bad):find "argument 1: whole number expected, got number")
    end
    assert(raises(probe.count, -1):find "whole number of at least 0 expected, got number %-1")
    assert(raises(probe.small, 2^31):find "whole number between %-2147483648 and 2147483647 expected")
    assert(probe.small(2^31 - 1) == 2^31 - 1 and probe.small(-2^31) == -2^31)
    assert(raises(probe.byte, 256):find "whole number between 0 and 255 expected, got number 256")
    assert(raises(probe.number, "3"):find "number expected, got string")
    assert(raises(probe.text, 3):find "string expected, got number 3")
    assert(raises(probe.bool, nil):find "boolean expected, got nil")
    assert(raises(probe.bool):find "boolean expected, got nothing")
    assert(raises(probe.list, { 1, "x" }):find "whole number expected, got string")
    assert(raises(probe.list, "x"):find "list expected, got string")
    assert(raises(probe.map, { 1 }):find "keys must be strings, got a number")
  )lua") == 0);
}

TEST_CASE("bind: an error names the script, the line and the argument") {
  ProbeHost probe(open);
  CHECK(probe.run("local x = 1\nprobe.say(raises(function()\n  probe.whole('x')\nend))") == 0);
  CHECK(holds(take_said(), "probe.lua:4: argument 1: whole number expected, got string"));
  CHECK(probe.run("local c = probe.counter(1)\nprobe.say(raises(function() c:add('x') end))") == 0);
  CHECK(holds(take_said(), "probe.lua:3: argument 2: whole number expected, got string"));
  CHECK(probe.run("\nprobe.say(raises(function() probe.throws('from C++') end))") == 0);
  CHECK(holds(take_said(), "probe.lua:3: from C++"));
}

TEST_CASE("bind: records keep defaults for what is missing and name the legal keys for what is unknown") {
  ProbeHost probe(open);
  CHECK(probe.run(R"lua(
    local given = probe.record { quiet = true, inner = { seconds = 9 } }
    assert(given.count == 7 and given.quiet and given.title == nil and given.inner.seconds == 9)
    assert(given.inner.names[1] == "a")
    assert(probe.record(nil).count == 7 and probe.record().inner.seconds == 2.5)
    assert(probe.record { title = "t" }.title == "t")
    assert(probe.records({ { seconds = 1 }, {} })[2].seconds == 2.5)
    assert(raises(probe.record, { cuont = 1 }):find("unknown key 'cuont' (known: count, quiet, title, inner)", 1, true))
    assert(raises(probe.record, { 5 }):find "unknown key 'number'")
    assert(raises(probe.record, { inner = { seconds = "x" } }):find "inner: seconds: number expected, got string")
    assert(raises(probe.record, { inner = { secs = 1 } }):find "inner: unknown key 'secs'")
    assert(raises(probe.record, 5):find "table expected, got number 5")
  )lua") == 0);
}

TEST_CASE("bind: plain data refuses what has no plain form") {
  ProbeHost probe(open);
  CHECK(probe.run(R"lua(
    local loop = {} loop.loop = loop
    assert(raises(probe.data, loop):find "does it contain itself")
    assert(raises(probe.data, { f = print or probe.say }):find "plain data expected, got a function")
    assert(raises(probe.data, { c = probe.counter(1) }):find "plain data expected, got a Counter")
    assert(raises(probe.data, { [true] = 1 }):find "keys must be strings or numbers, got a boolean")
    assert(probe.data({ ["a\0b"] = 1, a = 2 })["a\0b"] == 1)
    assert(probe.data(json.list()) ~= nil and json.encode(json.list()) == "[]" and json.encode({}) == "{}")
  )lua") == 0);
}

TEST_CASE("bind: an object lives as long as a script or a call holds it") {
  {
    ProbeHost probe(open);
    CHECK(probe.run(R"lua(
      local kept = probe.counter(10)
      for i = 1, 100 do probe.counter(i) end
      assert(kept:add(5) == 15 and kept:add(1) == 16)
      sched.collect_garbage() sched.collect_garbage()
      assert(probe.alive() == 1, probe.alive())
      assert(probe.no_counter() == nil)
    )lua") == 0);
  }
  CHECK(Counter::alive == 0);
}

TEST_CASE("bind: an object of another class, or none, is refused by name") {
  ProbeHost probe(open);
  CHECK(probe.run(R"lua(
    local counter = probe.counter(1)
    assert(tostring(counter) == "Counter")
    assert(raises(counter.add, probe.stranger(), 1):find "argument 1: Counter expected, got Stranger")
    assert(raises(counter.add, nil, 1):find "Counter expected, got nil")
    assert(raises(counter.add, {}, 1):find "Counter expected, got table")
    assert(raises(counter.add, json.null, 1):find "Counter expected, got userdata")
    assert(raises(function() counter.value = 3 end):find "attempt to index")
    assert(raises(function() return counter.nothing() end):find "nothing")
  )lua") == 0);
}

TEST_CASE("bind: a script cannot reach the destructor of an object") {
  ProbeHost probe(open);
  CHECK(probe.run(R"lua(
    local counter = probe.counter(1)
    local meta = getmetatable(counter)
    assert(type(meta) ~= "table", "the metatable is in reach")
    assert(not pcall(setmetatable, counter, {}))
    assert(counter:add(1) == 2)
  )lua") == 0);
}

TEST_CASE("bind: an expected failure is nil, message and code; misuse is an error") {
  ProbeHost probe(open);
  CHECK(probe.run(R"lua(
    local value, message, code = probe.half(3)
    assert(value == nil and message == "3 is odd" and code == "odd" and select("#", probe.half(3)) == 3)
    assert(probe.half(8) == "4" and select("#", probe.half(8)) == 1)
    raises(probe.half, "8")
  )lua") == 0);
}

TEST_CASE("bind: a Lua function is called from C++, its errors are failures") {
  ProbeHost probe(open);
  CHECK(probe.run(R"lua(
    assert(probe.call_back(function(x) return x * 2 end, 21).value == 42)
    assert(probe.call_back(function() error "no luck" end, 1).failed:find "probe.lua:4: no luck")
    assert(probe.call_back(function() return probe.say end, 1).failed:find "plain data expected")
    assert(raises(probe.call_back, 5, 1):find "function expected, got number 5")
  )lua") == 0);
}

}  // namespace khost::tests
