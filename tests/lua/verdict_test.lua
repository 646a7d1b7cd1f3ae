-- judge.verdict: what a verdict's words mean, for rewards, tables, exit codes and runs of earlier versions.
local judge = require "khost.judge"
local results = require "evaluation.results"
local rewards = require "khost.rewards"
local score = require "evaluation.score"
local t = require "tests.lua.harness"
local verdicts = require "judge.verdict"

local spec = {}

local function record(status, changes)
  local made = { status = status, reason = "", speed = "measured", speed_reason = "", speedup = { eager = 2, compile = 1.2 },
    faster = { eager = true, compile = true }, evidence = { tolerance = "calibrated" } }
  for key, value in pairs(changes or {}) do made[key] = value end
  return made
end

function spec.every_status_has_one_meaning_everywhere()
  local seen = {}
  for _, row in ipairs(judge.statuses) do
    local one = record(row.word)
    t.expect(verdicts.counts(one), row.counts ~= "not_counted")
    t.expect(verdicts.passed(one), row.word == "ok")
    t.expect((verdicts.scored(one)), row.scored)
    t.expect(verdicts.exit_code(one), row.word == "ok" and 0 or row.scored and 1 or 3)
    t.expect(verdicts.is_faster(one, "eager"), row.word == "ok")
    t.expect(score.table1({ one }).tasks, row.scored and 1 or 0)
    t.expect(score.table1({ one }).pass_rate, row.word == "ok" and 1 or 0)
    seen[row.word] = true
  end
  for _, word in ipairs { "ok", "wrong", "build_failed", "crash", "timeout", "oom", "violation", "suspect", "bad_task",
    "uninformative", "void" } do
    t.is_true(seen[word], word)
  end
end

function spec.the_table_says_who_is_at_fault_in_a_sentence()
  for _, row in ipairs(judge.statuses) do
    t.is_true(#row.sentence > 10 and row.fault ~= "")
  end
  local words = {}
  for _, row in ipairs(judge.reasons) do
    t.is_true(not words[row.word] and #row.statuses > 0 and #row.stages > 0 and #row.sentence > 10, row.word)
    words[row.word] = true
  end
end

function spec.a_status_that_no_table_has_is_an_error_and_an_old_word_is_read()
  t.raises("no status 'fine'", verdicts.counts, { status = "fine" })
  t.raises("no status 'nil'", verdicts.passed, {})
  t.expect(verdicts.row({ status = "policy" }).word, "violation")
end

function spec.blank_verdicts_use_words_of_the_table()
  local blank = verdicts.blank("void", "task", "judge_lost")
  t.expect({ blank.status, blank.correct, verdicts.is_void(blank) }, { "void", false, true })
  t.raises("has no reason 'anything'", verdicts.blank, "void", "task", "anything")
  t.raises("has no reason 'no_files'", verdicts.blank, "void", "task", "no_files")
  t.raises("has no reason 'no_files'", verdicts.blank, "build_failed", "time", "no_files")
end

function spec.a_required_speed_up_is_reached_missed_or_not_to_be_had()
  local function code(changes, least)
    return (verdicts.exit_code(record("ok", changes), { side = "compile", least = least or 1.05 }))
  end
  t.expect(code(), 0)
  t.expect(code(nil, 2), 1)
  t.expect(code { speed = "unresolved", speed_reason = "short_baseline" }, 3)
  t.expect(code { speed = "none", speedup = {} }, 3)
  t.expect(code { speedup = { eager = 2 } }, 3)
  t.expect((verdicts.exit_code(record("wrong"), { side = "compile", least = 1 })), 1)
  t.expect((verdicts.exit_code(record("void"), { side = "compile", least = 1 })), 3)
  t.expect(select(2, verdicts.exit_code(record("ok", { speed = "unresolved", speed_reason = "short_baseline" }),
    { side = "eager", least = 2 })), "eager:2 was required, and the speed is unresolved (short_baseline)")
end

local function has(list, word)
  for _, one in ipairs(list) do
    if one == word then return true end
  end
end

-- Whatever the reason, and whatever was decided about speed before it was met: reward, exit code and rows of tables.
function spec.every_reason_that_is_met_while_a_candidate_is_timed_is_paid_by_its_status()
  local schedule, met = rewards.schedule(require "rewards.milestone"), 0
  for _, reason in ipairs(judge.reasons) do
    for _, status in ipairs(has(reason.stages, "time") and reason.statuses or {}) do
      local row = verdicts.row { status = status }
      local one = record(status, { stage = "time", reason = reason.word, correct = true })
      local reward, _, code = schedule:score({ verdict = one }, 0)
      t.expect(reward, row.scored and -1 or nil)
      t.expect(code == "void", not row.scored)
      t.expect(verdicts.exit_code(one), row.scored and 1 or 3)
      local kept = results.of({ id = "a" }, 1, one)
      t.expect({ kept.correct, kept.faster.eager, kept.faster.compile }, { false, false, false })
      t.expect(#results.counted { kept }, row.scored and 1 or 0)
      local main = results.tables({ { name = "p", results = { kept } } })[1].rows[1]
      t.expect({ main[3], main[4]:match("^%S+ %%") }, { row.scored and "1" or "0", "0.0 %" })
      met = met + 1
    end
  end
  t.is_true(met > 30, "too few reasons were met")
end

return spec
