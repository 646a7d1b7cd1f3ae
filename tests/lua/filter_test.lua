-- synthesis.admit: what becomes of a task by what the judge's check says of it, on both targets.
local admit = require "synthesis.admit"
local client = require "judge.client"
local harness = require "tests.lua.harness"

local EAGER_MS = { 1, 100 }

local function facts(changes)
  local run = { null_candidates = {}, no_operators = {}, idle_modules = {}, uniform_axes = {}, eager_s = 0.01 }
  for key, value in pairs(changes or {}) do run[key] = value end
  return { structure = { dead_operators = {}, unused_parameters = {}, unused_inputs = {} }, run = run }
end

-- What is decided where the judge answers so, and what it was asked.
local function decided(answers, target)
  local asked = {}
  local process = { request = function(_, kind, body)
    asked[#asked + 1] = { kind = kind, target = body.target, whole = body.worth_s == nil }
    local answer = answers[#asked] or answers[#answers]
    if answer.message then return nil, answer.message, answer.code end
    return answer
  end }
  local keep, reason = admit.task(client.over(process, { target = target }), { source = "x" }, EAGER_MS)
  return { keep, reason }, asked
end

return {
  one_check_decides_on_the_target_of_the_run = function()
    for _, target in ipairs { "cpu", "cuda" } do
      local outcome, asked = decided({ facts() }, target)
      harness.expect(outcome, { true, "kept" })
      harness.expect(asked, { { kind = "check", target = target ~= "cpu" and target or nil, whole = false } })
    end
  end,

  each_flaw_has_its_reason = function()
    local function reason(changes) return decided({ facts(changes) }, "cpu")[2] end
    harness.expect(reason { fault = "not_deterministic" }, "not_deterministic")
    harness.expect(reason { fault = "returns_nan" }, "returns_nan")
    harness.expect(reason { constant_output = true }, "constant_output")
    harness.expect(reason { same_across_inputs = true }, "same_across_inputs")
    harness.expect(reason { null_candidates = { "zeros" } }, "null_zeros")
    harness.expect(reason { eager_s = 0.0005 }, "too_fast")
    harness.expect(reason { eager_s = 0.2 }, "too_slow")
    harness.expect(reason { no_operators = { "relu" } }, "kept")
  end,

  a_run_that_was_cut_short_within_the_bounds_is_asked_for_whole = function()
    local outcome, asked = decided({ facts { cut_short = true, eager_s = 0.05 }, facts() }, "cpu")
    harness.expect(outcome, { true, "kept" })
    harness.expect({ #asked, asked[2].whole }, { 2, true })
    outcome, asked = decided({ facts { cut_short = true, eager_s = 2 } }, "cpu")
    harness.expect(outcome, { false, "too_slow" })
    harness.expect(#asked, 1)
  end,

  a_task_that_fails_is_told_from_a_judge_that_does = function()
    local function failed(code, message)
      return (decided({ { failure = { stage = "run", code = code, message = message } } }, "cpu"))
    end
    harness.expect(failed("bad_task", "division by zero"), { false, "does_not_run" })
    harness.expect(failed("timeout", "60 s"), { false, "hangs" })
    harness.expect(failed("host", "no Python"), { false, "judge_failed" })
  end,
}
