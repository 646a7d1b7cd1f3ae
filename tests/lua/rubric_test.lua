-- rubrics.trajectory: what rejection fine-tuning keeps, and a reason for the rest.
local rejection = require "training.rejection"
local rubric = require "rubrics.trajectory"
local t = require "tests.lua.harness"

local function trajectory(changes)
  local record = { reward = 2, status = "final_answer", labels = {}, turns = { { tool = "files", status = "ok" } },
    verdict = { status = "ok" } }
  for key, value in pairs(changes or {}) do record[key] = value end
  return record
end

local function reason(changes)
  local keep, why = rubric.keep(trajectory(changes))
  return keep and "kept" or why
end

local spec = {}

function spec.good_trajectories_are_kept()
  t.expect(reason(), "kept")
  t.expect(reason { status = "turn_limit" }, "kept")
end

function spec.outcome_comes_first()
  local nothing = trajectory()
  nothing.reward = nil
  t.expect({ rubric.keep(nothing) }, { false, "void" })
  t.expect(reason { reward = -1, labels = { repeat_call = 1 } }, "reward_not_positive")
end

function spec.each_pattern_has_its_reason()
  t.expect(reason { labels = { repeat_call = 1 } }, "repeat_call")
  t.expect(reason { labels = { ping_pong = 2 } }, "ping_pong")
  t.expect(reason { labels = { unknown_tool = 1 } }, "schema_unknown_tool")
  t.expect(reason { labels = { wrong_type = 1 } }, "schema_bad_args")
  t.expect(reason { labels = { malformed_call = 1 } }, "malformed_call")
  t.expect(reason { labels = { no_block = 1 } }, "format_no_block")
  t.expect(reason { verdict = { status = "violation" } }, "violation")
  t.expect(reason { verdict = { status = "policy" } }, "violation")  -- of a run from before the word changed
  t.expect(reason { status = "cut" }, "limit_hit")
  t.expect(reason { turns = { {}, {}, {} } }, "monologue")
  t.expect(reason { turns = { { tool = "files", status = "failed" } } }, "no_final_check")
end

function spec.with_tools_the_last_files_must_have_been_found_right()
  local wrote, right, looked = { tool = "Write", changes = { a = "1" } }, { tool = "Bash", verified = true },
    { tool = "Read" }
  t.expect(reason { turns = { wrote, looked } }, "no_final_check")
  t.expect(reason { turns = { wrote, right } }, "kept")
  t.expect(reason { turns = { wrote, right, wrote, looked } }, "no_final_check")
  t.expect(reason { turns = { wrote, right, looked } }, "kept")
  -- Written and verified by one turn; and back to files that were verified before.
  t.expect(reason { turns = { wrote, { tool = "Write", changes = { a = "2" }, verified = true } } }, "kept")
  t.expect(reason { turns = { looked } }, "kept")
end

function spec.filter_counts_reasons_by_reward()
  local kept, dropped, by_reason = rejection.sort({ trajectory(), trajectory { reward = -1 },
    trajectory { labels = { ping_pong = 1 } } }, rubric.keep)
  t.expect({ #kept, #dropped }, { 1, 2 })
  t.expect(by_reason, { reward_not_positive = { ["-1"] = 1 }, ping_pong = { ["2"] = 1 } })
  t.expect(dropped[1].drop_reason, "reward_not_positive")
end

return spec
