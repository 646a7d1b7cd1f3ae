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
}
