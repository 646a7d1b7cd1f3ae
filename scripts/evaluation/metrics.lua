-- The figures by which kernels are compared, over one record a task:
--
--   pass rate     share of tasks with a correct solution
--   faster rate   share of tasks with a correct solution that the judge calls faster than the baseline
--   speed-up      geometric mean of baseline time over own time, over correct solutions only
--   fast_p        share of tasks with a correct solution whose speed-up exceeds p (a tie does not)
--
-- as KernelBench's score.py defines them, which a spec compares. Overall figures weight levels by their tasks: rates
-- arithmetically, speed-ups geometrically, which reproduces the paper's table 1 from its own rows. Intervals are over
-- tasks at 95 %: Wilson's for rates, Student's of the logarithms for speed-ups.

-- No other module computes a rate: verdicts, episodes and rows of a store are counted here, too.

local verdicts = require "judge.verdict"

local metrics = {}

---@class (exact) Result
---@field task string
---@field level? integer
---@field correct boolean
---@field times? {candidate_s?: number, eager_s?: number, compile_s?: number}
---@field speedup? table<string, number>    by side; where it is not given, of the times
---@field faster? table<string, boolean>    by side; else a speed-up over 1.05

metrics.SIDES = { "eager", "compile" }
metrics.THRESHOLDS = { 0, 0.5, 0.8, 1, 1.5, 2 }
local MARGIN = 1.05
local Z = 1.959963985

local function positive(value, what)
  if type(value) ~= "number" or not (value > 0 and value < math.huge) then
    error(("%s: a positive finite number expected, got %s"):format(what, tostring(value)), 0)
  end
  return value
end

--- The speed-up of the verdict, which is charged with the clock's slack; of results without one, baseline time over own
--- time. nil when the solution is wrong or was not timed. Values that are zero, infinite or no numbers are errors: a
--- mean over them would be a lie.
---@param result Result
---@param side string
---@return number|nil
function metrics.speedup(result, side)
  if not result.correct then
    return nil
  end
  local given = result.speedup and result.speedup[side]
  if given then
    return positive(given, result.task .. ": speed-up over " .. side)
  end
  local own, base = result.times and result.times.candidate_s, result.times and result.times[side .. "_s"]
  return own and base
    and positive(base, result.task .. ": time of " .. side) / positive(own, result.task .. ": own time")
end

local function geometric_mean(values)
  local sum = 0
  for _, value in ipairs(values) do
    sum = sum + math.log(value)
  end
  return #values > 0 and math.exp(sum / #values) or nil
end

--- The geometric mean of numbers, nil for none; raises for one that is not positive and finite.
---@param values number[]
---@return number|nil
function metrics.geometric_mean_of(values)
  for _, value in ipairs(values) do
    positive(value, "geometric mean")
  end
  return geometric_mean(values)
end

--- The mean, nil for none.
---@param values number[]
---@return number|nil
function metrics.mean(values)
  local sum = 0
  for _, value in ipairs(values) do
    sum = sum + value
  end
  return #values > 0 and sum / #values or nil
end

--- The mean of each task's values, by task; rows without a value count not at all.
---@param rows {task: string, value?: number}[]
---@return table<string, number>
function metrics.means_by_task(rows)
  local sums, counts = {}, {}
  for _, row in ipairs(rows) do
    if row.value then
      sums[row.task], counts[row.task] = (sums[row.task] or 0) + row.value, (counts[row.task] or 0) + 1
    end
  end
  for task, sum in pairs(sums) do
    sums[task] = sum / counts[task]
  end
  return sums
end

local DRAWS = 2000  -- of a bootstrap

--- The 95 % interval of a mean: percentiles of a bootstrap; the value itself for one value.
---@param values number[]      one a task, at least one
---@param stream lib.Random    the same stream gives the same interval
---@return number low, number high
function metrics.bootstrap(values, stream)
  local drawn = {}
  for draw = 1, DRAWS do
    local total = 0
    for _ = 1, #values do
      total = total + values[stream:integer(1, #values)]
    end
    drawn[draw] = total / #values
  end
  table.sort(drawn)
  return drawn[math.floor(DRAWS * 0.025) + 1], drawn[math.ceil(DRAWS * 0.975)]
end

--- Verdicts that count, as results: what says nothing about a candidate is in no rate.
---@param list table[]   verdicts
---@return Result[]
function metrics.counted(list)
  local out = {}
  for _, verdict in ipairs(list) do
    if verdicts.counts(verdict) then
      local result = { task = verdict.task or "?", correct = verdicts.passed(verdict), speedup = {}, faster = {} }
      for _, side in ipairs(metrics.SIDES) do
        result.speedup[side], result.faster[side] = verdicts.speedup(verdict, side), verdicts.is_faster(verdict, side)
      end
      out[#out + 1] = result
    end
  end
  return out
end

--- Speed-ups of the correct and timed solutions.
---@param results Result[]
---@param side string
---@return number[]
function metrics.speedups(results, side)
  local list = {}
  for _, result in ipairs(results) do
    list[#list + 1] = metrics.speedup(result, side)
  end
  return list
end

--- nil without a correct and timed solution.
---@param results Result[]
---@param side string
---@return number|nil
function metrics.geometric_mean(results, side)
  return geometric_mean(metrics.speedups(results, side))
end

--- Over those with a speed-up above 1; nil for none.
---@param results Result[]
---@param side string
---@return number|nil
function metrics.geometric_mean_of_faster(results, side)
  local list = {}
  for _, value in ipairs(metrics.speedups(results, side)) do
    list[#list + 1] = value > 1 and value or nil
  end
  return geometric_mean(list)
end

--- A share of all tasks; 0 for no task.
---@param results Result[]
---@param side string
---@param p number
---@return number
function metrics.fast_p(results, side, p)
  local count = 0
  for _, value in ipairs(metrics.speedups(results, side)) do
    count = count + (value > p and 1 or 0)
  end
  return #results > 0 and count / #results or 0
end

local function is_faster(result, side)
  if not result.correct then
    return false
  end
  if result.faster and result.faster[side] ~= nil then
    return result.faster[side]
  end
  return (metrics.speedup(result, side) or 0) > MARGIN
end

local function share(results, holds)
  local count = 0
  for _, result in ipairs(results) do
    count = count + (holds(result) and 1 or 0)
  end
  return count
end

--- Wilson's interval of a share at 95 %.
---@param count integer
---@param total integer
---@return number low, number high
function metrics.wilson(count, total)
  if total == 0 then
    return 0, 1
  end
  local p, z2 = count / total, Z * Z
  local middle = (p + z2 / (2 * total)) / (1 + z2 / total)
  local half = Z / (1 + z2 / total) * math.sqrt(p * (1 - p) / total + z2 / (4 * total * total))
  return math.max(0, middle - half), math.min(1, middle + half)
end

-- Student's t at 97.5 %: a table where the expansion in 1/freedom is not good yet.
local T = { 12.7062, 4.3027, 3.1824, 2.7764, 2.5706 }

local function student(freedom)
  if T[freedom] then
    return T[freedom]
  end
  local z = Z
  return z + (z ^ 3 + z) / (4 * freedom) + (5 * z ^ 5 + 16 * z ^ 3 + 3 * z) / (96 * freedom ^ 2)
    + (3 * z ^ 7 + 19 * z ^ 5 + 17 * z ^ 3 - 15 * z) / (384 * freedom ^ 3)
end

--- The 95 % interval of a geometric mean over tasks: Student's, of the logarithms; nil for fewer than two values.
---@param values number[]
---@return number|nil low, number|nil high
function metrics.interval_of_mean(values)
  local n, sum, squares = #values, 0, 0
  if n < 2 then
    return nil
  end
  for _, value in ipairs(values) do
    sum = sum + math.log(value)
  end
  local mean = sum / n
  for _, value in ipairs(values) do
    squares = squares + (math.log(value) - mean) ^ 2
  end
  local half = student(n - 1) * math.sqrt(squares / (n - 1) / n)
  return math.exp(mean - half), math.exp(mean + half)
end

---@class (exact) Figure
---@field value number|nil
---@field low number|nil
---@field high number|nil

---@class (exact) Summary
---@field tasks integer
---@field pass Figure
---@field faster table<string, Figure>
---@field speedup table<string, Figure>
---@field fast_p table<string, number[]>   in the order of metrics.THRESHOLDS

local function rate(results, holds)
  local count = share(results, holds)
  local low, high = metrics.wilson(count, #results)
  return { value = #results > 0 and count / #results or 0, low = low, high = high }
end

--- The figures of one set of tasks.
---@param results Result[]
---@return Summary
function metrics.summary(results)
  local out = { tasks = #results, pass = rate(results, function(r) return r.correct end), faster = {}, speedup = {},
    fast_p = {} }
  for _, side in ipairs(metrics.SIDES) do
    out.faster[side] = rate(results, function(r) return is_faster(r, side) end)
    local values = metrics.speedups(results, side)
    local low, high = metrics.interval_of_mean(values)
    out.speedup[side] = { value = geometric_mean(values), low = low, high = high }
    out.fast_p[side] = {}
    for index, p in ipairs(metrics.THRESHOLDS) do
      out.fast_p[side][index] = metrics.fast_p(results, side, p)
    end
  end
  return out
end

--- The share of right ones among verdicts that count, 0 for none; and how many count.
---@param list table[]   verdicts
---@return number rate, integer count
function metrics.pass_rate(list)
  local results = metrics.counted(list)
  return #results > 0 and share(results, function(r) return r.correct end) / #results or 0, #results
end

--- The row of the paper's table 1 over verdicts.
---@param list table[]
---@return {tasks: integer, pass_rate: number, faster: table<string, number>, speedup: table<string, number|nil>}
function metrics.table1(list)
  local s = metrics.summary(metrics.counted(list))
  local row = { tasks = s.tasks, pass_rate = s.pass.value, faster = {}, speedup = {} }
  for _, side in ipairs(metrics.SIDES) do
    row.faster[side], row.speedup[side] = s.faster[side].value, s.speedup[side].value
  end
  return row
end

--- Levels joined with the weight of their tasks. A level without a speed-up is left out of the speed-up.
---@param levels {tasks: integer, pass: number, faster: table<string, number>, speedup: table<string, number|nil>}[]
---@return {tasks: integer, pass: number, faster: table<string, number>, speedup: table<string, number|nil>}
function metrics.weighted(levels)
  local out = { tasks = 0, pass = 0, faster = {}, speedup = {} }
  for _, level in ipairs(levels) do
    out.tasks = out.tasks + level.tasks
  end
  for _, side in ipairs(metrics.SIDES) do
    local logs, weight = 0, 0
    out.faster[side] = 0
    for _, level in ipairs(levels) do
      out.faster[side] = out.faster[side] + level.tasks / out.tasks * level.faster[side]
      if level.speedup[side] then
        logs, weight = logs + level.tasks * math.log(level.speedup[side]), weight + level.tasks
      end
    end
    out.speedup[side] = weight > 0 and math.exp(logs / weight) or nil
  end
  for _, level in ipairs(levels) do
    out.pass = out.pass + level.tasks / out.tasks * level.pass
  end
  return out
end

--- Summaries by level, in order, and of all tasks. Results without a level stand only in the whole.
---@param results Result[]
---@return {level: integer, summary: Summary}[] levels, Summary all, table weighted
function metrics.by_level(results)
  local groups, order = {}, {}
  for _, result in ipairs(results) do
    local level = result.level
    if level then
      if not groups[level] then
        groups[level], order[#order + 1] = {}, level
      end
      table.insert(groups[level], result)
    end
  end
  table.sort(order)
  local levels, plain = {}, {}
  for index, level in ipairs(order) do
    local s = metrics.summary(groups[level])
    levels[index] = { level = level, summary = s }
    plain[index] = { tasks = s.tasks, pass = s.pass.value, faster = {}, speedup = {} }
    for _, side in ipairs(metrics.SIDES) do
      plain[index].faster[side], plain[index].speedup[side] = s.faster[side].value, s.speedup[side].value
    end
  end
  return levels, metrics.summary(results), #plain > 0 and metrics.weighted(plain) or nil
end

return metrics
