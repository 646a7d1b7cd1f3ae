-- Runs the judge's check over a suite: each task in a process of its own with limits of memory and time, every answer
-- kept as it comes, so that a check that was killed goes on where it was.

local fs = require "khost.fs"
local health = require "suites.health"
local json = require "khost.json"
local progress = require "khost.progress"
local sched = require "khost.sched"

local checking = {}

-- memory_bytes: what a task's process may allocate. most_*: beyond them a task is measured on a smaller batch, and if
-- none fits is too large. timeout_s: of one stage.
checking.DEFAULTS = { memory_mb = 2048, budget_mb = 256, flops = 2e9, elements = 2e7, timeout_s = 60, compile = false,
  structure_only = false }
-- On a GPU a check holds some eight times the budget.
checking.CUDA = { memory_mb = 8192, budget_mb = 2048, flops = 4e12, elements = 4e9 }
-- Of tasks that a policy is trained on: what needs more is too slow for two cores, or leaves no room for others on a
-- GPU.
checking.TRAINED = {
  cpu = { memory_mb = 2048, budget_mb = 512, flops = 4e9, elements = 2e8 },
  cuda = { memory_mb = 8192, budget_mb = 8192, flops = 4e12, elements = 6e9, target = "cuda" },
}
-- Of the facts: another number when what is measured changes, so that older answers are asked again.
local FORM = 2
-- A process that was lost may have been another task's doing.
local TRIES, PAUSE_S = 4, 1

--- The judge's question for one task.
---@param source string
---@param options table   the fields of checking.DEFAULTS; `stages` names them instead of the flags
---@return table
function checking.question(source, options)
  local stages = options.stages or { "structure" }
  if not options.stages and not options.structure_only then
    stages[2], stages[3] = "run", "again"
    stages[4] = options.compile and "compile" or nil
  end
  return { task = { source = source }, target = options.target, form = FORM, stages = stages,
    timeout_s = options.timeout_s,
    seed = options.seed, cache = options.cache, worth_s = options.worth_s, limits = {
    memory_bytes = options.memory_mb * 2 ^ 20, most_bytes = options.budget_mb * 2 ^ 20, most_flops = options.flops,
    most_elements = options.elements } }
end

--- Facts of one task; a task that takes the judge's process down with it has code "died".
---@async
---@param judge khost.Judge
---@param source string
---@param options table
---@return table
function checking.facts(judge, source, options)
  local message, code, facts
  for attempt = 1, TRIES do
    facts, message, code = judge:request("check", checking.question(source, options))
    if facts then
      return facts
    end
    sched.sleep(PAUSE_S * attempt)
  end
  return { failure = { stage = "structure", code = code == "gone" and "died" or code or "host", message = message } }
end

--- A check of a task that is wanted only if its eager time lies within bounds, in the limits of checking.TRAINED. The
--- stage run is cut short far outside of them; a task that seemed too slow or too fast beside others and lies within
--- the bounds after all is asked about again, whole.
---@param options table        target, stages ("structure" and another one), timeout_s?
---@param eager_ms number[]    least and most
---@param ask fun(options: table): table   asks for the facts
---@return table facts
function checking.worthwhile(options, eager_ms, ask)
  local question = { timeout_s = options.timeout_s or checking.DEFAULTS.timeout_s, stages = options.stages }
  for key, value in pairs(checking.TRAINED[options.target]) do
    question[key] = value
  end
  question.worth_s = options.stages[2] == "run" and { eager_ms[1] / 1e3, eager_ms[2] / 1e3 } or nil
  local facts = ask(question)
  local seen = facts.run and facts.run.cut_short and facts.run.eager_s * 1e3
  if seen and seen >= eager_ms[1] and seen <= eager_ms[2] then
    question.worth_s = nil
    return ask(question)
  end
  return facts
end

-- What an answer depends on, besides the task.
local function key_of(task, options)
  local q = checking.question("", options)
  return fs.sha256(task.hash .. json.encode(q)):sub(1, 32)
end

-- What the compiler made goes to a file of its own, by the task's hash.
local function put_aside(folder, task, facts)
  local compile = facts.compile
  if compile and compile.cache then
    assert(fs.mkdirs(folder .. "/caches"))
    assert(fs.write(("%s/caches/%s.b64"):format(folder, task.hash), compile.cache))
    compile.cache_bytes, compile.cache = #compile.cache, nil
  end
end

local function known(folder, key)
  local text = folder and fs.read(("%s/tasks/%s.json"):format(folder, key))
  local record = text and json.decode(text)
  return type(record) == "table" and record or nil
end

---@class (exact) TaskHealth
---@field task SuiteTask
---@field facts table
---@field findings Finding[]
---@field healthy boolean
---@field flaw? string      the worst

--- Checks every task. With a folder, answers are kept there and not asked for again.
---@async
---@param judge khost.Judge
---@param tasks SuiteTask[]
---@param options table          the fields of checking.DEFAULTS
---@param folder? string
---@return TaskHealth[]
function checking.run(judge, tasks, options, folder)
  if folder then
    assert(fs.mkdirs(folder .. "/tasks"))
  end
  local bar, flawed = progress.begin("check", #tasks), 0
  local results = sched.map(tasks, function(task)
    local key = key_of(task, options)
    local facts = known(folder, key)
    if not facts then
      facts = checking.facts(judge, task.source, options)
      if folder then
        put_aside(folder, task, facts)
        assert(fs.write(("%s/tasks/%s.json"):format(folder, key), json.encode(facts)))
      end
    end
    local findings = health.findings(facts)
    local healthy, flaw = health.verdict(findings)
    flawed = flawed + (healthy and 0 or 1)
    bar:add(1, { flawed = flawed })
    return { task = task, facts = facts, findings = findings, healthy = healthy, flaw = flaw }
  end, { limit = options.jobs, on_failure = "raise" })
  bar:finish()
  return results
end

return checking
