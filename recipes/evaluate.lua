-- Runs a policy over a suite and prints the paper's table 1: pass rate, faster rate and geometric-mean speed-up against
-- eager and torch.compile. Policies play under the agent loop, and the best state of a trajectory counts.

local args = require "lib.args"
local fs = require "khost.fs"
local log = require "khost.log"
local models = require "training.models"
local pipeline = require "lib.pipeline"
local play = require "training.play"
local progress = require "khost.progress"
local sched = require "khost.sched"
local score = require "evaluation.score"
local script = require "policies.script"
local expert = require "policies.expert"

local OPTIONS = {
  { name = "--suite", kind = "text", required = true, help = "folder of task files (*.py)" },
  { name = "--policy", kind = "list", required = true, help = "expert:VARIANT or local:DIR; may be repeated" },
  { name = "--samples", kind = "number", default = 1, help = "trajectories a task" },
  { name = "--turns", kind = "number", default = 3, help = "of a trajectory" },
}
for _, option in ipairs(pipeline.OPTIONS) do
  if option.name ~= "--plan" then
    OPTIONS[#OPTIONS + 1] = option
  end
end
local ABOUT = { name = "recipes/evaluate.lua", summary = "a policy over a suite" }

local function load_suite(run, folder)
  local paths = fs.glob(folder .. "/*.py")
  if #paths == 0 then
    args.misuse(("--suite %s: no *.py file there"):format(folder))
  end
  local tasks = sched.map(paths, function(path)
    local name = path:match("([^/]+)%.py$")
    local task = { id = name, name = name, source = assert(fs.read(path)) }
    local graph, message = run.judging:trace(task)
    if not graph then
      log.warn("task_left_out", { task = name, message = message })
      return false
    end
    task.graph = graph
    return task
  end, { limit = 4, on_failure = "raise" })
  local list = {}
  for _, task in ipairs(tasks) do
    list[#list + 1] = task or nil
  end
  return list
end

local function policy_of(run, spec)
  local kind, rest = spec:match("^(%w+):(.+)$")
  if kind == "expert" and expert.VARIANTS[rest] then
    return script.expert(rest)
  elseif kind == "local" then
    return models.policy(run, models.open(run, rest:sub(1, 1) == "/" and rest or assert(fs.absolute(rest))), spec)
  end
  args.misuse(("--policy %s: expert:%s or local:DIR expected"):format(spec, table.concat(expert.ORDER, "|")))
end

local function play_all(run, policy, tasks, options, step)
  local jobs, known = {}, run.store:trajectories("evaluate", step)
  for _, task in ipairs(tasks) do
    for _ = 1, options.samples do
      jobs[#jobs + 1] = { task = task, index = #jobs + 1 }
    end
  end
  local setting = { run = run, policy = policy, stage = "evaluate", step = step, turns = options.turns, measure = true,
    reuse = false, pick = "best", answer_tokens = run.config.evaluate.answer_tokens }
  local bar = progress.begin(policy.name, #jobs)
  local verdicts = sched.map(jobs, function(job)
    local episode = play.kept(setting, job.task, job.index, known)
    bar:add(1)
    return episode.verdict
  end, { limit = run.config.machine.episodes, on_failure = "raise" })
  bar:finish()
  return verdicts
end

local function run(list)
  local options = args.parse(OPTIONS, list, ABOUT)
  local this = pipeline.open(options, ABOUT.name)
  this.reward:at_step("evaluate", 0)
  local policies = {}
  for index, spec in ipairs(options.policy) do
    policies[index] = policy_of(this, spec)
  end
  local tasks, rows = load_suite(this, options.suite), {}
  for index, policy in ipairs(policies) do
    rows[index] = score.row(policy.name, score.table1(play_all(this, policy, tasks, options, index)))
  end
  log.print("\n" .. score.text(score.columns, rows))
  this:close("done")
  return 0
end

return { name = ABOUT.name, summary = ABOUT.summary, options = OPTIONS, run = run }
