-- Judges published solutions again and prints what is claimed beside what is measured, with the reason for each
-- difference: CUDA-L1's JSON lines, any JSON lines, list or Parquet with a task and its solution in each record, or the
-- folder of a run of KernelBench.

local args = require "lib.args"
local candidate = require "lib.candidate"
local fs = require "khost.fs"
local hardware = require "evaluation.hardware"
local left_out = require "suites.left_out"
local load = require "suites.load"
local log = require "khost.log"
local pipeline = require "run.pipeline"
local progress = require "khost.progress"
local published = require "suites.published"
local rejudged = require "suites.rejudged"
local sched = require "khost.sched"
local tables = require "evaluation.table"
local verdicts = require "judge.verdict"
local workspace = require "suites.workspace"

local OPTIONS = pipeline.with_run_options {
  { name = "path", required = true,
    help = "JSON lines, a JSON list or Parquet, or the folder of a run of KernelBench" },
  { name = "--suite", kind = "text", help = "the tasks of a run of KernelBench: a checkout, or any form of a suite" },
  { name = "--level", kind = "list", help = "only solutions of this level; may be repeated" },
  { name = "--limit", kind = "number", help = "only the first solutions" },
  { name = "--rules", kind = "text", help = "own, or mixed: torch operators beside own kernels (else judge.rules)" },
  { name = "--no-measure", kind = "flag", help = "verify only" },
}
local ABOUT = { name = "recipes/rejudge.lua", summary = "published solutions judged again, beside what they claim" }

local function solutions_of(options)
  local tasks, message
  if options.suite then
    tasks, message = load.suite(options.suite)
    if not tasks then
      args.misuse("--suite " .. message)
    end
  end
  local wanted = {}
  for _, text in ipairs(options.level) do
    wanted[tonumber(text) or args.misuse(("--level %s: a number expected"):format(text))] = true
  end
  local left, list = left_out.new(options.path), {}
  local found, why = published.read(options.path, tasks, left)
  if not found then
    args.misuse(why)
  end
  for _, solution in ipairs(found) do
    if #list == options.limit then
      break
    end
    list[#list + 1] = (not next(wanted) or wanted[solution.level]) and solution or nil
  end
  left:tell(#found)
  if #list == 0 then
    args.misuse(("%s: no solution to judge"):format(options.path))
  end
  return list
end

local function judge(run, solution, options)
  local files = workspace.unfold(solution.text)
  -- The task is the published one, and the header is khost's own.
  files["model_new.py"] = files["model_new.py"] or files["model.py"]
  files["model.py"], files["utils/khost.h"] = nil, nil
  local verdict = run.judging:verdict(solution.task, files, { measure = not options.no_measure,
    rules = options.rules })
  assert(run.store:append("verdicts", { stage = "rejudge", step = 0, task = solution.name, policy = options.path,
    status = verdict.status, judge_stage = verdict.stage, reason = verdict.reason, correct = verdicts.passed(verdict),
    times = verdict.times, speedup = verdict.speedup, faster = verdict.faster, detail = verdict.detail }))
  return rejudged.record(solution, verdict)
end

local function run(list)
  local options = args.parse(OPTIONS, list, ABOUT)
  if options.rules then
    candidate.check_rules(options.rules)
  end
  local solutions = solutions_of(options)
  local this = pipeline.open(options, ABOUT.name)
  local bar = progress.begin("rejudge", #solutions)
  local found = sched.map(solutions, function(solution)
    local record = judge(this, solution, options)
    bar:add(1)
    return record
  end, { limit = this.config.machine.episodes, on_failure = "raise" })
  bar:finish()
  local path = this.folder .. "/rejudge.jsonl"
  assert(fs.write(path, rejudged.jsonl(found)))
  for _, tab in ipairs(rejudged.tables(found)) do
    log.print("\n" .. tab.title .. "\n" .. tables.text(tab.columns, tab.rows))
  end
  log.print(hardware.line(hardware.facts(this.config.machine.target)))
  log.print(("\nevery solution: %s"):format(path))
  this:close("done")
  return 0
end

return { name = ABOUT.name, summary = ABOUT.summary, options = OPTIONS, run = run }
