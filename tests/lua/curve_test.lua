-- recipes/curve.lua: the learning curve of a small run that was made up for this test, and of what is none.
local curve = require "recipes.curve"
local fs = require "khost.fs"
local store = require "khost.store"
local t = require "tests.lua.harness"

local ROOT = "/tmp/khost-curve-spec"

local function empty_run()
  fs.remove_tree(ROOT)
  return assert(store.create(ROOT, { name = "curve", preset = "smoke", seed = 1 }))
end

local function answer(run, place, policy, step, task, reward)
  assert(run:append("trajectories", { stage = "evaluate", step = step, index = place, task = task, policy = policy,
    status = "final_answer", reward = reward, turn_count = 1, token_count = 1, turns = {} }))
end

-- Two validated stages and an evaluation; the step of the agent loop (31) and an episode without a reward do not count.
local function small_run()
  local run = empty_run()
  assert(run:metrics("base", 0, { validation_pass = 0.12 }))
  assert(run:metrics("supervised", 10, { validation_pass = 0.25, validation_turns = 1 }))
  for step = 1, 3 do
    assert(run:metrics("agentic", step, { pass_rate = step / 4 }))
  end
  assert(run:metrics("agentic", 3, { validation_pass = 0.5, validation_turns = 2.25 }))
  answer(run, 1, "expert <vector>", 10, "a", 1)
  answer(run, 1, "agentic", 30, "a", -1)
  answer(run, 2, "agentic", 30, "a", 1)
  answer(run, 3, "agentic", 30, "b", 1)
  answer(run, 4, "agentic", 30, "b", nil)
  answer(run, 1, "agentic", 33, "c", 2)
  answer(run, 1, "agentic", 31, "a", -1)
  return run
end

local function drawn(run)
  local folder = run:folder()
  run:close()
  t.expect(curve.run { folder, "--output", ROOT .. "/curve.svg" }, 0)
  return assert(fs.read(ROOT .. "/curve.svg"))
end

local function count(text, pattern)
  local _, n = text:gsub(pattern, "")
  return n
end

local spec = {}

function spec.every_validation_and_every_model_is_a_point_of_the_picture()
  local svg = drawn(small_run())
  for _, title in ipairs { "base: validation pass .12", "supervised, step 10: validation pass .25",
    "agentic, step 3: validation pass .50", "expert &lt;vector&gt;: reward +1.00 [+1.00, +1.00], 1 answers to 1 tasks",
    "agentic: reward +1.00 [" } do
    t.is_true(svg:find("<title>" .. title, 1, true), "no point says " .. title)
  end
  t.is_true(svg:find("4 answers to 3 tasks", 1, true), "the mean is of single answers with a reward")
  t.expect(count(svg, "<title>"), 5)
  t.is_true(svg:find("agent loop", 1, true) and svg:find("single answers", 1, true), "how each stage was validated")
  -- The line of the three training steps, that of the three validations, and two of the legend.
  t.expect(count(svg, "<polyline"), 4)
end

function spec.the_picture_stands_alone()
  local svg = drawn(small_run())
  t.expect(count(svg, "<script") + count(svg, "href") + count(svg, "url%("), 0)
  t.is_true(svg:find 'width="800"' and svg:find '<rect width="100%%" height="100%%" fill="#fff"/>', svg:sub(1, 300))
end

function spec.a_run_that_was_not_evaluated_says_so()
  local run = empty_run()
  assert(run:metrics("single_turn", 1, { pass_rate = 0.5 }))
  t.is_true(drawn(run):find("not evaluated", 1, true))
end

function spec.what_is_no_run_of_the_pipeline_is_refused_with_the_reason()
  t.raises("no run '/tmp/khost-no-such-run'", curve.run, { "/tmp/khost-no-such-run" })
  t.raises("expected a run's folder", curve.run, { "/tmp/khost-no-such-run" })
  local run = empty_run()
  local folder = run:folder()
  run:close()
  t.raises("has neither pass_rate nor validation_pass of a stage supervised, single_turn, agentic", curve.run,
    { folder })
end

return spec
