-- Looks again at a synthesised suite: each admitted task, in a process that has not seen it, must return the same for
-- the same inputs, and no answer without work may pass on inputs that were drawn neither when it was composed nor when
-- it was admitted.
--
--   ./khost tests/manual/long/admitted.lua suites/synthesized-200-1 [--seed 5000]

local args = require "lib.args"
local checking = require "suites.checking"
local fs = require "khost.fs"
local json = require "khost.json"
local judge = require "judge.client"
local log = require "khost.log"
local progress = require "khost.progress"
local sched = require "khost.sched"
local tables = require "evaluation.table"

local OPTIONS = {
  { name = "suite", required = true, help = "folder that recipes/synthesize.lua wrote" },
  { name = "--seed", kind = "number", default = 5000, help = "of the inputs that answers without work are tried on" },
  { name = "--jobs", kind = "number", default = 2, help = "tasks at once" },
  { name = "--timeout", kind = "number", default = 120, help = "seconds of one task" },
}

local function outcome(facts, record)
  if not facts.again then
    return "failed: " .. (facts.failure and facts.failure.message or "nothing was measured"):sub(1, 80)
  elseif facts.again.output_digest ~= record.output_digest then
    return "differs between processes"
  elseif #facts.again.null_candidates > 0 then
    return "null: " .. table.concat(facts.again.null_candidates, ", ")
  end
  return "holds"
end

local function run(list)
  local options = args.parse(OPTIONS, list, { name = "tests/manual/long/admitted.lua", summary = "looks again at a suite" })
  local text, message = fs.read(options.suite .. "/tasks.jsonl")
  if not text then
    args.misuse(message)
  end
  local records, counts, bad = {}, {}, {}
  for line in text:gmatch("[^\n]+") do
    records[#records + 1] = json.decode(line)
  end
  local process = assert(judge.open(nil, { jobs = options.jobs }))
  local bar = progress.begin("look again", #records)
  sched.map(records, function(record)
    local question = { stages = { "structure", "again" }, timeout_s = options.timeout, seed = options.seed }
    for key, value in pairs(checking.TRAINED[record.target]) do
      question[key] = value
    end
    local found = outcome(checking.facts(process, record.code, question), record)
    local name = found:match("^[^:]+")
    counts[name] = (counts[name] or 0) + 1
    if found ~= "holds" then
      bad[#bad + 1] = ("%s  %s"):format(record.id, found)
    end
    bar:add(1)
  end, { limit = options.jobs, on_failure = "raise" })
  bar:finish()
  process:close()
  local tab = tables.counts("Admitted tasks, looked at again", "outcome", counts)
  log.print(("\n%s\n%s\n%s"):format(tab.title, tables.text(tab.columns, tab.rows), table.concat(bad, "\n")))
  return #bad > 0 and 1 or 0
end

return { name = "admitted", summary = "looks again at a synthesised suite", run = run }
