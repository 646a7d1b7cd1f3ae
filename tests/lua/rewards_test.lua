-- khost.rewards, and the schemes in scripts/rewards.
local clipped = require "rewards.clipped_speedup"
local correct = require "rewards.correct"
local correct_first = require "rewards.correct_first"
local milestone = require "rewards.milestone"
local rewards = require "khost.rewards"
local speedup = require "rewards.speedup"
local terms = require "rewards.terms"
local t = require "tests.lua.harness"

local function episode(fields)
  local verdict = { status = "ok", correct = true, times = { candidate_s = 1, eager_s = 3, compile_s = 2 },
    speedup = { eager = 3, compile = 2 }, faster = { eager = true, compile = true }, speed = "measured",
    evidence = { tolerance = "calibrated" } }
  for key, value in pairs(fields or {}) do verdict[key] = value end
  return { verdict = verdict }
end

local WRONG = episode { status = "wrong", correct = false }
local VOID = episode { status = "void", correct = false, reason = "judge_lost" }

local spec = {}

function spec.milestone_gives_the_papers_four_rewards()
  local schedule = rewards.schedule(milestone)
  local function reward(faster)
    return (schedule:score(episode { faster = faster }, 0))
  end
  t.expect(schedule:score(WRONG, 0), -1)
  t.expect(reward { eager = false, compile = false }, 1)
  t.expect(reward { eager = true, compile = false }, 2)
  t.expect(reward { eager = true, compile = true }, 3)
  -- Faster than torch.compile alone is no milestone.
  t.expect(reward { eager = false, compile = true }, 1)
  t.expect(schedule:score(episode { status = "suspect" }, 0), -1)
end

-- What each scheme pays for one and the same verdict, and nil where it must not pay.
local function paid(subject)
  local totals = {}
  for name, result in pairs(rewards.compare(subject, { milestone, speedup, clipped, correct })) do
    totals[name] = result.total
  end
  return totals
end

function spec.one_verdict_is_paid_by_every_scheme_in_its_own_way()
  local slow = { eager = false, compile = false }
  t.expect(paid(episode()), { milestone = 3, speedup = 2, clipped_speedup = 2, correct = 1 })
  t.expect(paid(episode { speedup = { eager = 12, compile = 8 } }),
    { milestone = 3, speedup = 8, clipped_speedup = 3, correct = 1 })
  t.expect(paid(episode { speedup = { eager = 0.5, compile = 0.25 }, faster = slow }),
    { milestone = 1, speedup = 0.25, clipped_speedup = 0.25, correct = 1 })
  t.expect(paid(WRONG), { milestone = -1, speedup = -1, clipped_speedup = -1, correct = -1 })
  t.expect(paid(VOID), {})
  -- A speed that could not be resolved is no number; correctness is known all the same.
  t.expect(paid(episode { speed = "unresolved", speed_reason = "short_baseline" }), { milestone = 1, correct = 1 })
  t.expect(paid(episode { evidence = { tolerance = "strict" } }), {})
end

function spec.a_schedule_by_step_pays_for_correctness_first()
  local schedule = rewards.schedule(correct_first)
  t.expect({ (schedule:score(episode(), 0)), (schedule:score(episode(), 19)), (schedule:score(episode(), 20)) },
    { 1, 1, 3 })
  t.expect({ schedule:scheme(19), schedule:scheme(20) }, { "correct", "milestone" })
end

function spec.a_verdict_that_failed_while_it_was_timed_is_paid_as_a_failure()
  for _, status in ipairs { "wrong", "crash", "timeout", "oom", "violation", "suspect" } do
    -- Whatever else stands in it: what `correct` and `faster` say was decided before.
    local caught = episode { status = status, stage = "time", correct = true }
    t.expect(rewards.schedule(milestone):score(caught, 0), -1)
    t.expect(rewards.schedule(speedup):score(caught, 0), -1)
  end
end

function spec.unresolved_speed_is_correct_and_not_faster()
  local unresolved = episode { speed = "unresolved", speed_reason = "short_baseline" }
  t.expect(rewards.schedule(milestone):score(unresolved, 0), 1)
  t.expect(select(3, rewards.schedule(speedup):score(unresolved, 0)), "void")
end

function spec.a_tolerance_for_published_comparisons_pays_nothing()
  for _, status in ipairs { "ok", "wrong" } do
    local total, message, code = rewards.schedule(milestone):score(episode { status = status,
      evidence = { tolerance = "strict" } }, 0)
    t.expect({ total, code }, { nil, "void" })
    t.is_true(message:find("tolerance is strict; only calibrated pays a reward", 1, true), message)
  end
  t.expect(select(3, rewards.schedule(milestone):score(episode { evidence = {} }, 0)), "void")
  -- Nothing was compared yet.
  t.expect(rewards.schedule(milestone):score(episode { status = "build_failed", evidence = {} }, 0), -1)
end

function spec.a_void_verdict_voids_the_episode_and_is_counted()
  local schedule = rewards.schedule(milestone)
  local total, message, code = schedule:score(VOID, 0)
  t.expect(total, nil)
  t.expect(code, "void")
  t.is_true(message:find("judge_lost", 1, true))
  t.expect(select(3, schedule:score({}, 0)), "void")
  t.expect(schedule:counts().void, 2)
  t.expect(schedule:counts().scored, 0)
end

function spec.speedup_is_the_ratio_to_compile_or_minus_one()
  local schedule = rewards.schedule(speedup)
  t.expect(schedule:score(episode(), 0), 2)
  t.expect(schedule:score(WRONG, 0), -1)
  t.expect(select(3, schedule:score(episode { speedup = {}, times = {} }, 0)), "void")
end

function spec.a_scheme_that_raises_is_counted_with_its_line()
  local schedule = rewards.schedule { name = "broken", range = { -1, 1 }, score = function(e) return e.no.such end }
  local total, message, code = schedule:score({}, 0)
  t.expect(total, nil)
  t.expect(code, "raised")
  t.is_true(message:find("rewards_test.lua:", 1, true))
  t.expect(schedule:counts().raised, 1)
  t.is_true(schedule:counts().last_message:find("rewards_test.lua:", 1, true))
end

function spec.a_total_outside_the_range_or_of_another_type_is_no_score()
  local value = 7
  local schedule = rewards.schedule { name = "s", range = { -1, 3 }, score = function() return value end }
  t.expect(select(3, schedule:score({}, 0)), "range")
  value = 0 / 0
  t.expect(select(3, schedule:score({}, 0)), "range")
  value = "3"
  t.expect(select(3, schedule:score({}, 0)), "raised")
  value = 3
  t.expect(schedule:score({}, 0), 3)
end

function spec.weighted_terms_follow_their_curves()
  local bonus = rewards.term("bonus", function() return 10 end)
  local schedule = rewards.schedule({ { terms.correct, 1 }, { bonus, rewards.linear(1, 0, 10) } },
    { range = { -1, 11 } })
  local total, parts = schedule:score(episode(), 0)
  t.expect(total, 11)
  t.expect(parts, { correct = 1, bonus = 10 })
  t.expect(schedule:score(episode(), 10), 1)
  t.expect(schedule:weights(5), { correct = 1, bonus = 0.5 })
  t.expect(schedule:scheme(5), "terms")
end

function spec.schemes_change_at_their_step()
  local schedule = rewards.schedule { [0] = milestone, [20] = speedup }
  t.expect(schedule:scheme(19), "milestone")
  t.expect(schedule:scheme(20), "speedup")
  t.expect(schedule:score(episode(), 19), 3)
  t.expect(schedule:score(episode(), 20), 2)
end

function spec.compare_scores_side_by_side_without_counting()
  local result = rewards.compare(episode(), { milestone, speedup })
  t.expect(result.milestone.total, 3)
  t.expect(result.speedup.total, 2)
  t.expect(rewards.compare(VOID, { milestone }).milestone.code, "void")
end

function spec.curves()
  t.expect(rewards.constant(2):at(9), 2)
  t.expect(rewards.cosine(0, 1, 10):at(10), 1)
  t.expect(rewards.steps({ [0] = 1, [50] = 0.5 }):at(50), 0.5)
  t.raises("at least 1 step", rewards.linear, 0, 1, 0)
end

function spec.filter_names_a_reason_for_everything_it_drops()
  local kept, dropped = rewards.filter({ { r = 1 }, { r = -1 }, {} }, function(item)
    return item.r > 0, "negative"
  end)
  t.expect(#kept, 1)
  t.expect(dropped[1].reason, "negative")
  t.expect(dropped[2].reason, "rubric_failed")
  t.raises("without a reason", rewards.filter, { {} }, function() return false end)
end

function spec.wrong_schemes_raise_when_the_schedule_is_made()
  t.raises("needs a range", rewards.schedule, { name = "x", score = function() end })
  t.raises("unknown key 'scroe'", rewards.schedule, { name = "x", score = function() end, scroe = 1 })
  t.raises("twice", rewards.schedule, { { terms.correct, 1 }, { terms.correct, 1 } })
end

function spec.single_terms_read_a_verdict()
  t.expect(terms.builds.score(episode { status = "build_failed", correct = false }), 0)
  t.expect(terms.log_speedup.score(WRONG), 0)
  t.expect(terms.turns.score { verdict = episode().verdict, turns = { 1, 2, 3 } }, -2)
  t.expect(terms.correct.score(VOID), nil)
end

return spec
