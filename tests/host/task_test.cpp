// Waiting functions: answers from other threads, cancellation while they wait, operations that are dropped.
#include <doctest/doctest.h>

#include <boost/asio/post.hpp>
#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "tests/host/lua_probe.h"

namespace khost::tests {
namespace {

using lua::def;
using lua::Resume;

std::vector<std::thread> threads;      // that will answer
std::deque<Resume<std::string>> held;  // operations that only release() ends
int cleaned = 0;

void join_threads() {
  for (std::thread& thread : threads) {
    thread.join();
  }
  threads.clear();
}

void answer_elsewhere(Resume<std::string> done, double seconds, std::string text) {
  threads.emplace_back([done, seconds, text] {
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    done(text);
    done("a second answer");
    done.fail({"a third", "late"});
  });
}

void fail_elsewhere(Resume<std::string> done) {
  threads.emplace_back([done] { done.fail({"it broke", "broken"}); });
}

void answer_at_once(Resume<std::tuple<int64_t, std::string>> done) {
  done({1, "one"});
}

void hold(Resume<std::string> done) {
  done.on_cancel([] { cleaned++; });
  held.push_back(done);
}

void release(std::string text) {
  const std::deque<Resume<std::string>> all = std::exchange(held, {});
  for (const Resume<std::string>& done : all) {
    done(text);
  }
}

// Also what each test that holds operations ends with: nobody may answer a host that is gone.
void drop_all() {
  held.clear();
}
void drop(Resume<std::string>) {}
void refuse(Resume<std::string>, std::string reason) {
  throw lua::ArgError(reason);
}
int64_t times_cleaned() {
  return cleaned;
}

int open(lua_State* L) {
  cleaned = 0;
  held.clear();
  lua_newtable(L);
  lua::add(L, {def<say>("say"), def<answer_elsewhere>("elsewhere"), def<fail_elsewhere>("fails"),
               def<answer_at_once>("at_once"), def<hold>("hold"), def<release>("release"), def<drop_all>("drop_all"),
               def<drop>("drop"), def<refuse>("refuse"), def<times_cleaned>("cleaned")});
  return 1;
}

}  // namespace

TEST_CASE("task: an answer given on another thread resumes the task, once") {
  ProbeHost probe(open);
  CHECK(probe.run(R"lua(
    assert(probe.elsewhere(0.01, "hello") == "hello")
    sched.sleep(0.01)
    local number, word = probe.at_once()
    assert(number == 1 and word == "one")
    local results = sched.map({ 0.02, 0.01, 0 }, function(s) return probe.elsewhere(s, "after " .. s) end)
    assert(results[1] == "after 0.02" and results[3] == "after 0")
  )lua") == 0);
  join_threads();
}

TEST_CASE("task: a failed operation is nil, message and code; one that its owner dropped says so") {
  ProbeHost probe(open);
  CHECK(probe.run(R"lua(
    local value, message, code = probe.fails()
    assert(value == nil and message == "it broke" and code == "broken")
    value, message, code = probe.drop()
    assert(value == nil and message == "the host dropped this operation" and code == "host")
    local task = sched.spawn(probe.hold)
    sched.sleep(0)
    probe.drop_all()
    value, message, code = task:wait()
    assert(value == nil and code == "host")
  )lua") == 0);
  join_threads();
  drop_all();
}

TEST_CASE("task: a cancelled wait cleans up, raises the cancellation where it waits, and drops the late answer") {
  ProbeHost probe(open);
  CHECK(probe.run(R"lua(
    local after, reason
    local task = sched.spawn(function()
      local ok
      ok, reason = pcall(probe.hold)
      assert(not ok)
      after = probe.elsewhere(0.01, "waits again")
      error(reason, 0)
    end)
    while task:status() ~= "waiting" do sched.sleep(0) end
    assert(task:cancel())
    assert(probe.cleaned() == 1)
    assert(reason == nil, "the task is never resumed inside of cancel")
    probe.release("too late")
    local value, message, code = task:wait()
    assert(value == nil and code == "cancelled" and task:status() == "cancelled")
    assert(reason == sched.CANCELLED and tostring(reason) == "cancelled")
    assert(after == "waits again", tostring(after))
    assert(probe.cleaned() == 1 and task:cancel() == false)
  )lua") == 0);
  join_threads();
  drop_all();
}

TEST_CASE("task: an answer and a cancellation in the same turn give the cancellation, and no second resume") {
  ProbeHost probe(open);
  CHECK(probe.run(R"lua(
    local outcomes = {}
    local task = sched.spawn(function()
      local ok, value = pcall(probe.hold)
      outcomes[#outcomes + 1] = ok and value or tostring(value)
      local again, second = pcall(sched.sleep, 0.01)
      outcomes[#outcomes + 1] = again and "slept" or tostring(second)
    end)
    sched.sleep(0)
    probe.release("answered")   -- posted, not yet delivered
    task:cancel()
    task:wait()
    assert(#outcomes == 2 and outcomes[1] == "cancelled" and outcomes[2] == "slept", table.concat(outcomes, ","))
  )lua") == 0);
  drop_all();
}

TEST_CASE("task: a task that has not begun is dropped by a cancellation") {
  ProbeHost probe(open);
  CHECK(probe.run(R"lua(
    local began = false
    local task = sched.spawn(function() began = true end)
    assert(task:status() == "ready" and task:cancel())
    local value, message, code = task:wait()
    assert(code == "cancelled")
    sched.sleep(0.01)
    assert(not began)
  )lua") == 0);
  CHECK(probe.host().tasks().alive() == 0);
}

TEST_CASE("task: a waiting function that throws before it waits raises at the caller, who may wait again") {
  ProbeHost probe(open);
  CHECK(probe.run("probe.say(raises(function()\n  probe.refuse('not like this')\nend))\n"
                  "probe.say(probe.elsewhere(0, 'well'))\nassert(sched.stats().waiting == 0)") == 0);
  const std::string text = take_said();
  CHECK(holds(text, "probe.lua:3: not like this"));
  CHECK(holds(text, "|well"));
  join_threads();
}

TEST_CASE("task: waiting outside of a task is refused with the reason") {
  ProbeHost probe(open);
  CHECK(probe.run(R"lua(
    local made = coroutine.create(function() probe.hold() end)
    local ok, message = coroutine.resume(made)
    assert(not ok and message:find "this call waits: use it inside a task", message)
    assert(raises(table.sort, { 2, 1, 3 }, function() probe.hold() end):find "not possible inside sort")
    assert(raises(string.gsub, "abc", "b", function() probe.hold() end):find "not possible inside")
    assert(sched.stats().waiting == 0)
  )lua") == 0);
  drop_all();
}

TEST_CASE("task: arguments and many results pass through spawn and wait, nils included") {
  ProbeHost probe(open);
  CHECK(probe.run(R"lua(
    local task = sched.spawn(function(...) return select("#", ...), ... end, nil, 2, nil)
    local n, a, b, c = task:wait()
    assert(n == 3 and a == nil and b == 2 and c == nil and select("#", task:wait()) == 4)
    local many = {}
    for i = 1, 5000 do many[i] = i end
    local wide = sched.spawn(function(...) return ... end, unpack(many))
    assert(select("#", wide:wait()) == 5000 and select(5000, wide:wait()) == 5000)
  )lua") == 0);
}

TEST_CASE("task: what raised keeps its first place and its stack, also when it was raised again") {
  ProbeHost probe(open);
  CHECK(probe.run("local function inner() error('no luck') end\n"
                  "local task = sched.spawn(function()\n"
                  "  local ok, m = pcall(inner) error(m, 0)\n"
                  "end)\n"
                  "local _, message, code = task:wait()\n"
                  "assert(code == 'failed')\n"
                  "probe.say(message) probe.say(task:trace())\n"
                  "local odd = sched.spawn(function() error({}) end)\n"
                  "_, message = odd:wait()\n"
                  "assert(message:find '^table')") == 0);
  const std::string text = take_said();
  CHECK(holds(text, "probe.lua:2: no luck|"));
  CHECK(holds(text, "stack traceback"));
  CHECK(holds(text, "probe.lua:4"));
}

TEST_CASE("task: a parent ends after its children, in any order, and a cancelled parent takes them along") {
  ProbeHost probe(open);
  CHECK(probe.run(R"lua(
    local order = {}
    local parent = sched.spawn(function()
      sched.spawn(function()
        sched.spawn(function() probe.elsewhere(0.02, "") order[#order + 1] = "grandchild" end)
        order[#order + 1] = "child"
      end)
      order[#order + 1] = "parent"
      return "result"
    end)
    assert(parent:wait() == "result")
    assert(table.concat(order, ",") == "parent,child,grandchild", table.concat(order, ","))
    -- Cancelled while only its children still run.
    local child
    local waits = sched.spawn(function() child = sched.spawn(probe.hold) return "done" end)
    while not child or child:status() ~= "waiting" do sched.sleep(0) end
    assert(waits:status() ~= "done" and waits:cancel())
    local value, message, code = waits:wait()
    assert(code == "cancelled" and child:status() == "cancelled" and probe.cleaned() == 1)
    assert(sched.stats().tasks == 1)
  )lua") == 0);
  join_threads();
  drop_all();
}

TEST_CASE("task: an interrupt while the root waits for its children cancels them and ends the run") {
  ProbeHost probe(open);
  std::thread interrupter([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    boost::asio::post(probe.host().io(), [&] { probe.host().interrupt(); });
  });
  CHECK(probe.run("for i = 1, 3 do sched.spawn(probe.hold) end") == 130);
  interrupter.join();
  CHECK(cleaned == 3);
  CHECK(probe.host().tasks().alive() == 0);
  drop_all();
}

}  // namespace khost::tests
