-- Makes a suite of tasks: composes operators, filters by execution, writes one Python file a task and tasks.jsonl.
--
-- Departures from the paper: operators come from a table, composition is random (see recipes/stages/synthesize.lua).

local args = require "lib.args"
local compose = require "synthesis.compose"
local filter = require "synthesis.filter"
local fs = require "khost.fs"
local json = require "khost.json"
local judging = require "evaluation.judging"
local log = require "khost.log"
local pipeline = require "lib.pipeline"
local progress = require "khost.progress"
local random = require "lib.random"
local sched = require "khost.sched"
local tables = require "evaluation.table"
local config = require "khost.config"

local OPTIONS = {
  { name = "--output", kind = "text", required = true, help = "folder for the suite" },
  { name = "--count", kind = "number", default = 20, help = "candidates that are composed" },
  { name = "--preset", kind = "text", default = "smoke", help = "its [tasks] say families, lengths, shapes, times" },
  { name = "--set", kind = "list", help = "override a key: --set tasks.eager_ms=[1,100]" },
  { name = "--seed", kind = "number", default = 1, help = "of every draw" },
}
local ABOUT = { name = "recipes/synthesize.lua", summary = "makes a suite of tasks" }

local function candidates(c, seed, count)
  local stream, list, taken = random.stream("suite " .. seed), {}, {}
  for _ = 1, 1000 * count do
    local task = compose.task(stream, { families = c.families, length = c.length, shapes = c.shapes })
    if not taken[task.chain] then
      taken[task.chain] = true
      list[#list + 1] = task
      if #list == count then
        break
      end
    end
  end
  return list
end

local function admit(judge, task, c)
  local facts, _, code = judge:admit(task)
  if not facts then
    return false, code == "bad_task" and "does_not_run" or "judge_failed"
  end
  local keep, reason = filter.keep(facts, c)
  return keep, reason, facts
end

local function run(list)
  local options = args.parse(OPTIONS, list, ABOUT)
  local c = config.plain(pipeline.load_config(options))
  local judge, unavailable = judging.open { jobs = c.judge.jobs, tolerance = c.judge.tolerance }
  if not judge then
    args.misuse(unavailable)
  end
  assert(fs.mkdirs(options.output))
  local composed, reasons, lines = candidates(c.tasks, options.seed, options.count), {}, {}
  local bar = progress.begin("filter", #composed)
  local results = sched.map(composed, function(task)
    local keep, reason, facts = admit(judge, task, c.tasks)
    bar:add(1)
    return { keep = keep, reason = reason, facts = facts }
  end, { limit = 4, on_failure = "raise" })
  bar:finish()
  judge:close()
  for index, task in ipairs(composed) do
    local result = results[index]
    reasons[result.reason] = (reasons[result.reason] or 0) + 1
    if result.keep then
      local name = ("%03d-%s"):format(index, task.name)
      assert(fs.write(("%s/%s.py"):format(options.output, name), task.source))
      lines[#lines + 1] = json.encode { name = name, source = task.source, chain = task.chain, family = task.family,
        eager_s = result.facts.eager_s }
    end
  end
  assert(fs.write(options.output .. "/tasks.jsonl", table.concat(lines, "\n") .. "\n"))
  local tab = tables.counts("Tasks by reason", "reason", reasons)
  log.print(tables.text(tab.columns, tab.rows))
  return 0
end

return { name = ABOUT.name, summary = ABOUT.summary, options = OPTIONS, run = run }
