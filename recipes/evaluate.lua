-- Runs policies, or takes finished solutions, over a suite and prints the paper's table 1 by level and overall, fast_p
-- and effort; every task stands in a CSV and a JSON file. Policies play under the agent loop, and the best state of a
-- trajectory counts.

local args = require "lib.args"
local beneath = require "lib.beneath"
local candidate = require "lib.candidate"
local episode = require "agent.episode"
local experts = require "policies.experts"
local formats = require "chat.formats"
local fs = require "khost.fs"
local hardware = require "evaluation.hardware"
local load = require "suites.load"
local log = require "khost.log"
local models = require "training.models"
local named = require "policies.named"
local pipeline = require "run.pipeline"
local progress = require "khost.progress"
local results = require "evaluation.results"
local sched = require "khost.sched"
local script = require "policies.script"
local tables = require "evaluation.table"
local tools = require "agent.tools"
local prices = require "policies.endpoint.usage"
local verdicts = require "judge.verdict"
local workspace = require "suites.workspace"

local OPTIONS = pipeline.with_run_options {
  { name = "--suite", kind = "text", required = true, help = "folder, .jsonl or .parquet; a KernelBench checkout too" },
  { name = "--level", kind = "list", help = "only tasks of this level; may be repeated" },
  { name = "--policy", kind = "list", help = "expert:VARIANT, local:DIR or endpoint:URL; may be repeated" },
  { name = "--model", kind = "text", help = "of an endpoint; the first that it lists when absent" },
  { name = "--format", kind = "text", help = "how a local model names calls, one of " .. formats.NAMES },
  { name = "--price", kind = "text",
    help = "of an endpoint: IN,OUT or IN,OUT,CACHED for a million tokens, or a JSON file; gives the cost of a task" },
  { name = "--minutes", kind = "number", default = 30, help = "of a trajectory of an endpoint" },
  { name = "--solutions", kind = "list",
    help = "folder of finished solutions: ID/ (workspace) or ID.py (single file)" },
  { name = "--samples", kind = "number", default = 1, help = "trajectories a task; the best counts" },
  { name = "--turns", kind = "number", default = 3, help = "of a trajectory" },
  { name = "--rules", kind = "text", help = "own, or mixed: torch operators beside own kernels (else judge.rules)" },
  { name = "--no-measure", kind = "flag", help = "verify only" },
}
local ABOUT = { name = "recipes/evaluate.lua", summary = "policies or finished solutions over a suite" }

local function load_suite(run, options)
  local levels = {}
  for index, text in ipairs(options.level) do
    levels[index] = tonumber(text) or args.misuse(("--level %s: a number expected"):format(text))
  end
  local suite, message = load.suite(options.suite, { levels = levels, target = run.config.machine.target })
  if not suite then
    args.misuse("--suite " .. message)
  end
  for _, task in ipairs(suite) do
    task.timed = not options.no_measure
  end
  if #options.policy == 0 then
    return suite
  end
  -- Policies see the traced graph.
  local traced = sched.map(suite, function(task)
    local graph, why = run.judging:trace(task)
    if not graph then
      log.warn("task_left_out", { task = task.id, message = why })
      return false
    end
    task.graph = graph
    return task
  end, { limit = 4, on_failure = "raise" })
  local list = {}
  for _, task in ipairs(traced) do
    list[#list + 1] = task or nil
  end
  return list
end

local function prices_of(text)
  if not text then
    return nil
  end
  local given, message = prices.parse_prices(text)
  return given or args.misuse("--price " .. message)
end

local function policy_of(run, spec, options)
  local kind, rest = spec:match("^(%w+):(.+)$")
  local target = run.config.machine.target
  if kind == "expert" and experts.has(target, rest) then
    return script.expert(rest, target)
  elseif kind == "local" then
    run.models = {}  -- the trainers of all policies stay open
    local actor = models.open(run, rest:sub(1, 1) == "/" and rest or assert(fs.absolute(rest)))
    local named_format = options.format and (formats.named(options.format) or
      args.misuse(("--format %s: one of %s expected"):format(options.format, formats.NAMES)))
    return models.policy(run, actor, spec, { format = named_format or formats.of(actor:policy()) })
  end
  if kind == "endpoint" then
    local policy, message = named.open(spec, { toolset = tools.load(), model = options.model,
      prices = prices_of(options.price) })
    if not policy then
      args.misuse("--policy " .. message)
    end
    return policy
  end
  args.misuse(("--policy %s: expert:%s, local:DIR or endpoint:URL expected"):format(spec,
    table.concat(experts.of(target).ORDER, "|")))
end

local function effort_of(record)
  local usage = record.usage
  return { tokens = usage and usage.prompt_tokens + usage.completion_tokens or record.token_count,
    turns = record.turn_count, seconds = record.seconds, cost = usage and usage.cost }
end

local function play_all(run, policy, tasks, options, step)
  local jobs, known = {}, run.store:trajectories("evaluate", step)
  for _, task in ipairs(tasks) do
    for sample = 1, options.samples do
      jobs[#jobs + 1] = { task = task, sample = sample, index = #jobs + 1 }
    end
  end
  -- Answers that are calls are as long as their model makes them, and their number counts from the seed alone.
  local calls = not policy.format.answers_are_files
  local setting = episode.of_run(run, { policy = policy, stage = "evaluate", step = step, turns = options.turns,
    measure = not options.no_measure, reuse = false, pick = "best", whole = calls,
    answer_tokens = not calls and run.config.evaluate.answer_tokens or nil,
    seconds = calls and options.minutes * 60 or nil, draws = calls and ("%d optimize"):format(run.seed) or nil })
  local bar = progress.begin(policy.name, #jobs)
  local list = sched.map(jobs, function(job)
    local record = episode.kept(setting, job.task, job.index, known)
    bar:add(1)
    return results.of(job.task, job.sample, record.verdict, effort_of(record))
  end, { limit = run.config.machine.episodes, on_failure = "raise" })
  bar:finish()
  return list
end

-- The files of one finished solution; nil when there is none.
local function solution_of(folder, task)
  for _, id in ipairs { task.id, task.name } do
    local place = folder .. "/" .. id
    if fs.exists(place) == "folder" then
      local files, message = workspace.read(place)
      return files or error(message, 0)
    end
    local text, message = beneath.read(folder, id .. ".py")
    if message then
      error(message, 0)
    end
    if text then
      return workspace.unfold(text)
    end
  end
end

local function judge_solutions(run, folder, tasks, options)
  local bar = progress.begin(folder, #tasks)
  local list = sched.map(tasks, function(task)
    local files = solution_of(folder, task) or {}
    files["model.py"], files["utils/khost.h"] = nil, nil
    local verdict = run.judging:verdict(task, files, { measure = not options.no_measure })
    verdict.policy, verdict.task = folder, task.id
    assert(run.store:append("verdicts", { stage = "evaluate", step = 0, task = task.id, policy = folder,
      status = verdict.status, judge_stage = verdict.stage, reason = verdict.reason, correct = verdicts.passed(verdict),
      times = verdict.times, speedup = verdict.speedup, faster = verdict.faster, detail = verdict.detail }))
    bar:add(1)
    return results.of(task, 1, verdict)
  end, { limit = run.config.machine.episodes, on_failure = "raise" })
  bar:finish()
  return list
end

local function file_name(name)
  return (name:gsub("[^%w%-_%.]+", "_"):gsub("^_+", ""))
end

local function run(list)
  local options = args.parse(OPTIONS, list, ABOUT)
  if #options.policy + #options.solutions == 0 then
    args.misuse("a --policy or --solutions is needed")
  end
  if options.rules then
    options.set[#options.set + 1] = ('judge.rules="%s"'):format(candidate.check_rules(options.rules))
  end
  local this = pipeline.open(options, ABOUT.name)
  this:at_step("evaluate", 0)
  local found, opened = {}, {}
  for index, spec in ipairs(options.policy) do
    opened[index] = policy_of(this, spec, options)
  end
  local tasks = load_suite(this, options)
  for index, policy in ipairs(opened) do
    found[#found + 1] = { name = policy.name, results = play_all(this, policy, tasks, options, index) }
  end
  for _, folder in ipairs(options.solutions) do
    found[#found + 1] = { name = folder, results = judge_solutions(this, folder, tasks, options) }
  end
  local machine = hardware.facts(this.config.machine.target)
  local folder = this.folder .. "/evaluation"
  assert(fs.mkdirs(folder))
  for _, policy in ipairs(found) do
    assert(fs.write(("%s/%s.csv"):format(folder, file_name(policy.name)), results.csv(policy.results)))
  end
  assert(fs.write(folder .. "/results.json", results.json(found, machine)))
  for _, tab in ipairs(results.tables(found)) do
    log.print("\n" .. tab.title .. "\n" .. tables.text(tab.columns, tab.rows) .. "\n" .. hardware.line(machine))
  end
  log.print(("\nevery task: %s"):format(folder))
  this:close("done")
  return 0
end

return { name = ABOUT.name, summary = ABOUT.summary, options = OPTIONS, run = run }
