-- The first slice of the pipeline, real from end to end: compose tasks out of PyTorch operators, filter them by
-- execution, let the rule-based expert write kernels for them in all its variants, judge every kernel, and print the
-- paper's table 1. Everything is in the run's database; --resume repeats no verdict.
--
-- Departures from the paper: tasks come from random composition only, the policy is a rule-based expert.

local admit = require "synthesis.admit"
local args = require "lib.args"
local compose = require "synthesis.compose"
local experts = require "policies.experts"
local fs = require "khost.fs"
local metrics = require "evaluation.metrics"
local pipeline = require "run.pipeline"
local progress = require "khost.progress"
local random = require "lib.random"
local score = require "evaluation.score"
local tables = require "evaluation.table"

local ABOUT = { name = "recipes/expert.lua", summary = "the expert over composed tasks, judged and tabled" }
local OPTIONS = {
  { name = "--reward", kind = "text", help = "scripts/rewards/NAME.lua, the same as --set reward.scheme=NAME" },
}
for _, option in ipairs(pipeline.with_run_options {}) do
  OPTIONS[#OPTIONS + 1] = option.name == "--preset" and { name = "--preset", kind = "text", default = "expert",
    help = option.help } or option
end

-- A composed task as the store keeps it: kept with its graph, or dropped with its reason.
local function decide(run, task)
  local keep, reason, facts = admit.task(run.judging, task, run.config.tasks.eager_ms)
  local graph, why
  if keep then
    graph, why = run.judging:trace(task)
    keep, reason = graph ~= nil, graph and "kept" or "not_traceable"
  end
  return { name = task.name, split = "test", timed = true, status = keep and "kept" or "dropped", reason = reason,
    source = task.source, eager_s = facts.run and facts.run.eager_s, facts = facts, graph = graph, error = why }
end

-- Composes and filters; what the store has already is not asked again.
local synthesize = { name = "synthesize" }

function synthesize.execute(run)
  local c, reasons, kept = run.config.tasks, {}, 0
  local stream = random.stream("tasks " .. run.seed)
  local bar = progress.begin("synthesize", c.count)
  for i = 1, c.count do
    local task = compose.task(stream, c)
    local id = ("%03d-%s"):format(i, task.name)
    local row = run.store:get("tasks", id)
    if not row then
      row = decide(run, task)
      assert(run.store:put("tasks", id, row))
    end
    reasons[row.reason] = (reasons[row.reason] or 0) + 1
    kept = kept + (row.status == "kept" and 1 or 0)
    bar:add(1)
  end
  bar:finish(("%d of %d kept"):format(kept, c.count))
  return { kept = kept, tables = { tables.counts("Tasks by reason", "reason", reasons) } }
end

-- The stored verdict of this policy on this task, or a new one.
local function verdict_of(run, policy, task, files)
  local known = run.store:list("verdicts", { where = { policy = policy, task = task.id }, limit = 1 })[1]
  if known then
    return known, known.reward
  end
  local verdict = run.judging:verdict(task, files, { measure = true })
  local reward, parts, hash = run.reward:score({ verdict = verdict }, 0)
  assert(run.store:append("verdicts", { stage = "evaluate", policy = policy, task = task.id, verdict = verdict,
    files = files, reward = reward, void = not reward and tostring(parts) or nil, scheme = run.config.reward.scheme,
    script_hash = reward and hash or nil }))
  return verdict, reward
end

-- All kernels of one variant: their verdicts and their rewards; tasks without a rule are counted by reason.
local function judge_variant(run, tasks, variant, refused, bar)
  local list, rewards = {}, {}
  for _, task in ipairs(tasks) do
    local files, why = experts.write(run.config.machine.target, task.graph, variant)
    if files then
      local verdict, reward = verdict_of(run, "expert-" .. variant, task, files)
      list[#list + 1], rewards[#rewards + 1] = verdict, reward
    else
      refused[why] = (refused[why] or 0) + 1
    end
    bar:add(1)
  end
  return list, rewards
end

-- The variants that the preset names, or all of the target's expert.
local function variants_of(run)
  local target, named = run.config.machine.target, run.config.expert.variants
  local known = experts.of(target).ORDER
  for _, variant in ipairs(named) do
    if not experts.has(target, variant) then
      args.misuse(("expert.variants: the expert for target %s writes %s, not %s"):format(target,
        table.concat(known, ", "), variant))
    end
  end
  return #named > 0 and named or known
end

local LEVELS = { -1, 1, 2, 3 }  -- of the milestone scheme

-- How many of the rewards are of each level, and their mean.
local function reward_row(variant, rewards)
  local counts, row = {}, { variant }
  for _, reward in ipairs(rewards) do
    counts[reward] = (counts[reward] or 0) + 1
  end
  for _, level in ipairs(LEVELS) do
    row[#row + 1] = tostring(counts[level] or 0)
  end
  row[#row + 1] = #rewards > 0 and ("%+.2f"):format(metrics.mean(rewards)) or "-"
  return row
end

local evaluate = { name = "evaluate" }

function evaluate.execute(run)
  local tasks, variants = run:tasks("test"), variants_of(run)
  local first, second, refused = {}, {}, {}
  local bar = progress.begin("judge", #tasks * #variants)
  for index, variant in ipairs(variants) do
    local list, rewards = judge_variant(run, tasks, variant, refused, bar)
    first[index] = score.row("expert, " .. variant, metrics.table1(list))
    second[index] = reward_row(variant, rewards)
  end
  bar:finish()
  table.sort(second, function(a, b) return a[1] < b[1] end)
  local result = { refused = refused, tables = { { title = "Table 1", columns = score.columns, rows = first },
    { title = "Rewards", columns = { "variant", "-1", "1", "2", "3", "mean" }, rows = second } } }
  if next(refused) then
    table.insert(result.tables, tables.counts("Tasks without a rule", "reason", refused))
  end
  return result
end

local function run(list)
  local options = args.parse(OPTIONS, list, ABOUT)
  if options.reward then
    table.insert(options.set, "reward.scheme=" .. options.reward)
  end
  local this = pipeline.open(options, ABOUT.name)
  if this:result("evaluate") then
    args.misuse("--resume: this run is finished; `khost show` prints it")
  end
  this:stage(synthesize)
  this:stage(evaluate)
  local folder = this.folder
  this:close("done")
  fs.eprint(("khost: %s\n"):format(folder))
  return 0
end

return { name = ABOUT.name, summary = ABOUT.summary, options = OPTIONS, run = run }
