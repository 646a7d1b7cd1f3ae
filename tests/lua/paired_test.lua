-- evaluation.paired: two runs over the same tasks.
local harness = require "tests.lua.harness"
local paired = require "evaluation.paired"
local random = require "lib.random"

local function row(task, correct, seconds)
  return { task = task, correct = correct, candidate_s = seconds }
end

return {
  tasks_of_both_runs_are_paired_and_others_left_out = function()
    local p = paired.compare({ row("a", 1, 2), row("b", 1, 1), row("c", 0), row("d", 1, 1), row("x", 1, 1) },
      { row("a", 1, 1), row("b", 0), row("c", 1, 1), row("d", 1, 1), row("y", 1, 1) })
    harness.expect({ p.tasks, p.both, p.only_a, p.only_b, p.timed }, { 4, 2, 1, 1, 2 })
    harness.is_true(math.abs(p.ratio - math.sqrt(2)) < 1e-12, tostring(p.ratio))
    harness.expect({ p.b_faster, p.a_faster }, { 1, 0 })
    harness.is_true(p.low <= p.ratio and p.high >= p.ratio, "the interval holds the mean")
  end,

  of_several_verdicts_the_best_counts = function()
    local p = paired.compare({ row("a", 0), row("a", 1, 4), row("a", 1, 2) }, { row("a", true, 1) })
    harness.expect({ p.both, p.ratio }, { 1, 2 })
  end,

  nothing_in_common_has_no_ratio = function()
    local p = paired.compare({ row("a", 1, 1) }, { row("b", 1, 1) })
    harness.expect({ p.tasks, p.ratio }, { 0, nil })
  end,

  a_difference_is_of_task_means_with_an_interval_over_tasks = function()
    local a, b = {}, {}
    for index = 1, 30 do
      local task = "t" .. index
      -- Two answers a task on one side, one on the other; B is better by .5 on every third task.
      a[#a + 1] = { task = task, value = 0 }
      a[#a + 1] = { task = task, value = 1 }
      b[#b + 1] = { task = task, value = index % 3 == 0 and 1 or 0.5 }
    end
    b[#b + 1], a[#a + 1] = { task = "only b", value = 9 }, { task = "t1" }
    local seen = paired.difference(a, b, random.stream "difference")
    harness.expect({ seen.tasks, ("%.4f"):format(seen.mean) }, { 30, "0.1667" })
    -- The standard error is sqrt(1/3 * 2/3 / 30) / 2 = .043.
    harness.is_true(seen.low > 0.04 and seen.low < 0.13 and seen.high > 0.2 and seen.high < 0.29,
      ("%.3f to %.3f"):format(seen.low, seen.high))
    harness.expect(paired.difference(a, b, random.stream "difference"), seen)
    harness.expect(paired.difference(a, { { task = "x", value = 1 } }, random.stream "d"), nil)
  end,
}
