-- The whole pipeline with an agent that calls tools, every stage, on target cpu with real workspaces, a toy model and a
-- judge that looks at hashes. The model's weights are random, so once the base model was looked at whatever it says
-- counts as a call: a file, its verification or a call that no tool takes.
local args = require "lib.args"
local compose = require "synthesis.compose"
local experts = require "policies.experts"
local formats = require "chat.formats"
local fs = require "khost.fs"
local hash_judge = require "tests.lua.hash_judge"
local pipeline = require "run.pipeline"
local sched = require "khost.sched"
local store = require "khost.store"
local t = require "tests.lua.harness"

local STAGES = { "synthesize", "filter", "base", "supervised", "single_turn", "collect", "rft", "value", "agentic",
  "evaluate", "report" }
local PATH = "kernels/k.cpp"
local SETTINGS = { "machine.threads=2", "machine.episodes=4", "tasks.eager_ms=[0.0, 1000.0]", "tasks.similarity=1.1",
  "toy.width=32", "toy.layers=1", "toy.vocabulary=768", "dialogues.count=6", "dialogues.tasks=3", "dialogues.timed=1",
  "supervised.steps=2", "supervised.tasks=3", "supervised.batch=4", "supervised.look_from=1",
  "supervised.answer_tokens=2000", "dialogues.turns=6", "supervised.band=[0.99, 1.0]", "tasks.drill=2", "tasks.validation=2",
  "tasks.held_out=2", "single_turn.answer_tokens=30", "collect.answer_tokens=30", "agentic.answer_tokens=30",
  "evaluate.answer_tokens=30", "collect.turns=3", "agentic.turns=3", "evaluate.turns=2" }

local graphs, answers_are_calls = {}, false

-- The expert's answers are right; of other texts the hash decides.
local function is_right(body)
  local graph, code = graphs[body.task.source], (body.files[PATH] or ""):gsub("\n$", "")
  for _, variant in ipairs(experts.of("cpu").ORDER) do
    local answer = graph and experts.of("cpu").answer(graph, { variant = variant })
    if answer and answer.files[PATH]:gsub("\n$", "") == code then return true end
  end
  return code ~= "" and tonumber(fs.sha256(code):sub(1, 2), 16) % 3 > 0 and not code:find("KHOST_EXPORT", 1, true)
end

local function verdict_of(body)
  return hash_judge.verdict(body, is_right(body), tonumber(fs.sha256(body.files[PATH] or ""):sub(1, 4), 16))
end

local function fake_judge()
  return hash_judge.fake("cpu", graphs, verdict_of)
end

-- What random weights say, as a call.
local function call_of(text)
  local number = tonumber(fs.sha256(text):sub(1, 2), 16) % 8
  if number == 0 then
    return { name = "Bash", arguments = { cmd = "ls" } }
  elseif number < 3 then
    return { name = "Bash", arguments = { command = "python3 -m utils.verification" } }
  end
  return { name = "Write", arguments = { file_path = "/workspace/" .. PATH, content = text } }
end

local function with_fakes(fn)
  local task, format = compose.task, formats.learnt "xml"
  local action = format.action
  format.action = function(text, how)
    local meant = action(text, how)
    if answers_are_calls and meant.kind ~= "act" and #text > 0 then
      return { kind = "act", calls = { call_of(text) }, signature = text }
    end
    return meant
  end
  compose.task = function(...)
    local made = task(...)
    graphs[made.source] = made.graph
    return made
  end
  local ok, message = pcall(fn)
  compose.task, format.action = task, action
  if not ok then error(message, 0) end
end

local function run_all(root, more)
  local list = { "--preset", "smoke-tools", "--seed", "2", "--set", "machine.runs=" .. root .. "/runs" }
  for _, setting in ipairs(SETTINGS) do
    list[#list + 1] = "--set"
    list[#list + 1] = setting
  end
  for _, word in ipairs(more or {}) do list[#list + 1] = word end
  local judging, counts = fake_judge()
  local run = pipeline.open(args.parse(pipeline.OPTIONS, list, { name = "tools pipeline", summary = "" }),
    "tools pipeline", judging)
  local folder, ok, message = run.folder, nil, nil
  for _, name in ipairs(STAGES) do
    answers_are_calls = name ~= "synthesize" and name ~= "filter" and name ~= "base"
    ok, message = pcall(run.stage, run, require("recipes.stages." .. name))
    if not ok then break end
  end
  run:close(ok and "done" or "failed")
  t.is_true(ok, message)
  return folder, counts
end

local function hashes(folder)
  local list = {}
  for _, name in ipairs { "supervised/actor", "single_turn/actor", "rft/actor", "value/critic", "agentic/actor" } do
    list[name] = fs.sha256(assert(fs.read(("%s/checkpoints/%s/model.safetensors"):format(folder, name))))
  end
  return list
end

local function in_folder(fn)
  local root = "/tmp/khost-tools-pipeline-" .. fs.sha256(tostring(sched.wall_clock())):sub(1, 12)
  local ok, message = pcall(with_fakes, function() fn(root) end)
  fs.remove_tree(root)
  if not ok then error(message, 0) end
end

-- The turns of all episodes of a stage, and what is looked for in them.
local function seen_in(run, stage)
  local seen = { episodes = 0, calls = 0, verified = 0, refused = 0 }
  for _, row in ipairs(assert(run:list("trajectories", { where = { stage = stage } }))) do
    local whole = run:get("trajectories", row.id)
    seen.episodes = seen.episodes + 1
    for _, turn in ipairs(whole.turns) do
      seen.calls = seen.calls + #(turn.calls or {})
      seen.verified = seen.verified + (turn.verified ~= nil and 1 or 0)
      seen.refused = seen.refused + (turn.status == "invalid" and 1 or 0)
    end
    t.expect(#whole.tokens, #whole.mask)
  end
  return seen
end

local spec = {}

function spec.every_stage_plays_the_tools_and_the_weights_can_be_made_again_from_the_store()
  in_folder(function(root)
    local folder = run_all(root)
    local run = assert(store.open(folder, { read_only = true }))
    t.is_true(run:stage("supervised").result.episodes > 6)
    t.is_true(run:stage("supervised").result.well_formed ~= nil)
    local collected, agentic = seen_in(run, "collect"), seen_in(run, "agentic")
    t.expect({ collected.episodes, agentic.episodes }, { 8, 12 })
    for _, seen in ipairs { collected, agentic } do
      t.is_true(seen.calls > seen.episodes and seen.verified > 0 and seen.refused > 0)
    end
    t.is_true(run:query("SELECT count(*) AS n FROM metrics WHERE name = 'well_formed'")[1].n >= 2)
    t.is_true(run:query("SELECT count(*) AS n FROM metrics WHERE name = 'tool_Write'")[1].n >= 2)
    local titles = {}
    for _, tab in ipairs(run:stage("evaluate").result.tables) do titles[tab.title] = #tab.rows end
    t.expect(titles["Calls of tools, agent loop"], 2)
    run:close()
    -- The store alone is enough: nothing is played or judged, and the weights are the same, bit by bit.
    local before = hashes(folder)
    for _, name in ipairs { "supervised", "single_turn", "rft", "value", "agentic" } do
      fs.remove_tree(folder .. "/checkpoints/" .. name)
    end
    local again, counts = run_all(root, { "--resume" })
    t.expect({ again, counts.evaluate, counts.verify, counts.profile }, { folder, nil, nil, nil })
    t.expect(hashes(again), before)
  end)
end

return spec
