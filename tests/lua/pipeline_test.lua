-- run.reward, judge.client, training.validate, training.ppo and run.plan: the parts of a run.
local config = require "khost.config"
local fs = require "khost.fs"
local client = require "judge.client"
local plan = require "run.plan"
local ppo = require "training.ppo"
local sampler = require "curriculum.sampler"
local reward = require "run.reward"
local store = require "khost.store"
local t = require "tests.lua.harness"
local update = require "training.update"
local validate = require "training.validate"

local spec = {}

local function fresh_store(name)
  fs.remove_tree("/tmp/khost-pipeline-spec-" .. name)
  return assert(store.create("/tmp/khost-pipeline-spec-" .. name))
end

function spec.every_preset_loads_and_can_be_planned()
  for _, name in ipairs { "smoke", "mini", "h200", "h200-trial", "paper", "h200-tools", "smoke-tools", "proof" } do
    local text = plan.text(config.plain(assert(config.load { preset = name })))
    t.is_true(text:find("agentic", 1, true) and text:find("disk: about", 1, true), text)
  end
end

-- A machine on which everything takes twice as long as planned must reach the last stage within the limit all the same.
function spec.a_stage_ends_early_by_the_pace_that_the_run_has_kept()
  local c = config.plain(assert(config.load { preset = "smoke" }))
  local planned, taken, behind = plan.seconds(c), {}, 0
  for place, name in ipairs(plan.ORDER) do
    if name == "single_turn" then
      for later = place + 1, #plan.ORDER do behind = behind + planned.stages[plan.ORDER[later]] end
      break
    end
    taken[name] = planned.stages[name]
  end
  local before = 0
  for _, seconds in pairs(taken) do before = before + seconds end
  c.plan.minutes = (before + behind + 30) / 60
  t.expect((plan.late(c, "single_turn", taken, 10, 15)), false)
  t.expect((plan.late(c, "single_turn", taken, 10, 25)), true)
  for name, seconds in pairs(taken) do taken[name] = 2 * seconds end
  c.plan.minutes = (2 * before + 2 * behind + 30) / 60
  local late, reckoned = plan.late(c, "single_turn", taken, 10, 15)
  t.expect({ late, math.floor(reckoned.pace * 100 + 0.5), math.floor(reckoned.planned_behind_s + 0.5) },
    { false, 200, math.floor(behind + 0.5) })
  c.plan.minutes = (2 * before + behind + 30) / 60
  t.expect((plan.late(c, "single_turn", taken, 10, 15)), true)
  c.plan.minutes = 0
  t.expect((plan.late(c, "single_turn", taken, 1e6, 15)), false)
end

function spec.an_artefact_is_its_paths_and_texts()
  local a = client.artefact { ["kernels/a.cpp"] = "x", ["kernels/b.cpp"] = "y" }
  t.expect(a, client.artefact { ["kernels/b.cpp"] = "y", ["kernels/a.cpp"] = "x" })
  t.is_true(a ~= client.artefact { ["kernels/a.cpp"] = "y", ["kernels/b.cpp"] = "x" })
end

function spec.nothing_handed_in_is_no_build()
  local verdict = client.nothing()
  t.expect({ verdict.status, verdict.reason, verdict.correct }, { "build_failed", "no_files", false })
  verdict = client.nothing { "no_path", "bad_path", "cut" }
  t.expect({ verdict.status, verdict.reason, verdict.detail }, { "build_failed", "unparsable", "no_path, bad_path, cut" })
end

local function scheme(path, body)
  assert(fs.write(path, ([[return { name = "spec", range = { -1, 3 }, score = function(episode) %s end }]]):format(body)))
end

function spec.a_reward_script_may_change_between_steps_and_may_break()
  local run = fresh_store("reward")
  local path = fs.root() .. "/scripts/rewards/pipeline_spec_scheme.lua"
  scheme(path, "return 1")
  local ok, problem = pcall(function()
    local r = assert(reward.open("rewards.pipeline_spec_scheme", run))
    local episode = { verdict = { status = "ok", correct = true } }
    local first = r:at_step("spec", 1)
    t.expect((r:score(episode, 1)), 1)
    scheme(path, "return 2")
    local second = r:at_step("spec", 2)
    t.is_true(first ~= second)
    t.expect((r:score(episode, 2)), 2)
    assert(fs.write(path, "return { name = "))
    t.expect(r:at_step("spec", 3), second)
    t.expect((r:score(episode, 3)), 2)
    scheme(path, "return episode.no.such")
    r:at_step("spec", 4)
    local total, _, hash = r:score(episode, 4)
    t.expect({ total, hash }, { 2, second })
    local events = {}
    for _, event in run:each("events") do events[#events + 1] = event.event end
    t.expect(events, { "reward_changed", "reward_refused", "reward_changed", "reward_failed" })
    t.expect(run:count("scripts") >= 3, true)
  end)
  fs.remove_tree(path)
  run:close()
  if not ok then error(problem, 0) end
end

function spec.collapse_is_two_validations_below_the_base_or_entropy_thrice()
  local function point(step, r, entropy) return { step = step, validation_reward = r, entropy = entropy } end
  t.expect(validate.collapse({ point(1, 0.2, 0.1), point(2, -0.5, 0.1), point(3, 0.3, 0.1) }, 0), nil)
  t.expect(validate.collapse({ point(1, -0.2, 0.1), point(2, -0.5, 0.1) }, 0), 2)
  t.expect(validate.collapse({ point(1, 0.5, 0.1), point(2, 0.5, 0.31) }, 0), 2)
  t.expect(validate.chosen({ point(1, 0.5, 0.1), point(2, -1, 0.1), point(3, -1, 0.1), point(4, 1, 0.1) }, 0), 2)
end

function spec.the_actor_moves_by_groups_whose_rewards_differ()
  local function e(group, r) return { group = group, reward = r } end
  local flat, mixed, alone = { e(1, 1), e(1, 1) }, { e(2, -1), e(2, 1) }, { e(3, -1) }
  local chosen = update.telling { flat[1], flat[2], mixed[1], mixed[2], alone[1] }
  t.expect(#chosen, 3)
  t.is_true(chosen[1] == mixed[1] and chosen[2] == mixed[2] and chosen[3] == alone[1])
  t.expect(#update.telling(flat), 0)
end

function spec.a_batch_of_voids_moves_nothing_and_ends_a_run_only_when_it_comes_again_and_again()
  local void = { task = "a", verdict = { status = "void", reason = "judge_lost", evidence = {} }, turn_count = 1 }
  t.expect(update.step({}, { void }, {}, 1), { scored = 0, flat_episodes = 0 })
  local facts = ppo.describe { void }
  t.expect({ facts.reward, facts.void }, { nil, 1 })
  t.expect(ppo.dead("s", 1, facts, 0), 1)
  t.expect(ppo.dead("s", 2, facts, 1), 2)
  t.raises("could be scored", ppo.dead, "s", 3, facts, 2)
  t.expect(ppo.dead("s", 3, { reward = 0 }, 2), 0)
end

function spec.validation_reports_the_reward_of_timed_tasks()
  local function e(status, r) return { verdict = { status = status }, reward = r, turn_count = 2 } end
  local tasks = { { id = "a", family = "rows" }, { id = "b", family = "bias" }, { id = "c", timed = true, family = "rows" },
    { id = "d", timed = true, family = "reduce" } }
  local seen = validate.figures(tasks, { e("ok", 1), e("wrong", -1), e("ok", 3), e("void") })
  t.expect(seen, { validation_pass = 2 / 3, validation_reward = 1, validation_reward_timed = 3, validation_turns = 2,
    validation_families = 1 / 2 })
  -- Of tasks that are only verified it is the figure of before: 2 x pass - 1.
  seen = validate.figures({ tasks[1], tasks[2] }, { e("ok", 1), e("wrong", -1) })
  t.expect({ seen.validation_pass, seen.validation_reward, seen.validation_reward_timed }, { 0.5, 0, nil })
  t.expect(validate.figures(tasks, {}).validation_reward, -1)
end

function spec.the_curriculum_hears_of_each_group()
  local curriculum = assert(sampler.named("flat", { { id = "a" }, { id = "b" } }, { range = { -1, 3 } }))
  ppo.tell(curriculum, { { id = "a" }, { id = "b" } }, { { group = 1, reward = 1 }, { group = 1, reward = 1 },
    { group = 2, reward = 1 }, { group = 2, reward = 3 }, { group = 2 } })
  t.expect(curriculum:state(), { rewards = { a = { 1, 1 }, b = { 1, 3 } }, flat = { a = 1, b = 0 } })
end

return spec
