-- The tables of a synthesised suite: composition (the paper's table 3), reasons, times, similarities (figure 7),
-- stages.

local library = require "synthesis.library"
local similarity = require "synthesis.similarity"
local stack = require "synthesis.stack"
local tables = require "evaluation.table"

local summary = {}

local EDGES_MS = { 0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000 }

local function percent(part, whole)
  return whole > 0 and ("%.2f %%"):format(100 * part / whole) or "-"
end

local function composition(tasks)
  local rows, composed, kept, all = {}, {}, {}, 0
  for _, task in ipairs(tasks) do
    composed[task.depth] = (composed[task.depth] or 0) + 1
    if task.status == "kept" then
      kept[task.depth], all = (kept[task.depth] or 0) + 1, all + 1
    end
  end
  for depth = 1, 5 do
    rows[depth] = { ("torch operators x %d"):format(depth), tostring(composed[depth] or 0), tostring(kept[depth] or 0),
      percent(kept[depth] or 0, all), ("%.2f %%"):format(stack.MIX[depth]) }
  end
  rows[6] = { "transformers operator", tostring(composed[0] or 0), tostring(kept[0] or 0), percent(kept[0] or 0, all),
    ("%.2f %%"):format(stack.MIX.transformers) }
  return { title = "Composition (table 3 of the paper)",
    columns = { "operators", "composed", "kept", "share", "paper" }, rows = rows }
end

--- Counts between the edges, one more bin than there are edges.
---@param values number[]
---@param edges number[]
---@return integer[]
function summary.bins(values, edges)
  local bins = {}
  for index = 1, #edges + 1 do
    bins[index] = 0
  end
  for _, value in ipairs(values) do
    local at = 1
    while at <= #edges and value >= edges[at] do
      at = at + 1
    end
    bins[at] = bins[at] + 1
  end
  return bins
end

local function bar(count, most)
  return ("#"):rep(most > 0 and math.ceil(40 * count / most) or 0)
end

local function histogram(title, labels, bins)
  local most, rows = 0, {}
  for _, count in ipairs(bins) do
    most = math.max(most, count)
  end
  for index, count in ipairs(bins) do
    rows[index] = { labels[index], tostring(count), bar(count, most) }
  end
  return { title = title, columns = { "", "tasks", "" }, rows = rows }
end

local function times(tasks)
  local values, labels = {}, {}
  for _, task in ipairs(tasks) do
    values[#values + 1] = task.eager_s and task.eager_s * 1e3
  end
  for index = 1, #EDGES_MS + 1 do
    labels[index] = index == 1 and ("below %g ms"):format(EDGES_MS[1])
      or index > #EDGES_MS and ("from %g ms"):format(EDGES_MS[#EDGES_MS])
      or ("%g to %g ms"):format(EDGES_MS[index - 1], EDGES_MS[index])
  end
  return histogram("Eager time of all that ran", labels, summary.bins(values, EDGES_MS))
end

local function similarities(tasks)
  local values, labels = {}, {}
  for _, task in ipairs(tasks) do
    values[#values + 1] = task.similarity
  end
  for index = 1, 10 do
    labels[index] = ("%.1f to %.1f"):format((index - 1) / 10, index / 10)
  end
  return #values > 0 and histogram("Greatest similarity to an evaluation task (figure 7)", labels,
    similarity.histogram(values)) or nil
end

local function reasons(tasks)
  local counts = {}
  for _, task in ipairs(tasks) do
    local name = task.status == "kept" and (task.repaired and "kept, repaired: " .. task.repaired or "kept")
      or ("%s: %s"):format(task.status, task.reason)
    counts[name] = (counts[name] or 0) + 1
  end
  return tables.counts("Tasks", "outcome", counts)
end

local function seconds(stages)
  local rows, sum = {}, 0
  for index, stage in ipairs(stages) do
    local counted = stage.tasks > 0
    rows[index] = { stage.name, ("%.1f s"):format(stage.seconds), counted and tostring(stage.tasks) or "",
      counted and stage.seconds > 0 and ("%.2f/s"):format(stage.tasks / stage.seconds) or "" }
    sum = sum + stage.seconds
  end
  rows[#rows + 1] = { "all", ("%.1f s"):format(sum), "", "" }
  return { title = "Time by stage", columns = { "stage", "time", "tasks", "rate" }, rows = rows }
end

-- What this run measured itself; the answers of a run before it cost nothing.
local function rate(made)
  local kept, sum = 0, 0
  for _, task in ipairs(made.tasks) do
    kept = kept + (task.status == "kept" and 1 or 0)
  end
  for _, stage in ipairs(made.stages) do
    sum = sum + stage.seconds
  end
  local where = made.device and " on one " .. made.device or ""
  if made.known > 0 then
    return ("%d tasks kept%s; %d of %d measurements were there already\n"):format(kept, where, made.known,
      made.known + made.measured)
  end
  return ("%d tasks kept%s in %.0f s: %.0f an hour\n"):format(kept, where, sum, kept * 3600 / sum)
end

---@class Made
---@field found table
---@field given_up integer
---@field tasks table[]
---@field stages table[]
---@field device? string
---@field measured integer
---@field known integer

--- All tables as text.
---@param made Made
---@return string
function summary.text(made)
  local list = library.tables(made.found)
  list[#list + 1] = composition(made.tasks)
  list[#list + 1] = reasons(made.tasks)
  list[#list + 1] = times(made.tasks)
  list[#list + 1] = similarities(made.tasks)
  list[#list + 1] = seconds(made.stages)
  local parts = {}
  for _, tab in ipairs(list) do
    parts[#parts + 1] = tab.title .. "\n" .. tables.text(tab.columns, tab.rows) .. "\n"
  end
  parts[#parts + 1] = rate(made)
  if made.given_up > 0 then
    parts[#parts + 1] = ("%d compositions were given up: nothing fitted\n"):format(made.given_up)
  end
  return table.concat(parts, "\n")
end

return summary
