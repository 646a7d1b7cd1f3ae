-- Which format of tool calls a model learns better: the same short supervised start on the same dialogues in "hermes"
-- (JSON, everything escaped) and in "xml" (raw values), then the agent loop on tasks that no dialogue shares a
-- combination of operators with. One run on one card, some two minutes:
--
--   ./khost recipes/teacher.lua --preset h200-tools --output pack.jsonl
--   ./khost tests/manual/long/call_formats.lua pack.jsonl MODEL_FOLDER report.json
--
-- Printed for each format: tokens of a dialogue, the share of well-formed calls, use by tool, and the share of episodes
-- whose files are right; then the difference, paired over tasks. MODEL_FOLDER "toy" is a toy with random weights.

local args = require "lib.args"
local client = require "judge.client"
local config = require "khost.config"
local corpus = require "policies.corpus"
local dialogues = require "training.dialogues"
local episode = require "agent.episode"
local formats = require "chat.formats"
local fs = require "khost.fs"
local json = require "khost.json"
local lessons = require "training.lessons"
local local_policy = require "policies.local"
local log = require "khost.log"
local metrics = require "evaluation.metrics"
local paired = require "evaluation.paired"
local random = require "lib.random"
local sched = require "khost.sched"
local toy = require "training.toy"
local trainer = require "khost.trainer"
local verdicts = require "judge.verdict"
local watch = require "training.watch"

local ABOUT = { name = "call_formats.lua", summary = "hermes against xml after the same supervised start" }
local FORMATS = { "hermes", "xml" }
local OPTIONS = {
  { name = "pack", required = true, help = "dialogues that recipes/teacher.lua made" },
  { name = "model", required = true, help = "a Hugging Face folder of a model that speaks ChatML, or toy" },
  { name = "report", required = true, help = "the JSON file to write" },
  { name = "--preset", kind = "text", default = "h200-tools", help = "target, device, tasks, limits of an episode" },
  { name = "--set", kind = "list", help = "override a key of the preset" },
  { name = "--steps", kind = "number", default = 40, help = "supervised steps" },
  { name = "--batch", kind = "number", default = 16, help = "dialogues a step" },
  { name = "--tasks", kind = "number", default = 16, help = "tasks that are played" },
  { name = "--samples", kind = "number", default = 2, help = "episodes a task" },
  { name = "--seed", kind = "number", default = 1, help = "of every draw" },
}

-- Tasks of the validation set whose combination of operators no dialogue has.
local function tasks_of(c, list, count, seed)
  local stream, taken, tasks = random.stream(seed .. " call formats"), {}, {}
  for _, one in ipairs(list) do
    taken[lessons.combination(one.task.chain)] = true
  end
  while #tasks < count do
    local task = corpus.task(stream, "validation", { families = c.tasks.families, length = c.tasks.length,
      shapes = c.tasks.small_shapes })
    local key = lessons.combination(task.chain)
    if not taken[key] then
      taken[key] = true
      task.id, task.timed = ("format-%03d"):format(#tasks + 1), false
      tasks[#tasks + 1] = task
    end
    sched.sleep(0)
  end
  return tasks
end

local function open_actor(c, folder, seed)
  local machine = c.machine
  return assert(trainer.open { model = folder, seed = seed, device = machine.device, dtype = machine.dtype,
    threads = machine.threads > 0 and machine.threads or nil, slots = c.model.slots, positions = c.model.tokens,
    recompute = c.model.recompute, memory_share = c.model.memory_share })
end

-- The next `count` episodes of an order that begins anew at its end.
local function portion(episodes, from, count)
  local picked = {}
  for offset = 0, count - 1 do
    picked[#picked + 1] = episodes[(from + offset) % #episodes + 1]
  end
  return picked
end

-- The supervised start of one format: the same dialogues in the same order.
local function supervise(actor, format, list, c, options)
  local begin = sched.now()
  local episodes, left_out = dialogues.episodes(format.open(actor:tokenizer()), format, list, {
    target = c.machine.target, tokens = c.model.tokens, answer_tokens = c.supervised.answer_tokens })
  local tokens, learnt, loss = 0, 0, nil
  for _, e in ipairs(episodes) do
    tokens = tokens + #e.tokens
    for _, bit in ipairs(e.mask) do
      learnt = learnt + bit
    end
  end
  local order = random.stream(options.seed .. " order"):shuffled(episodes)
  local objective = trainer.rft { reduce = "token-mean" }
  for step = 1, options.steps do
    local batch = trainer.pack(portion(order, (step - 1) * options.batch, options.batch),
      { tokens = c.ppo.pack_tokens })
    loss = assert(actor:update(batch, objective, { lr = c.supervised.lr, max_norm = 1,
      warmup = c.supervised.warmup })).loss
  end
  return { dialogues = #episodes, left_out = left_out, tokens = tokens / #episodes, learnt = learnt / #episodes,
    loss = loss, fit_s = sched.now() - begin }
end

local function play(actor, format, tasks, c, judge, options)
  local begin, jobs = sched.now(), {}
  for _, task in ipairs(tasks) do
    for _ = 1, options.samples do
      jobs[#jobs + 1] = task
    end
  end
  local policy = local_policy.open(actor:policy(), format, { name = "model", temperature = c.ppo.temperature,
    tokens = c.model.tokens })
  local setting = { judge = judge, seed = options.seed, target = c.machine.target, limits = c.limits, policy = policy,
    stage = "call_formats", step = 0, turns = c.agentic.turns, answer_tokens = c.agentic.answer_tokens,
    observation_tokens = c.agentic.observation_tokens, measure = false, reuse = true, pick = "final" }
  local played = sched.map(jobs, function(task, index)
    return episode.play_until_counted(setting, task, index)
  end, { limit = c.machine.episodes, on_failure = "raise" })
  local seen, values, endings, turns = {}, {}, {}, 0
  for index, e in ipairs(played) do
    seen[index], turns = e.verdict, turns + e.turn_count
    endings[e.status] = (endings[e.status] or 0) + 1
    values[#values + 1] = verdicts.counts(e.verdict) and { task = e.task, value = verdicts.passed(e.verdict) and 1 or 0 }
      or nil
  end
  local called = watch.calls(played)
  return { episodes = #played, pass = (metrics.pass_rate(seen)), calls = called.calls, well_formed = called.well_formed,
    tools = called.tools, tools_used = called.tools_used, turns = turns / #played, endings = endings,
    play_s = sched.now() - begin }, values
end

local function say(name, learnt, seen)
  log.print(("%-6s  %.0f tokens a dialogue, %.0f learnt, loss %.3f, fitted in %.1f s"):format(name, learnt.tokens,
    learnt.learnt, learnt.loss, learnt.fit_s))
  log.print(("%-6s  calls well-formed %.3f of %d, right files %.3f of %d episodes, %.1f turns, played in %.1f s"):format(
    "", seen.well_formed or 0, seen.calls, seen.pass, seen.episodes, seen.turns, seen.play_s))
  log.print(("%-6s  %s"):format("", watch.tools_text(seen.tools)))
end

--- The measurement with a judge that the caller opened.
---@async
---@param options table   of OPTIONS
---@param c table         merged configuration
---@param judge table     judge.client
---@return table report
local function measure(options, c, judge)
  local list, head = dialogues.read(options.pack, c.machine.target)
  local tasks = tasks_of(c, list, options.tasks, options.seed)
  local scratch = ("%s.%s"):format(options.report, "work")
  local folder = options.model
  if folder == "toy" then
    folder = scratch .. "/toy"
    toy.write(folder, toy.texts(c), { width = c.toy.width, layers = c.toy.layers, vocabulary = c.toy.vocabulary,
      positions = c.model.tokens, seed = options.seed })
  end
  local actor, report, values = open_actor(c, folder, options.seed), { pack = head.hash, seed = options.seed,
    steps = options.steps, batch = options.batch, formats = {} }, {}
  assert(actor:save(scratch .. "/start", nil, { optimizer = false }))
  for _, name in ipairs(FORMATS) do
    local format = formats.learnt(name)
    assert(actor:load(scratch .. "/start", { optimizer = false }))
    local learnt = supervise(actor, format, list, c, options)
    local seen
    seen, values[name] = play(actor, format, tasks, c, judge, options)
    say(name, learnt, seen)
    report.formats[name] = { start = learnt, loop = seen }
  end
  actor:close()
  fs.remove_tree(scratch)
  local difference = paired.difference(values.hermes, values.xml, random.stream(options.seed .. " difference"))
  if difference then
    report.difference = difference
    log.print(("right files, xml minus hermes: %+.3f [%+.3f, %+.3f], 95 %% of a paired bootstrap over %d tasks"):format(
      difference.mean, difference.low, difference.high, difference.tasks))
  end
  assert(fs.write(options.report, json.encode(report, true) .. "\n"))
  return report
end

local function run(list)
  local options = args.parse(OPTIONS, list, ABOUT)
  local loaded, message = config.load { preset = options.preset, set = options.set }
  if not loaded then
    args.misuse(message)
  end
  local c = config.plain(loaded)
  if options.model == "toy" and not c.toy then
    args.misuse("a toy has its shape from [toy] of a preset: --preset smoke-tools")
  end
  local judge, unavailable = client.open(c)
  if not judge then
    args.misuse(unavailable)
  end
  local ok, problem = pcall(measure, options, c, judge)
  judge:close()
  if not ok then
    error(problem, 0)
  end
  return 0
end

return { name = ABOUT.name, summary = ABOUT.summary, options = OPTIONS, run = run, measure = measure }
