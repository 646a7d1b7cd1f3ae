-- evaluation.score and metrics.table1: the figures of table 1.
local harness = require "tests.lua.harness"
local metrics = require "evaluation.metrics"
local score = require "evaluation.score"

local function verdict(speedup, faster, status)
  return {
    status = status or "ok", correct = status == nil, faster = { eager = faster, compile = faster },
    speedup = speedup and { eager = speedup, compile = speedup / 2 } or {},
  }
end

local function near(got, expected)
  harness.is_true(math.abs(got - expected) < 1e-9, ("expected %g, got %g"):format(expected, got))
end

return {
  rates_count_every_judged_task = function()
    local result = metrics.table1 { verdict(4, true), verdict(1, false), verdict(nil, false, "wrong"),
      verdict(nil, false, "crash") }
    harness.expect(result.tasks, 4)
    near(result.pass_rate, 0.5)
    near(result.faster.eager, 0.25)
  end,

  speed_ups_are_geometric_means_of_the_correct = function()
    local result = metrics.table1 { verdict(4, true), verdict(1, false), verdict(nil, false, "wrong") }
    near(result.speedup.eager, 2)
    near(result.speedup.compile, 1)
  end,

  what_is_our_fault_counts_in_no_rate = function()
    local result = metrics.table1 { verdict(2, true), verdict(nil, false, "void"), verdict(nil, false, "bad_task") }
    harness.expect(result.tasks, 1)
    near(result.pass_rate, 1)
  end,

  no_correct_solution_has_no_speed_up = function()
    local result = metrics.table1 { verdict(nil, false, "wrong") }
    near(result.pass_rate, 0)
    harness.expect(result.speedup.eager, nil)
    harness.expect(score.row("p", result)[6], "-")
  end,

  no_task_at_all_gives_zero_rates = function()
    harness.expect(metrics.table1({}).pass_rate, 0)
  end,

  zero_and_infinite_speed_ups_are_refused = function()
    harness.raises("a positive finite number expected, got 0", metrics.geometric_mean_of, { 1, 0 })
    harness.raises("a positive finite number expected, got inf", metrics.geometric_mean_of, { 1 / 0 })
  end,

  text_aligns_its_columns = function()
    harness.expect(score.text({ "a", "long" }, { { "wide", "x" } }), "a     long\n----  ----\nwide  x")
  end,
}
