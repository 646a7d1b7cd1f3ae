-- khost.sched: structured tasks, cancellation, limits, streams.
local sched = require "khost.sched"
local t = require "tests.lua.harness"

local spec = {}

local function living() return sched.stats().tasks end

function spec.spawn_runs_a_child_and_wait_returns_its_results()
  local task = sched.spawn(function(a, b)
    sched.sleep(0.001)
    return a + b, "two"
  end, 3, 4)
  local sum, word = task:wait()
  t.expect({ sum, word, task:status() }, { 7, "two", "done" })
end

function spec.a_failed_child_gives_nil_message_and_code()
  local task = sched.spawn(function() error("no luck") end)
  local value, message, code = task:wait()
  t.expect({ value == nil, code, task:status() }, { true, "failed", "failed" })
  t.is_true(message:find("sched_test.lua:%d+: no luck"))
  t.is_true(task:trace():find("stack traceback"))
end

function spec.map_keeps_the_order_and_the_limit()
  local running, peak, list = 0, 0, {}
  for i = 1, 40 do list[i] = i end
  local results, failures = sched.map(list, function(i)
    running = running + 1
    peak = math.max(peak, running)
    sched.sleep(0.001)
    running = running - 1
    if i % 10 == 0 then error("ten") end
    return i * i
  end, { limit = 5 })
  t.expect(peak, 5)
  t.expect(results[7], 49)
  t.expect(#failures, 4)
  t.is_true(failures[1].message:find("ten"))
  t.raises("unknown option 'limt'", sched.map, list, tostring, { limt = 2 })
end

function spec.map_raises_when_asked_and_cancels_the_rest()
  local finished = 0
  t.raises("second", function()
    sched.map({ 1, 2, 3 }, function(i)
      if i == 2 then error("second") end
      sched.sleep(5)
      finished = finished + 1
    end, { on_failure = "raise" })
  end)
  t.expect(finished, 0)
end

function spec.race_returns_the_first_and_cancels_the_others()
  local cancelled
  local index, word = sched.race {
    function()
      local ok, reason = pcall(sched.sleep, 5)
      cancelled = not ok and reason == sched.CANCELLED
      error(reason, 0)
    end,
    function() sched.sleep(0.001) return "fast" end,
  }
  t.expect({ index, word }, { 2, "fast" })
  t.eventually(function() return cancelled end)
end

function spec.scope_ends_when_all_its_children_have_ended()
  local done = 0
  sched.scope(function()
    for _ = 1, 3 do sched.spawn(function() sched.sleep(0.002) done = done + 1 end) end
  end)
  t.expect(done, 3)
end

function spec.an_error_in_a_scope_cancels_its_children()
  local done = 0
  t.raises("broken", function()
    sched.scope(function()
      sched.spawn(function() sched.sleep(5) done = done + 1 end)
      sched.sleep(0.001)
      error("broken")
    end)
  end)
  t.expect(done, 0)
end

function spec.timeout_cancels_with_its_own_code()
  local value, message, code = sched.timeout(0.01, function() sched.sleep(5) return 1 end)
  t.expect({ value == nil, message, code }, { true, "timed out after 0.01 s", "timeout" })
  t.expect(sched.timeout(5, function(x) return x end, 9), 9)
  t.raises("inner", sched.timeout, 5, function() error("inner") end)
end

function spec.cancelling_reaches_grandchildren()
  local before, inner = living(), nil
  local task = sched.spawn(function()
    inner = sched.spawn(function() sched.sleep(5) end)
    inner:wait()
  end)
  t.eventually(function() return inner and inner:status() == "waiting" end)
  t.is_true(task:cancel())
  task:wait()
  t.expect({ task:status(), inner:status() }, { "cancelled", "cancelled" })
  t.eventually(function() return living() == before end)
  t.expect(task:cancel(), false)
end

function spec.a_bare_yield_ends_the_task_and_its_waiter_hears_of_it()
  local task = sched.spawn(function() coroutine.yield() end)
  local value, message = task:wait()
  t.expect(value, nil)
  t.is_true(message:find("only functions that wait may suspend a task", 1, true))
end

function spec.waiting_calls_refuse_where_they_cannot_wait()
  t.raises("this call waits", coroutine.wrap(function() sched.sleep(0) end))
  t.raises("not possible inside", table.sort, { 2, 1, 3 }, function(a, b) sched.sleep(0) return a < b end)
end

function spec.semaphore_limits_and_frees_after_an_error()
  local gate, inside, peak = sched.semaphore(2), 0, 0
  sched.map({ 1, 2, 3, 4, 5, 6 }, function()
    gate:use(function()
      inside = inside + 1
      peak = math.max(peak, inside)
      sched.sleep(0.001)
      inside = inside - 1
    end)
  end)
  t.expect(peak, 2)
  t.raises("inside", gate.use, gate, function() error("inside") end)
  t.expect(gate:free(), 2)
end

function spec.channel_hands_values_over_in_order_and_closes()
  local channel, got = sched.channel(2), {}
  local producer = sched.spawn(function()
    for i = 1, 10 do channel:put(i) end
    channel:close()
  end)
  while true do
    local value, _, code = channel:take()
    if value == nil then
      t.expect(code, "gone")
      break
    end
    got[#got + 1] = value
  end
  producer:wait()
  t.expect(got, { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 })
  t.expect(select(3, channel:put(1)), "gone")
end

function spec.every_ends_with_its_task()
  local ticks = 0
  local ticker = sched.every(0.001, function() ticks = ticks + 1 end)
  t.eventually(function() return ticks >= 3 end)
  ticker:cancel()
  ticker:wait()
  t.expect(ticker:status(), "cancelled")
end

function spec.random_streams_depend_on_seed_and_place_only()
  local function draws(limit)
    sched.seed(7)
    return (sched.map({ 1, 2, 3, 4, 5, 6 }, function()
      sched.sleep(0)
      return sched.random():integer(1, 1000000)
    end, { limit = limit }))
  end
  local named = sched.random("a"):number()
  t.expect(sched.random("a"):number(), named)
  t.is_true(named >= 0 and named < 1)
  t.expect(#draws(2), 6)
  t.expect(#draws(6), 6)
  sched.random():integer(5, 5)
  t.raises("above high", function() sched.random():integer(2, 1) end)
end

function spec.wait_collects_values_and_failures()
  local results, failures = sched.wait {
    sched.spawn(function() return "a" end), sched.spawn(function() error("b") end),
  }
  t.expect(results[1], "a")
  t.expect({ #failures, failures[1].index }, { 1, 2 })
end

function spec.sleepers_wake_in_order_also_beside_cancelled_ones()
  local order, late = {}, {}
  for i = 1, 200 do late[i] = sched.spawn(function() sched.sleep(60) end) end
  local function sleeper(seconds)
    return function()
      sched.sleep(seconds)
      order[#order + 1] = seconds
    end
  end
  sched.spawn(sleeper(0.06))  -- each earlier than the first
  sched.spawn(sleeper(0.02))
  sched.sleep(0.001)
  for _, task in ipairs(late) do task:cancel() end
  sched.spawn(sleeper(0.03))
  t.eventually(function() return #order == 3 end)
  t.expect(order, { 0.02, 0.03, 0.06 })
end

function spec.now_does_not_go_back()
  local before = sched.now()
  sched.sleep(0.002)
  t.is_true(sched.now() - before >= 0.002)
  t.is_true(sched.wall_clock() > 1.6e9)
end

return spec
