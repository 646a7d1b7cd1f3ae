-- The first slice of the pipeline, real from end to end: compose tasks out of PyTorch operators, filter them by
-- execution, let the expert write C++ kernels for them in three variants, judge every kernel, and print the paper's
-- table 1. Everything is in the run's database; --resume repeats no verdict.
--
-- Departures from the paper: tasks come from random composition only, the target is the CPU, the policy is a rule-based
-- expert.
local args = require "lib.args"
local compose = require "synthesis.compose"
local config = require "khost.config"
local expert = require "policies.expert"
local filter = require "synthesis.filter"
local fs = require "khost.fs"
local client = require "judge.client"
local metrics = require "evaluation.metrics"
local progress = require "khost.progress"
local random = require "lib.random"
local reload = require "khost.reload"
local rewards = require "khost.rewards"
local sched = require "khost.sched"
local score = require "evaluation.score"
local store = require "khost.store"

local OPTIONS = {
  { name = "--preset", kind = "text", default = "expert", help = "numbers of the run: recipes/presets/NAME.toml" },
  { name = "--set", kind = "list", help = "override a key: --set tasks.count=20" },
  { name = "--seed", kind = "number", default = 1, help = "of every draw" },
  { name = "--resume", kind = "text", optional_value = "latest", help = "go on with a run: its name, or the latest" },
  { name = "--reward", kind = "text", default = "milestone", help = "scripts/rewards/NAME.lua" },
}
local ABOUT = { name = "recipes/expert.lua", summary = "the expert over composed tasks, judged and tabled" }

-- Composes and filters; what the store has already is not asked again. Returns the kept tasks and a count for each
-- reason.
local function synthesize(run, process, c)
  local stream, tasks, reasons = random.stream("tasks " .. run:info().seed), {}, {}
  local bar = progress.begin("synthesize", c.tasks.count)
  for i = 1, c.tasks.count do
    local task = compose.task(stream, c.tasks)
    local id = ("%03d-%s"):format(i, task.name)
    local row = run:get("tasks", id)
    if not row then
      local facts, message = process:request("admit", { task = { source = task.source } })
      local keep, reason = false, "failed"
      if facts then keep, reason = filter.keep(facts, c.tasks) end
      row = {
        name = task.name, status = keep and "kept" or "dropped", reason = reason, source = task.source,
        eager_s = facts and facts.eager_s, facts = facts, error = message,
      }
      assert(run:put("tasks", id, row))
    end
    reasons[row.reason] = (reasons[row.reason] or 0) + 1
    if row.status == "kept" then
      tasks[#tasks + 1] = { id = id, source = task.source, graph = assert(process:request("trace", { task = task })) }
    end
    bar:add(1)
  end
  bar:finish(("%d of %d kept"):format(#tasks, c.tasks.count))
  return tasks, reasons
end

-- The stored verdict of this policy on this task, or a new one.
local function verdict_of(run, process, policy, task, files, schedule, hash)
  local known = run:list("verdicts", { where = { policy = policy, task = task.id }, limit = 1 })[1]
  if known then return known, known.reward end
  local verdict = assert(process:request("evaluate", { task = { source = task.source }, files = files }))
  local reward, _, why = schedule:score({ verdict = verdict }, 0)
  assert(run:append("verdicts", {
    stage = "evaluate", policy = policy, task = task.id, verdict = verdict, files = files, reward = reward,
    void = why, scheme = schedule:scheme(0), script_hash = hash,
  }))
  return verdict, reward
end

local function reward_rows(rows)
  local lines = {}
  for variant, counts in pairs(rows) do
    lines[#lines + 1] = { variant, tostring(counts[-1] or 0), tostring(counts[1] or 0), tostring(counts[2] or 0),
      tostring(counts[3] or 0) }
  end
  table.sort(lines, function(a, b) return a[1] < b[1] end)
  return lines
end

local function judge_all(run, process, tasks, c, schedule, hash)
  local rows, seen, refused = {}, {}, {}
  local bar = progress.begin("judge", #tasks * #c.expert.variants)
  for _, variant in ipairs(c.expert.variants) do
    local verdicts, counts = {}, {}
    for _, task in ipairs(tasks) do
      local files, why = expert.write(task.graph, variant)
      if files then
        local verdict, reward = verdict_of(run, process, "expert-" .. variant, task, files, schedule, hash)
        verdicts[#verdicts + 1] = verdict
        if reward then counts[reward] = (counts[reward] or 0) + 1 end
      else
        refused[why] = (refused[why] or 0) + 1
      end
      bar:add(1)
    end
    rows[#rows + 1] = score.row("expert, " .. variant, metrics.table1(verdicts))
    seen[variant] = counts
  end
  bar:finish()
  return rows, seen, refused
end

local function count_rows(counts)
  local rows = {}
  for reason, n in pairs(counts) do rows[#rows + 1] = { reason, tostring(n) } end
  table.sort(rows, function(a, b) return a[1] < b[1] end)
  return rows
end

local function run(list)
  local options = args.parse(OPTIONS, list, ABOUT)
  local loaded, message = config.load { preset = options.preset, set = options.set }
  if not loaded then args.misuse(message) end
  local c = config.plain(loaded)
  sched.seed(options.seed)
  local scheme, why = reload.open("rewards." .. options.reward)
  if not scheme then args.misuse(("--reward %s: %s"):format(options.reward, why)) end

  local record
  if options.resume then
    local folder, missing = store.find(c.machine.runs, options.resume ~= "latest" and options.resume or nil)
    if not folder then args.misuse("--resume: " .. missing) end
    record = assert(store.open(folder))
    c = record:info().config
    sched.seed(record:info().seed)
  else
    record = assert(store.create(c.machine.runs, {
      name = "expert", recipe = "recipes/expert.lua", preset = options.preset, seed = options.seed, config = c,
    }))
  end
  local process, unavailable = client.open(c, { target = "cpu" })
  if not process then args.misuse(unavailable) end

  local finished = record:stage("synthesize")
  if not (finished and finished.status == "done") then record:begin_stage("synthesize") end
  local tasks, reasons = synthesize(record, process, c)
  local drops = { title = "Tasks by reason", columns = { "reason", "tasks" }, rows = count_rows(reasons) }
  if not (finished and finished.status == "done") then
    record:finish_stage("synthesize", { kept = #tasks, tables = { drops } })
  end
  print(score.text(drops.columns, drops.rows) .. "\n")

  local evaluated = record:stage("evaluate")
  if evaluated and evaluated.status == "done" then
    args.misuse("--resume: this run is finished; `khost show` prints it")
  end
  record:begin_stage("evaluate")
  local schedule = rewards.schedule((scheme:get()))
  local rows, seen, refused = judge_all(record, process, tasks, c, schedule, scheme:hash())
  process:close()
  local first = { title = "Table 1", columns = score.columns, rows = rows }
  local second = { title = "Rewards", columns = { "variant", "-1", "1", "2", "3" }, rows = reward_rows(seen) }
  record:finish_stage("evaluate", { tables = { first, second }, refused = refused })
  print(score.text(first.columns, first.rows) .. "\n")
  print(score.text(second.columns, second.rows))
  for reason, n in pairs(refused) do print(("%d tasks without a rule: %s"):format(n, reason)) end
  record:finish("done")
  fs.eprint(("khost: %s\n"):format(record:folder()))
  record:close()
  return 0
end

return { name = ABOUT.name, summary = ABOUT.summary, options = OPTIONS, run = run }
