-- lib.reward, judge.client, training.validate, training.ppo and lib.plan: the parts of a run.
local config = require "khost.config"
local fs = require "khost.fs"
local client = require "judge.client"
local plan = require "lib.plan"
local ppo = require "training.ppo"
local sampler = require "curriculum.sampler"
local reward = require "lib.reward"
local store = require "khost.store"
local t = require "tests.lua.harness"
local validate = require "training.validate"

local spec = {}

local function fresh_store(name)
  fs.remove_tree("/tmp/khost-pipeline-spec-" .. name)
  return assert(store.create("/tmp/khost-pipeline-spec-" .. name))
end

function spec.every_preset_loads_and_can_be_planned()
  for _, name in ipairs { "smoke", "h100", "paper" } do
    local text = plan.text(config.plain(assert(config.load { preset = name })))
    t.is_true(text:find("agentic", 1, true) and text:find("disk: about", 1, true), text)
  end
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

function spec.the_curriculum_hears_of_each_group()
  local curriculum = assert(sampler.named("flat", { { id = "a" }, { id = "b" } }, { range = { -1, 3 } }))
  ppo.tell(curriculum, { { id = "a" }, { id = "b" } }, { { group = 1, reward = 1 }, { group = 1, reward = 1 },
    { group = 2, reward = 1 }, { group = 2, reward = 3 }, { group = 2 } })
  t.expect(curriculum:state(), { rewards = { a = { 1, 1 }, b = { 1, 3 } }, flat = { a = 1, b = 0 } })
end

return spec
