-- Two runs over the same tasks, task by task: which solved what the other did not, and whose kernels are faster where
-- both are correct. Pairs take the difficulty of a task out of the comparison.

local metrics = require "evaluation.metrics"

local paired = {}

-- The best correct time of each task, and which tasks were judged at all.
local function by_task(rows)
  local out = {}
  for _, row in ipairs(rows) do
    local entry = out[row.task] or { correct = false }
    out[row.task] = entry
    if row.correct == true or row.correct == 1 then
      entry.correct = true
      if row.candidate_s and row.candidate_s > 0 then
        entry.seconds = math.min(entry.seconds or math.huge, row.candidate_s)
      end
    end
  end
  return out
end

---@class (exact) Pairing
---@field tasks integer         judged in both
---@field both integer          solved by both
---@field only_a integer
---@field only_b integer
---@field timed integer         solved and timed in both
---@field ratio number|nil      geometric mean of A's time over B's: above 1, B's kernels are faster
---@field low number|nil        95 % over tasks
---@field high number|nil
---@field b_faster integer      by more than 5 %
---@field a_faster integer

--- Rows: {task, correct, candidate_s?}. A task that stands several times counts with its best.
---@param a table[]
---@param b table[]
---@return Pairing
function paired.compare(a, b)
  local left, right = by_task(a), by_task(b)
  local out = { tasks = 0, both = 0, only_a = 0, only_b = 0, timed = 0, a_faster = 0, b_faster = 0 }
  local ids, ratios, sum = {}, {}, 0
  for id in pairs(left) do
    ids[#ids + 1] = right[id] and id or nil
  end
  table.sort(ids)
  for _, id in ipairs(ids) do
    local x, y = left[id], right[id]
    out.tasks = out.tasks + 1
    if x.correct and y.correct then
      out.both = out.both + 1
      if x.seconds and y.seconds then
        local ratio = x.seconds / y.seconds
        ratios[#ratios + 1], sum = ratio, sum + math.log(ratio)
        out.b_faster = out.b_faster + (ratio > 1.05 and 1 or 0)
        out.a_faster = out.a_faster + (ratio < 1 / 1.05 and 1 or 0)
      end
    elseif x.correct then
      out.only_a = out.only_a + 1
    elseif y.correct then
      out.only_b = out.only_b + 1
    end
  end
  out.timed = #ratios
  out.ratio = #ratios > 0 and math.exp(sum / #ratios) or nil
  out.low, out.high = metrics.interval_of_mean(ratios)
  return out
end

---@class (exact) Difference
---@field tasks integer   with values on both sides
---@field mean number     of B's task means minus A's
---@field low number      95 % over tasks: percentiles of a paired bootstrap; equal to the mean for one task
---@field high number

--- How much greater B's values are than A's, task by task. Rows: {task, value}; several rows of a task count as their
--- mean, rows without a value not at all. Nil where no task has both.
---@param a {task: string, value?: number}[]
---@param b {task: string, value?: number}[]
---@param stream lib.Random   of the bootstrap: the same stream gives the same interval
---@return Difference|nil
function paired.difference(a, b, stream)
  local left, right, ids = metrics.means_by_task(a), metrics.means_by_task(b), {}
  for task in pairs(left) do
    ids[#ids + 1] = right[task] and task or nil
  end
  if #ids == 0 then
    return nil
  end
  table.sort(ids)
  local deltas = {}
  for index, task in ipairs(ids) do
    deltas[index] = right[task] - left[task]
  end
  local low, high = metrics.bootstrap(deltas, stream)
  return { tasks = #ids, mean = metrics.mean(deltas), low = low, high = high }
end

return paired
