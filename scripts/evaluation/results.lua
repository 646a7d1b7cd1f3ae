-- What an evaluation found, task by task, and the tables made of it: the paper's table 1 by level and overall, fast_p,
-- CSV and JSON with absolute times and failures.

local best = require "judge.best"
local csv = require "evaluation.csv"
local json = require "khost.json"
local metrics = require "evaluation.metrics"
local verdicts = require "judge.verdict"

local results = {}

local COLUMNS = { "task", "level", "sample", "status", "stage", "reason", "correct", "rules", "own_share",
  "candidate_s", "eager_s", "compile_s", "speedup_eager", "speedup_compile", "faster_eager", "faster_compile", "tokens",
  "cost", "turns", "seconds", "detail" }

local function faster_of(verdict)
  local out = {}
  for side in pairs(verdict.faster or {}) do
    out[side] = verdicts.is_faster(verdict, side)
  end
  return out
end

--- One record a task and sample.
---@param task {id: string, level?: integer}
---@param sample integer
---@param verdict table
---@param effort? {tokens?: integer, cost?: number, turns?: integer, seconds?: number}
---@return Result
function results.of(task, sample, verdict, effort)
  effort = effort or {}
  return { task = task.id, level = task.level, sample = sample, status = verdict.status, stage = verdict.stage,
    reason = verdict.reason, detail = verdict.detail, correct = verdicts.passed(verdict), times = verdict.times or {},
    speedup = verdict.speedup or {}, faster = faster_of(verdict), speed = verdict.speed, tokens = effort.tokens,
    cost = effort.cost, turns = effort.turns, seconds = effort.seconds, rules = verdict.rules or "own",
    own_share = verdict.own_share }
end

--- Of several samples of a task the best, by judge.best.
---@param list Result[]
---@return Result[]
function results.best(list)
  local by_task, order = {}, {}
  for _, r in ipairs(list) do
    local known = by_task[r.task]
    order[#order + 1] = not known and r.task or nil
    by_task[r.task] = best.better(r, known) and r or known
  end
  local out = {}
  for index, id in ipairs(order) do
    out[index] = by_task[id]
  end
  return out
end

--- Those that count, and how many do not: a task that nothing could be said about is in no rate, and the table says how
--- many there were.
---@param list Result[]
---@return Result[] counted, integer left_out
function results.counted(list)
  local out = {}
  for _, r in ipairs(list) do
    if verdicts.counts(r) then
      out[#out + 1] = r
    end
  end
  return out, #list - #out
end

---@param list Result[]
---@return string
function results.csv(list)
  local records = {}
  for index, r in ipairs(list) do
    records[index] = { task = r.task, level = r.level, sample = r.sample, status = r.status, stage = r.stage,
      reason = r.reason, correct = r.correct, rules = r.rules, own_share = r.own_share,
      candidate_s = r.times.candidate_s, eager_s = r.times.eager_s,
      compile_s = r.times.compile_s, speedup_eager = r.speedup.eager, speedup_compile = r.speedup.compile,
      faster_eager = r.faster.eager, faster_compile = r.faster.compile, tokens = r.tokens, cost = r.cost,
      turns = r.turns,
      seconds = r.seconds, detail = (r.detail or ""):sub(1, 500) }
  end
  return csv.text(COLUMNS, records)
end

local function percent(figure)
  return ("%.1f %% (%.0f-%.0f)"):format(100 * figure.value, 100 * figure.low, 100 * figure.high)
end

local function times(figure)
  if not figure.value then
    return "-"
  end
  return figure.low and ("%.2fx (%.2f-%.2f)"):format(figure.value, figure.low, figure.high)
    or ("%.2fx"):format(figure.value)
end

local function row(subset, name, s)
  return { subset, name, tostring(s.tasks), percent(s.pass), percent(s.faster.eager), percent(s.faster.compile),
    times(s.speedup.eager), times(s.speedup.compile) }
end

-- Of all samples, divided by tasks. No cost where none of them has a price.
local function effort_of(list)
  local sum, tasks, seen, priced = { tokens = 0, seconds = 0, cost = 0 }, 0, {}, false
  for _, r in ipairs(list) do
    for name in pairs(sum) do
      sum[name] = sum[name] + (r[name] or 0)
    end
    priced = priced or r.cost ~= nil
    tasks, seen[r.task] = tasks + (seen[r.task] and 0 or 1), true
  end
  for name, value in pairs(sum) do
    sum[name] = value / math.max(1, tasks)
  end
  sum.cost = priced and sum.cost or nil
  return sum
end

results.SPLIT = 0.1  -- of the time in own kernels: with less, it is torch's operators that were timed

local function rules_of(policies)
  for _, policy in ipairs(policies) do
    if policy.results[1] then
      return policy.results[1].rules or "own"
    end
  end
  return "own"
end

-- By the rule set `mixed`: those that are right, split by their own kernels' share of the time.
local function by_share(policies)
  local rows = {}
  for _, policy in ipairs(policies) do
    local parts = { { "10 % or more", {} }, { "less than 10 %", {} }, { "not measured", {} } }
    for _, r in ipairs((results.counted(results.best(policy.results)))) do
      local place = not r.own_share and 3 or r.own_share >= results.SPLIT and 1 or 2
      parts[place][2][#parts[place][2] + 1] = r.correct and r or nil
    end
    for _, part in ipairs(parts) do
      local _, all = metrics.by_level(part[2])
      rows[#rows + 1] = { policy.name, part[1], tostring(#part[2]), #part[2] > 0 and times(all.speedup.eager) or "-",
        #part[2] > 0 and times(all.speedup.compile) or "-" }
    end
  end
  return { title = "Right, by the share of the time in own kernels (rules mixed)",
    columns = { "policy", "share", "tasks", "x eager", "x compile" }, rows = rows }
end

--- Tables for policies: {name, results (all samples)}. Figures are of the best sample of each task, intervals over
--- tasks at 95 %. By the rule set `mixed` there is one more, split at results.SPLIT.
---@param policies {name: string, results: Result[]}[]
---@return {title: string, columns: string[], rows: string[][]}[]
function results.tables(policies)
  local main, fast, effort, left_out = {}, {}, {}, 0
  for _, policy in ipairs(policies) do
    local counted, missing = results.counted(results.best(policy.results))
    left_out = left_out + missing
    local levels, all, weighted = metrics.by_level(counted)
    for _, level in ipairs(#levels > 1 and levels or {}) do
      main[#main + 1] = row("level " .. level.level, policy.name, level.summary)
    end
    local overall = row("overall", policy.name, all)
    if weighted and weighted.speedup.eager and #levels > 1 then
      -- Levels joined by the weight of their tasks, as the paper's overall row.
      overall[7] = ("%.2fx"):format(weighted.speedup.eager)
      overall[8] = weighted.speedup.compile and ("%.2fx"):format(weighted.speedup.compile) or "-"
    end
    main[#main + 1] = overall
    for _, side in ipairs(metrics.SIDES) do
      local cells = { policy.name, side }
      for index in ipairs(metrics.THRESHOLDS) do
        cells[index + 2] = ("%.1f %%"):format(100 * all.fast_p[side][index])
      end
      fast[#fast + 1] = cells
    end
    local spent = effort_of(policy.results)
    effort[#effort + 1] = { policy.name, ("%.0f"):format(spent.tokens),
      spent.cost and ("%.4f"):format(spent.cost) or "-", ("%.1f"):format(spent.seconds),
      tostring(missing) }
  end
  local thresholds = { "policy", "against" }
  for index, p in ipairs(metrics.THRESHOLDS) do
    thresholds[index + 2] = ("fast_%g"):format(p)
  end
  local rules = rules_of(policies)
  return { { title = ("Table 1 (95 %% intervals over tasks, rules %s)"):format(rules), columns = { "subset", "policy",
      "tasks", "pass", "faster than eager", "faster than compile", "x eager", "x compile" }, rows = main },
    { title = ("fast_p: correct and more than p times as fast (rules %s)"):format(rules), columns = thresholds,
      rows = fast },
    { title = "Effort", columns = { "policy", "tokens a task", "cost a task", "seconds a task", "tasks not counted" },
      rows = effort }, rules == "mixed" and by_share(policies) or nil }
end

--- Everything as one JSON text.
---@param policies {name: string, results: Result[]}[]
---@param hardware table
---@return string
function results.json(policies, hardware)
  local out = { hardware = hardware, policies = {} }
  for index, policy in ipairs(policies) do
    local levels, all, weighted = metrics.by_level((results.counted(results.best(policy.results))))
    out.policies[index] = { name = policy.name, overall = all, weighted = weighted, levels = json.list(levels),
      thresholds = metrics.THRESHOLDS, results = json.list(policy.results) }
  end
  return json.encode(out, true) .. "\n"
end

return results
