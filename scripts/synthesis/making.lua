-- The work of recipes/synthesize.lua: crawl, then portion by portion compose, before, eager, compile, write.
-- What a stage learnt lies in the output's folder `work`, so that the same command goes on where it was killed.

local args = require "lib.args"
local checking = require "suites.checking"
local duplicates = require "synthesis.duplicates"
local fs = require "khost.fs"
local json = require "khost.json"
local judge = require "judge.client"
local library = require "synthesis.library"
local load = require "suites.load"
local log = require "khost.log"
local machine = require "khost.machine"
local portions = require "synthesis.portions"
local progress = require "khost.progress"
local repair = require "synthesis.repair"
local sched = require "khost.sched"
local similarity = require "synthesis.similarity"
local summary = require "synthesis.summary"

local making = {}

local LIBRARY_VERSION = 3
local MOST_JOBS = 14

-- Times of a stage add up over portions. `tasks`: how many go through it.
local function timed(work, name, tasks, fn)
  local start = sched.now()
  log.print("== " .. name)
  local result = fn()
  local stage = work.stages[name]
  if not stage then
    stage = { name = name, seconds = 0, tasks = 0 }
    work.stages[name], work.stages[#work.stages + 1] = stage, stage
  end
  stage.seconds, stage.tasks = stage.seconds + sched.now() - start, stage.tasks + tasks
  return result
end

-- Thousands of comparisons are no reason to keep others waiting.
local function breathe(index)
  if index % 20 == 0 then
    sched.sleep(0)
  end
end

local function profiles_of(suites)
  local profiles = {}
  for _, path in ipairs(suites) do
    local tasks, message = load.suite(path)
    if not tasks then
      args.misuse("--evaluation " .. message)
    end
    for index, task in ipairs(tasks) do
      profiles[#profiles + 1] = similarity.profile(task.source)
      breathe(index)
    end
  end
  return profiles
end

local function before(work, tasks)
  work.profiles = work.profiles or profiles_of(work.options.evaluation)
  local profiles = work.profiles
  duplicates.mark(tasks, work.first)
  for index, task in ipairs(tasks) do
    breathe(index)
    if #profiles > 0 then
      task.similarity = similarity.greatest(similarity.profile(task.source), profiles)
    end
    local keep, reason = work.rubric.before(task, work.options.limits)
    task.status, task.reason = keep and "open" or "dropped", reason
  end
end

-- One measurement, kept by what was asked.
local function kept_facts(work, source, question)
  local key = fs.sha256(json.encode(checking.question(source, question))):sub(1, 32)
  local file = ("%s/checks/%s.json"):format(work.folder, key)
  local text = fs.read(file)
  local facts = text and json.decode(text)
  if type(facts) == "table" then
    work.known = work.known + 1
    return facts
  end
  facts = checking.facts(work.process, source, question)
  work.measured = work.measured + 1
  assert(fs.write(file, json.encode(facts)))
  return facts
end

local function check(work, source, stage)
  local options = { target = work.options.target, timeout_s = work.options.timeout, stages = { "structure", stage } }
  return checking.worthwhile(options, work.options.limits.eager_ms, function(question)
    return kept_facts(work, source, question)
  end)
end

local function open_ones(tasks)
  local open = {}
  for _, task in ipairs(tasks) do
    open[#open + 1] = task.status == "open" and task or nil
  end
  return open
end

local function each(work, title, tasks, fn)
  local bar = progress.begin(title, #tasks)
  sched.map(tasks, function(task)
    fn(task)
    bar:add(1)
  end, { limit = work.options.jobs, on_failure = "raise" })
  bar:finish()
end

local function eager(work, tasks)
  local function judged(source)
    local facts = check(work, source, "run")
    local keep, reason = work.rubric.eager(facts, work.options.limits)
    return keep, reason, facts
  end
  each(work, "run in eager mode", tasks, function(task)
    local keep, reason, facts = judged(task.source)
    if not keep and repair.may_mend(reason) and not work.options.no_repair then
      local source, kind, mended = repair.mend(task.source, judged)
      task.flaw = reason
      if source then
        keep, facts, task.source, task.repaired = true, mended, source, kind
      end
    end
    if facts.run then
      work.device = facts.run.device
      task.eager_s, task.bytes = facts.run.eager_s, facts.structure.peak_bytes
      task.output_digest = facts.run.output_digest
    end
    if not keep then
      task.status = repair.may_mend(reason) and "quarantined" or "dropped"
      task.reason = reason
    end
  end)
end

local function compile(work, tasks)
  each(work, "compile", tasks, function(task)
    local facts = check(work, task.source, "compile")
    local keep, reason = work.rubric.compile(facts, task)
    if facts.compile then
      task.compile_s = facts.compile.compile_s
    end
    if not keep then
      task.status, task.reason = "dropped", reason
    end
  end)
end

-- The suite as far as it is made.
local function write(work)
  local kept, quarantined = {}, {}
  assert(fs.mkdirs(work.output .. "/tasks"))
  for _, task in ipairs(work.tasks) do
    local record = { name = task.name, code = task.source, chain = task.chain, depth = task.depth, size = task.size,
      target = work.options.target, eager_s = task.eager_s,
      compile_s = task.compile_s, output_digest = task.output_digest, similarity = task.similarity,
      repaired = task.repaired, bytes = task.bytes, reason = task.status == "quarantined" and task.reason or nil }
    if task.status == "kept" then
      record.id = ("%05d-%s"):format(#kept + 1, task.name)
      if work.written[record.id] ~= task.source then  -- with each portion all tasks come by again
        assert(fs.write(("%s/tasks/%s.py"):format(work.output, record.id), task.source))
        work.written[record.id] = task.source
      end
      kept[#kept + 1] = json.encode(record)
    elseif task.status == "quarantined" then
      quarantined[#quarantined + 1] = json.encode(record)
    end
  end
  local count = #kept
  for name, lines in pairs { ["tasks.jsonl"] = kept, ["quarantine.jsonl"] = quarantined } do
    lines[#lines + 1] = ""
    assert(fs.write(work.output .. "/" .. name, table.concat(lines, "\n")))
  end
  return count
end

local function write_operators(work, found)
  local folder = work.output .. "/operators"
  assert(fs.mkdirs(folder))
  for _, task in ipairs(library.tasks(found)) do
    assert(fs.write(("%s/%s.py"):format(folder, task.name), task.source))
  end
  local lines = {}
  for name, reason in pairs(found.skipped) do
    lines[#lines + 1] = ("%s\t%s\n"):format(name, reason)
  end
  table.sort(lines)
  assert(fs.write(folder .. "/left_out.tsv", table.concat(lines)))
end

local function open_work(options)
  local rubric = require(options.rubric)
  for _, name in ipairs { "before", "eager", "compile" } do
    if type(rubric[name]) ~= "function" then
      args.misuse(("--rubric %s has no function %s"):format(options.rubric, name))
    end
  end
  local folder = options.output .. "/work"
  assert(fs.mkdirs(folder .. "/checks"))
  local held, trouble = fs.hold(folder .. "/lock")
  if not held then
    args.misuse(trouble)
  end
  local asked = json.encode { count = options.count, seed = options.seed, target = options.target,
    library = LIBRARY_VERSION }
  local file = folder .. "/asked.json"
  local old = fs.read(file)
  if old and old ~= asked then
    args.misuse(("%s holds a suite that was asked for otherwise (%s); name another --output"):format(options.output,
      old))
  end
  assert(fs.write(file, asked))
  options.jobs = judge.jobs(options.jobs
    or options.target == "cuda" and math.max(2, math.min(MOST_JOBS, machine.facts().cores - 2)) or nil)
  local process, message = judge.open(nil, { jobs = options.jobs, target = options.target })
  if not process then
    args.misuse(message)
  end
  return { options = options, output = options.output, folder = folder, held = held, process = process, rubric = rubric,
    stages = {}, measured = 0, known = 0, tasks = {}, given_up = 0, first = {}, written = {},
    begun = sched.now() }
end

local function make_portion(work, found, portion)
  local asked = #portion.depths + #portion.alone
  local composed = timed(work, "compose", asked, function() return portions.compose(work, found, portion) end)
  local tasks = composed.tasks
  work.given_up = work.given_up + composed.given_up
  timed(work, "duplicates and similarity", #tasks, function() before(work, tasks) end)
  local open = open_ones(tasks)
  timed(work, "eager", #open, function() eager(work, open) end)
  open = open_ones(tasks)
  if not work.options.no_compile then
    timed(work, "compile", #open, function() compile(work, open) end)
  end
  for _, task in ipairs(open_ones(tasks)) do
    task.status, task.reason = "kept", "kept"
  end
  for _, task in ipairs(tasks) do
    work.tasks[#work.tasks + 1] = task
  end
end

--- Everything; prints the tables and returns the exit code.
---@async
---@param options table   see recipes/synthesize.lua
---@return integer
function making.run(options)
  local work = open_work(options)
  local found = timed(work, "crawl", 0, function()
    local answer, message = library.find(work.process, work.folder .. "/library.json", "torch", options.jobs,
      options.target)
    if not answer then
      args.misuse("crawl: " .. message)
    end
    write_operators(work, answer)
    return answer
  end)
  local planned = timed(work, "single layers", 0, function() return portions.plan(work) end)
  for index, portion in ipairs(planned) do
    make_portion(work, found, portion)
    local kept, seconds = write(work), sched.now() - work.begun
    -- What was measured by an earlier run says nothing of this one's rate.
    local rate = work.known == 0 and (" after %.0f s, %.0f an hour"):format(seconds, kept * 3600 / seconds) or ""
    log.print(("portion %d of %d: %d of %d tasks kept%s"):format(index, #planned, kept, #work.tasks, rate))
  end
  work.process:close()
  work.held:release()
  local text = summary.text { found = found, given_up = work.given_up, tasks = work.tasks, stages = work.stages,
    device = work.device, measured = work.measured, known = work.known }
  assert(fs.write(options.output .. "/summary.txt", text))
  log.print("\n" .. text)
  log.print(("suite in %s"):format(options.output))
  return 0
end

return making
