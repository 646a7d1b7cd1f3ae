-- Keeps the tasks that run, are deterministic, depend on their inputs, fail for answers without work, take long enough
-- and do not resemble an evaluation task; every dropped one has a named reason. Then shows for each family that a
-- kernel can earn rewards 1, 2 and 3, or drops the family.
--
-- Eager comes first and torch.compile last, since compiling costs seconds: the witnesses are the first that are
-- compiled.

local admit = require "synthesis.admit"
local expert = require "policies.expert"
local experts = require "policies.experts"
local formats = require "chat.formats"
local log = require "khost.log"
local pipeline = require "run.pipeline"
local progress = require "khost.progress"
local sched = require "khost.sched"
local tables = require "evaluation.table"

local AT_ONCE = 4  -- tasks admitted side by side where judge.jobs leaves it to the machine
local ROOM = { 0, 1e6 }  -- any time will do for tasks that are not timed

local function decide(run, row)
  local c = run.config.tasks
  if row.similarity and row.similarity > c.similarity then
    return false, "similar_to_evaluation"
  end
  local keep, reason, facts = admit.task(run.judging, row, row.timed and c.eager_ms or ROOM)
  if not keep then
    return false, reason, facts
  end
  local graph, why = run.judging:trace(row)
  row.graph = graph
  local composed = (c.suite or "") == ""
  if not graph and (composed or formats.reads_graphs(run.config.model.path)) then
    return false, "not_traceable", { error = why }
  end
  -- A suite's tasks need no rule of the expert: it is no judge of what others may be trained on.
  if composed and not experts.of(run.config.machine.target).answer(graph) then
    return false, "no_rule", facts
  end
  return true, "kept", facts
end

local function at_once(run)
  return run.config.judge.jobs > 0 and run.config.judge.jobs or AT_ONCE
end

-- In order of composition until the set is full; what is left over has a reason of its own.
local function filter_all(run)
  local rows, reasons, kept = assert(run.store:list("tasks")), {}, {}
  local bar = progress.begin("filter", #rows)
  sched.map(rows, function(row)
    if row.status == "composed" then
      local keep, reason, facts = decide(run, row)
      row.status, row.reason, row.facts = keep and "kept" or "dropped", reason, facts
      row.eager_s = facts and facts.run and facts.run.eager_s
      assert(run.store:put("tasks", row.id, row))
    end
    bar:add(1)
  end, { limit = at_once(run), on_failure = "raise" })
  bar:finish()
  table.sort(rows, function(a, b) return a.id < b.id end)
  for _, row in ipairs(rows) do
    if row.status == "kept" then
      kept[row.split] = (kept[row.split] or 0) + 1
      if kept[row.split] > run.config.tasks[row.split] then
        kept[row.split] = kept[row.split] - 1
        row.status, row.reason = "dropped", "set_is_full"
        assert(run.store:put("tasks", row.id, row))
      end
    end
    reasons[row.reason] = (reasons[row.reason] or 0) + 1
  end
  return rows, reasons, kept
end

-- What reward 2 takes: a time well between compile's and eager's. Nil where they lie too close for one.
local ROOM_BETWEEN = 1.08   -- on each side of it
local TRIES_BETWEEN = 3

local function time_between(verdict)
  local eager, compile = verdict.times.eager_s, verdict.times.compile_s
  local middle = eager and compile and math.sqrt(eager / 1.05 * compile / 1.05)
  return middle and middle * ROOM_BETWEEN < eager / 1.05 and middle or nil
end

-- The variants of the expert on one task, then its fast kernel repeated until it takes a time between compile's and
-- eager's: reward -> what earned it.
local function show_rewards(run, task, found)
  local function try(name, files)
    if not files then
      return nil
    end
    local verdict = run.judging:verdict(task, files, { measure = true, reuse = true })
    local reward = run.reward:score({ verdict = verdict }, 0)
    if reward and not found[reward] then
      found[reward] = ("%s of %s, %.2fx eager, %.2fx compile"):format(name, task.name, verdict.speedup.eager or 0,
        verdict.speedup.compile or 0)
    end
    return reward and reward > 0 and verdict or nil
  end
  local target = run.config.machine.target
  local order = experts.of(target).ORDER
  local fast = try(order[#order], experts.write(target, task.graph, order[#order]))
  for index = #order - 1, 1, -1 do
    if not found[index == 1 and 1 or 3] then
      try(order[index], experts.write(target, task.graph, order[index]))
    end
  end
  -- Only the CPU's expert can repeat its work.
  local middle = target == "cpu" and fast and not found[2] and time_between(fast)
  if not middle or fast.times.candidate_s > middle then
    return
  end
  -- A second pass finds in the cache what the first one read: the factor is corrected by what it took.
  local times = middle / fast.times.candidate_s
  for _ = 1, TRIES_BETWEEN do
    local verdict = try(("fast, %.1f times,"):format(times), expert.repeated(task.graph, "fast", times))
    if found[2] or not verdict then
      return
    end
    times = math.max(1, 1 + (times - 1) * middle / verdict.times.candidate_s)
  end
end

-- For a family the expert's kernels that earn 1, 2 and 3, on as few tasks as that takes. The longer a task, the more
-- torch.compile gains on eager and the more room there is between the two: those come first.
local function witness(run, family, tasks)
  local found, order = {}, {}
  for index, task in ipairs(tasks) do
    order[index] = task
  end
  table.sort(order, function(a, b)
    if #a.graph.nodes ~= #b.graph.nodes then
      return #a.graph.nodes > #b.graph.nodes
    end
    return a.id < b.id
  end)
  for index = 1, math.min(#order, run.config.tasks.witnesses) do
    show_rewards(run, order[index], found)
    if found[1] and found[2] and found[3] then
      break
    end
  end
  return { family, found[1] or "-", found[2] or "-", found[3] or "-" }, found[1] and found[2] and found[3]
end

local function timed_by_family(rows)
  local families, order = {}, {}
  for _, row in ipairs(rows) do
    if row.status == "kept" and row.timed and row.graph then
      if not families[row.family] then
        families[row.family] = {}
        order[#order + 1] = row.family
      end
      table.insert(families[row.family], row)
    end
  end
  table.sort(order)
  return families, order
end

local stage = { name = "filter", summary = "drops tasks that teach nothing, with a reason each" }

function stage.execute(run)
  run:need("synthesize")
  local rows, reasons, kept = filter_all(run)
  local families, order = timed_by_family(rows)
  local witnesses, complete, bar = {}, {}, progress.begin("rewards 1, 2 and 3 by family", #order)
  -- Side by side, since most of the time goes into torch.compile.
  sched.map(order, function(family, index)
    witnesses[index], complete[index] = witness(run, family, families[family])
    bar:add(1)
  end, { limit = at_once(run), on_failure = "raise" })
  bar:finish()
  for index, family in ipairs(order) do
    if not complete[index] and #order > 1 and run.config.tasks.drop_families then
      for _, row in ipairs(families[family]) do
        row.status, row.reason = "dropped", "family_without_all_rewards"
        reasons.kept, reasons[row.reason] = reasons.kept - 1, (reasons[row.reason] or 0) + 1
        assert(run.store:put("tasks", row.id, row))
      end
    elseif not complete[index] then
      log.warn("family_without_all_rewards", { family = family })
    end
  end
  if not kept.train or not kept.test or not kept.held_out then
    error("filter: a set is empty; raise tasks.spare or widen tasks.eager_ms", 0)
  end
  return { kept = kept, reasons = reasons, tables = { tables.counts("Tasks by reason", "reason", reasons),
    tables.counts("Tasks kept", "set", kept),
    { title = "A kernel for each reward", columns = { "family", "1", "2", "3" }, rows = witnesses } } }
end

return pipeline.standalone(stage)
