-- The work of recipes/synthesize.lua in stages: crawl, compose, before, eager, compile, write. What a stage learnt lies
-- in the output's folder `work`, so that the same command goes on where it was killed.

local args = require "lib.args"
local ask = require "synthesis.ask"
local checking = require "suites.checking"
local duplicates = require "synthesis.duplicates"
local fs = require "khost.fs"
local json = require "khost.json"
local judge = require "khost.judge"
local library = require "synthesis.library"
local load = require "suites.load"
local log = require "khost.log"
local machine = require "khost.machine"
local progress = require "khost.progress"
local random = require "lib.random"
local repair = require "synthesis.repair"
local sched = require "khost.sched"
local similarity = require "synthesis.similarity"
local stack = require "synthesis.stack"
local summary = require "synthesis.summary"

local making = {}

-- Bounded: a task that needs more is no task for two cores, or leaves no room for others on a GPU.
making.CHECKS = {
  cpu = { memory_mb = 2048, budget_mb = 512, flops = 4e9, elements = 2e8 },
  cuda = { memory_mb = 8192, budget_mb = 8192, flops = 4e12, elements = 6e9, target = "cuda" },
}
local LIBRARY_VERSION = 2
local MOST_JOBS = 14

local function timed(work, name, fn)
  local start = sched.now()
  log.print("== " .. name)
  local result = fn()
  work.seconds[#work.seconds + 1] = { name = name, seconds = sched.now() - start }
  return result
end

local function probe_with(process, target)
  return function(sources)
    local answer, message = process:request("crawl", { request = { probe = json.list(sources) }, target = target,
      timeout_s = 300 })
    if not answer then
      error("shapes of composed tasks: " .. message, 0)
    end
    return answer.probed
  end
end

-- Single layers of transformers, when it is installed.
local function layers(work)
  local found, message = library.find(work.process, work.folder .. "/transformers.json", "transformers", work.options.jobs,
    work.options.target)
  if not found then
    log.warn("transformers_not_crawled", { message = message })
    return { operators = {}, skipped = {} }
  end
  return found
end

local function compose(work, found)
  local file = work.folder .. "/composed.json"
  local text = fs.read(file)
  local known = text and json.decode(text)
  if type(known) == "table" then
    return known
  end
  local alone = layers(work)
  local depths, shares = {}, stack.shares(work.options.count, stack.MIX, #alone.operators > 0)
  for depth = 1, 5 do
    for _ = 1, shares[depth] do
      depths[#depths + 1] = depth
    end
  end
  local bar, before = progress.begin("compose", #depths), 0
  local settings = { budget = stack.BUDGETS[work.options.target], jobs = work.options.jobs, progress = function(done)
    bar:add(done - before)
    before = done
  end }
  local tasks, given_up
  if work.options.composer then
    tasks, given_up = ask.compose(found, depths, work.options.seed, probe_with(work.process, work.options.target), work.options.composer,
      settings)
  else
    tasks, given_up = stack.compose(found, depths, work.options.seed, probe_with(work.process, work.options.target), settings)
  end
  bar:finish()
  for _, task in ipairs(library.alone(alone, shares.transformers or 0, random.stream("alone " .. work.options.seed))) do
    tasks[#tasks + 1] = task
  end
  local composed = { tasks = tasks, given_up = given_up }
  assert(fs.write(file, json.encode(composed)))
  return composed
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
  local profiles = profiles_of(work.options.evaluation)
  duplicates.mark(tasks)
  for index, task in ipairs(tasks) do
    breathe(index)
    if #profiles > 0 then
      task.similarity = similarity.greatest(similarity.profile(task.source), profiles)
    end
    local keep, reason = work.rubric.before(task, work.options.limits)
    task.status, task.reason = keep and "open" or "dropped", reason
  end
end

-- One measurement, kept by what was asked. `whole`: also of tasks that seem not worth it.
local function check(work, source, stage, whole)
  local question = {}
  for key, value in pairs(making.CHECKS[work.options.target]) do
    question[key] = value
  end
  local bounds = work.options.limits.eager_ms
  question.timeout_s, question.stages = work.options.timeout, { "structure", stage }
  question.worth_s = stage == "run" and not whole and { bounds[1] / 1e3, bounds[2] / 1e3 } or nil
  local key = fs.sha256(json.encode(checking.question(source, question))):sub(1, 32)
  local file = ("%s/checks/%s.json"):format(work.folder, key)
  local text = fs.read(file)
  local facts = text and json.decode(text)
  if type(facts) == "table" then
    work.known = work.known + 1
  else
    facts = checking.facts(work.process, source, question)
    work.measured = work.measured + 1
    assert(fs.write(file, json.encode(facts)))
  end
  local eager_ms = facts.run and facts.run.cut_short and facts.run.eager_s * 1e3
  if eager_ms and eager_ms >= bounds[1] and eager_ms <= bounds[2] then
    return check(work, source, stage, true)  -- slow beside others, worth it alone
  end
  return facts
end

local function each_open(work, title, tasks, fn)
  local open = {}
  for _, task in ipairs(tasks) do
    open[#open + 1] = task.status == "open" and task or nil
  end
  local bar = progress.begin(title, #open)
  sched.map(open, function(task)
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
  each_open(work, "run in eager mode", tasks, function(task)
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
  each_open(work, "compile", tasks, function(task)
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

local function write(work, tasks)
  local kept, quarantined, number = {}, {}, 0
  assert(fs.mkdirs(work.output .. "/tasks"))
  for _, task in ipairs(tasks) do
    local record = { name = task.name, code = task.source, chain = task.chain, depth = task.depth, size = task.size,
      target = work.options.target, eager_s = task.eager_s,
      compile_s = task.compile_s, output_digest = task.output_digest, similarity = task.similarity, repaired = task.repaired,
      bytes = task.bytes, reason = task.status == "quarantined" and task.reason or nil }
    if task.status == "open" then
      number, task.status, task.reason = number + 1, "kept", "kept"
      record.id = ("%05d-%s"):format(number, task.name)
      assert(fs.write(("%s/tasks/%s.py"):format(work.output, record.id), task.source))
      kept[#kept + 1] = json.encode(record)
    elseif task.status == "quarantined" then
      quarantined[#quarantined + 1] = json.encode(record)
    end
  end
  for name, lines in pairs { ["tasks.jsonl"] = kept, ["quarantine.jsonl"] = quarantined } do
    lines[#lines + 1] = ""
    assert(fs.write(work.output .. "/" .. name, table.concat(lines, "\n")))
  end
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
  local asked = json.encode { count = options.count, seed = options.seed, target = options.target,
    library = LIBRARY_VERSION }
  local file = folder .. "/asked.json"
  local old = fs.read(file)
  if old and old ~= asked then
    args.misuse(("%s holds a suite that was asked for otherwise (%s); name another --output"):format(options.output,
      old))
  end
  assert(fs.write(file, asked))
  options.jobs = options.jobs or options.target == "cpu" and 2
    or math.max(2, math.min(MOST_JOBS, machine.facts().cores - 2))
  local process, message = judge.open { jobs = options.jobs }
  if not process then
    args.misuse(message)
  end
  return { options = options, output = options.output, folder = folder, process = process, rubric = rubric,
    seconds = {}, measured = 0, known = 0 }
end

--- Everything; prints the tables and returns the exit code.
---@async
---@param options table   see recipes/synthesize.lua
---@return integer
function making.run(options)
  local work = open_work(options)
  local found = timed(work, "crawl", function()
    local answer, message = library.find(work.process, work.folder .. "/library.json", "torch", options.jobs,
      options.target)
    if not answer then
      args.misuse("crawl: " .. message)
    end
    write_operators(work, answer)
    return answer
  end)
  local composed = timed(work, "compose", function() return compose(work, found) end)
  local tasks = composed.tasks
  timed(work, "duplicates and similarity", function() before(work, tasks) end)
  timed(work, "eager", function() eager(work, tasks) end)
  if not options.no_compile then
    timed(work, "compile", function() compile(work, tasks) end)
  end
  work.process:close()
  write(work, tasks)
  local text = summary.text { found = found, composed = composed, tasks = tasks, seconds = work.seconds,
    device = work.device, measured = work.measured, known = work.known }
  assert(fs.write(options.output .. "/summary.txt", text))
  log.print("\n" .. text)
  log.print(("suite in %s"):format(options.output))
  return 0
end

return making
