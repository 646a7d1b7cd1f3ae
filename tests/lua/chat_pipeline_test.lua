-- The whole pipeline with a model that speaks ChatML on target cuda, every stage, with a judge that needs no card: the
-- hash of a kernel says whether it is right and how fast. The model's weights are random, so once the base model was
-- looked at whatever it says counts as a file; what a real answer means, lessons_test asks.
local args = require "lib.args"
local compose = require "synthesis.compose"
local corpus = require "policies.corpus"
local experts = require "policies.experts"
local files = require "chat.files"
local fs = require "khost.fs"
local hash_judge = require "tests.lua.hash_judge"
local pipeline = require "run.pipeline"
local ppo = require "training.ppo"
local random = require "lib.random"
local sched = require "khost.sched"
local store = require "khost.store"
local t = require "tests.lua.harness"
local toy = require "training.toy"

local STAGES = { "synthesize", "filter", "base", "supervised", "single_turn", "collect", "rft", "value", "agentic",
  "evaluate", "report" }

-- Long enough for what a toy model says, short enough for a test.
local SETTINGS = { "machine.target=cuda", "model.path=ROOT/model", "machine.threads=2", "model.tokens=1100", "model.checkpoint=weights",
  "prompt.examples=0", "prompt.variants=1", "tasks.length=[1, 2]", "tasks.train=2", "tasks.drill=2", "tasks.test=2",
  "tasks.eager_ms=[0.0, 1000.0]", "tasks.similarity=1.1", "supervised.steps=4", "supervised.tasks=3",
  "supervised.least=0", "supervised.batch=4", "supervised.lr=1e-3", "supervised.look_from=2",
  "supervised.look_every=1", "supervised.dialogues=1.0", "supervised.band=[0.9, 1.0]", "supervised.answer_tokens=600",
  "single_turn.answer_tokens=40", "collect.answer_tokens=40", "agentic.answer_tokens=40",
  "evaluate.answer_tokens=40", "evaluate.samples_test=1", "tasks.families=[\"chain\", \"reduce\"]" }

local answers_are_taken = false
-- The shipped model on target cpu.
local TINY = { "machine.target=cpu", "machine.threads=2", "model.checkpoint=weights", "tasks.length=[1, 2]",
  "tasks.drill=2", "tasks.eager_ms=[0.0, 1000.0]", "tasks.similarity=1.1", "single_turn.answer_tokens=200" }

local graphs = {}  -- by source: what the tracer would find

local function verdict_of(body)
  local text = {}
  for path, file in pairs(body.files) do
    text[#text + 1] = path .. file
  end
  table.sort(text)
  local number = tonumber(fs.sha256(table.concat(text)):sub(1, 4), 16)
  local right = (body.files["kernels/k.cu"] or body.files["kernels/k.cpp"]) ~= nil and number % 4 > 0
  return hash_judge.verdict(body, right, number)
end

local function fake_judge(target)
  return hash_judge.fake(target, graphs, verdict_of)
end

-- Stages see graphs without a tracer, and answers without a block as files.
local function with_fakes(fn)
  local task, format = compose.task, files.format
  files.format = function(...)
    local made = format(...)
    local action = made.action
    made.action = function(text, how)
      if answers_are_taken and #text > 0 then
        return { kind = "act", files = { ["kernels/k.cu"] = text }, signature = text }
      end
      return action(text, how)
    end
    return made
  end
  compose.task = function(...)
    local made = task(...)
    graphs[made.source] = made.graph
    return made
  end
  local ok, message = pcall(fn)
  compose.task, files.format = task, format
  if not ok then error(message, 0) end
end

-- What the tokenizer learns from: questions, and the expert's answers to tasks of no other set.
local function texts()
  local stream, list = random.stream "chat pipeline", {}
  for _ = 1, 24 do
    local task = corpus.task(stream, "base", { families = { "chain", "reduce" }, length = { 1, 2 },
      shapes = { { 128, 1024 } } })
    for _, variant in ipairs(experts.of("cuda").ORDER) do
      list[#list + 1] = files.block(experts.of("cuda").answer(task.graph, { variant = variant }).files["kernels/k.cu"],
        "cuda")
    end
    list[#list + 1] = files.question(task.source)
  end
  return list
end

local function options_of(root, settings, more)
  local list = { "--preset", "mini", "--seed", "2", "--set", "machine.runs=" .. root .. "/runs" }
  for _, setting in ipairs(settings) do
    list[#list + 1] = "--set"
    list[#list + 1] = setting:gsub("ROOT", root)
  end
  for _, word in ipairs(more or {}) do
    list[#list + 1] = word
  end
  return args.parse(pipeline.OPTIONS, list, { name = "chat pipeline", summary = "" })
end

-- All stages up to one, or until one raises.
local function run_all(root, settings, more, last)
  local judging, counts = fake_judge(settings[1]:match("target=(%w+)"))
  local run = pipeline.open(options_of(root, settings, more), "chat pipeline", judging)
  local folder, ok, message = run.folder, nil, nil
  for _, name in ipairs(STAGES) do
    answers_are_taken = name ~= "synthesize" and name ~= "filter" and name ~= "base"
    ok, message = pcall(run.stage, run, require("recipes.stages." .. name))
    if not ok or name == last then break end
  end
  run:close(ok and "done" or "failed")
  return folder, counts, message
end

local function hash_of(folder, name)
  return fs.sha256(assert(fs.read(("%s/checkpoints/%s/model.safetensors"):format(folder, name))))
end

local function hashes(folder)
  local list = {}
  for _, name in ipairs { "supervised/actor", "single_turn/actor", "rft/actor", "value/critic", "agentic/actor" } do
    list[name] = hash_of(folder, name)
  end
  return list
end

local function in_folder(fn)
  local root = "/tmp/khost-chat-pipeline-" .. fs.sha256(tostring(sched.wall_clock())):sub(1, 12)
  local ok, message = pcall(with_fakes, function() fn(root) end)
  fs.remove_tree(root)
  if not ok then error(message, 0) end
end

local spec = {}

function spec.every_stage_runs_on_target_cuda_with_a_chat_model_and_its_weights_can_be_made_again_from_the_store()
  in_folder(function(root)
    toy.write(root .. "/model", texts())
    local folder, _, problem = run_all(root, SETTINGS)
    t.is_true(type(problem) ~= "string", problem)
    local run = assert(store.open(folder, { read_only = true }))
    local supervised = run:stage("supervised").result
    t.is_true(supervised.steps >= 2, "supervised steps: " .. tostring(supervised.steps))
    t.expect(run:stage("base").result.validation_pass, 0)
    t.is_true(run:stage("rft").result.kept > 0, "no trajectory was kept for fine-tuning")
    t.is_true(#run:stage("evaluate").result.differences >= 10)
    for _, row in ipairs(assert(run:list("trajectories", { where = { stage = "collect" } }))) do
      local verdict = run:get("trajectories", row.id).verdict
      for path in pairs(verdict.files or {}) do t.is_true(not path:match("%.cpp$"), path) end
    end
    t.is_true(run:query("SELECT count(*) AS n FROM metrics WHERE name = 'nats_answer'")[1].n > 0)
    run:close()
    -- The store alone is enough: no answer is drawn and no verdict asked for, and the weights are the same, bit by bit.
    local before = hashes(folder)
    fs.remove_tree(folder .. "/checkpoints")
    local again, counts, failure = run_all(root, SETTINGS, { "--resume" })
    t.is_true(type(failure) ~= "string", failure)
    t.expect({ again, counts.evaluate, counts.verify }, { folder, nil, nil })
    t.expect(hashes(again), before)
  end)
end

function spec.a_run_that_ended_within_a_stage_makes_its_updates_again_and_reaches_the_same_weights()
  in_folder(function(root)
    local whole, first = run_all(root .. "/whole", TINY, nil, "single_turn")
    local keep = ppo.keep_metrics
    ppo.keep_metrics = function(run, stage, step, ...)
      if stage == "single_turn" and step == 2 then error("ended here", 0) end
      return keep(run, stage, step, ...)
    end
    local ok, folder, _, problem = pcall(run_all, root .. "/ended", TINY)
    ppo.keep_metrics = keep
    t.expect({ ok, problem }, { true, "ended here" })
    local _, more = run_all(root .. "/ended", TINY, { "--resume" }, "single_turn")
    t.expect(hash_of(folder, "single_turn/actor"), hash_of(whole, "single_turn/actor"))
    -- What was judged before the end is not judged again.
    t.is_true(first.evaluate > 4 and (more.evaluate or 0) < first.evaluate / 2,
      ("%d verdicts, then %d"):format(first.evaluate, more.evaluate or 0))
  end)
end

function spec.episodes_that_begin_ahead_of_an_update_are_those_of_a_replay_too()
  in_folder(function(root)
    local settings = { unpack(TINY) }
    for _, setting in ipairs { "ppo.ahead=2", "ppo.old_logprobs=sampler", "single_turn.steps=3", "single_turn.tasks=3" } do
      settings[#settings + 1] = setting
    end
    local folder, first, problem = run_all(root, settings, nil, "single_turn")
    t.is_true(type(problem) ~= "string", problem)
    local run = assert(store.open(folder, { read_only = true }))
    local begun = {}
    for _, row in ipairs(run:query("SELECT step, value FROM metrics WHERE name = 'ahead' ORDER BY step")) do
      begun[row.step] = row.value
    end
    local group = run:info().config.single_turn.group
    t.expect(begun, { 0, 2 * group, 2 * group })
    t.expect(#run:list("trajectories", { where = { stage = "single_turn" } }), 9 * group)
    run:close()
    local before = hash_of(folder, "single_turn/actor")
    fs.remove_tree(folder .. "/checkpoints")
    local _, counts, failure = run_all(root, settings, { "--resume" }, "single_turn")
    t.is_true(type(failure) ~= "string", failure)
    t.is_true(first.evaluate > 0)
    t.expect({ counts.evaluate, hash_of(folder, "single_turn/actor") }, { nil, before })
  end)
end

function spec.the_control_of_ppo_plays_as_many_episodes_and_is_fine_tuned_once_more()
  in_folder(function(root)
    local settings = { unpack(TINY) }
    for _, setting in ipairs { "agentic.method=rft", "agentic.steps=2", "agentic.tasks=3", "agentic.group=2",
      "agentic.timed_share=0.5", "value.episodes=4" } do
      settings[#settings + 1] = setting
    end
    local folder, _, problem = run_all(root, settings, nil, "agentic")
    t.is_true(type(problem) ~= "string", problem)
    local run = assert(store.open(folder, { read_only = true }))
    local result, played, timed = run:stage("agentic").result, run:list("trajectories", { where = { stage = "agentic" } }), 0
    local tasks = {}
    for _, task in ipairs(run:list("tasks")) do
      tasks[task.id] = task
    end
    for _, row in ipairs(played) do
      timed = timed + (tasks[row.task].timed and 1 or 0)
    end
    t.expect({ #played, timed, result.kept + result.dropped }, { 12, 8, 16 })  -- 2 of 3 tasks; the critic's 4 beside them
    run:close()
    t.is_true(result.kept > 0 and hash_of(folder, "agentic/actor") ~= hash_of(folder, "rft/actor"))
    local before = hash_of(folder, "agentic/actor")
    fs.remove_tree(folder .. "/checkpoints")
    local _, counts, failure = run_all(root, settings, { "--resume" }, "agentic")
    t.is_true(type(failure) ~= "string", failure)
    t.expect({ counts.evaluate, counts.verify, hash_of(folder, "agentic/actor") }, { nil, nil, before })
  end)
end

function spec.ppo_ends_early_where_the_stages_behind_it_would_not_fit_into_the_minutes()
  in_folder(function(root)
    local settings = { unpack(TINY) }
    settings[#settings + 1] = "plan.minutes=0.01"
    local folder, _, problem = run_all(root, settings, nil, "single_turn")
    t.is_true(type(problem) ~= "string", problem)
    local run = assert(store.open(folder, { read_only = true }))
    t.expect(#run:stage("single_turn").result.curve, 1)
    t.is_true(run:get("state", "plan").seconds > 10)
    run:close()
  end)
end

return spec
