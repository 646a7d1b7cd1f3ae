-- synthesis.filter: each way to drop a task has a name of its own.
local filter = require "synthesis.filter"
local harness = require "tests.lua.harness"
local client = require "judge.client"

local LIMITS = { eager_ms = { 1, 100 } }

local function facts(changes)
  local record = {
    finite = true, deterministic = true, constant_output = false, same_across_inputs = false, null_candidates = {},
    eager_s = 0.01,
  }
  for key, value in pairs(changes or {}) do record[key] = value end
  return record
end

local function reason(changes)
  local _, why = filter.keep(facts(changes), LIMITS)
  return why
end

return {
  times_are_those_of_the_target = function()
    local asked = {}
    local function admitted(target, run)
      local process = { request = function(_, kind, body)
        asked[#asked + 1] = kind
        return kind == "admit" and facts() or { structure = {}, run = run }, body.target
      end }
      return client.over(process, { target = target }):admit { source = "x" }
    end
    harness.expect(admitted("cpu").eager_s, 0.01)
    harness.expect(asked, { "admit" })
    harness.expect(admitted("cuda", { eager_s = 0.0005 }).eager_s, 0.0005)
    harness.expect(asked, { "admit", "admit", "check" })
    harness.expect({ admitted("cuda", { fault = "varies", text = "sizes" }) }, { nil, "sizes", "bad_task" })
  end,

  a_sound_task_is_kept = function()
    harness.expect({ filter.keep(facts(), LIMITS) }, { true, "kept" })
  end,

  each_flaw_has_its_reason = function()
    harness.expect(reason { finite = false }, "not_finite")
    harness.expect(reason { deterministic = false }, "not_deterministic")
    harness.expect(reason { constant_output = true }, "constant_output")
    harness.expect(reason { same_across_inputs = true }, "same_across_inputs")
    harness.expect(reason { null_candidates = { "zeros" } }, "null_zeros")
    harness.expect(reason { eager_s = 0.0005 }, "too_fast")
    harness.expect(reason { eager_s = 0.2 }, "too_slow")
  end,
}
