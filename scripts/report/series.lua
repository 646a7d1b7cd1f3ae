-- What a run's store says over its steps: curves of metrics, rewards and verdicts by step. Long ones are thinned here,
-- so that a page of a long run stays small; how many points there were travels along.

local json = require "khost.json"

local series = {}

series.MOST_POINTS = 400  -- of one curve
series.MOST_STEPS = 120   -- columns of one stack
series.MOST_LEVELS = 10   -- layers of one stack

-- The points with the least and the greatest value of every bucket, so that no spike is lost.
local function thin(points, most)
  if #points <= most then
    return points
  end
  local kept, buckets = {}, math.floor(most / 2)
  for bucket = 1, buckets do
    local first = math.floor((bucket - 1) * #points / buckets) + 1
    local last = math.floor(bucket * #points / buckets)
    local low, high = first, first
    for index = first, last do
      low = points[index][2] < points[low][2] and index or low
      high = points[index][2] > points[high][2] and index or high
    end
    kept[#kept + 1] = points[math.min(low, high)]
    kept[#kept + 1] = low ~= high and points[math.max(low, high)] or nil
  end
  -- The last value is what tables quote.
  kept[#kept] = points[#points]
  return kept
end

local function close_curve(curve)
  local points, x, y = thin(curve.points, series.MOST_POINTS), {}, {}
  for index, point in ipairs(points) do
    x[index], y[index] = point[1], point[2]
  end
  return { stage = curve.stage, name = curve.name, points = #curve.points, x = json.list(x), y = json.list(y) }
end

--- Every metric of every stage as one curve, in the order of stage and name. Of a step that was stored twice, because a
--- run was resumed, the later value counts.
---@param run khost.Store
---@return {stage: string, name: string, points: integer, x: number[], y: number[]}[]   points: before thinning
function series.curves(run)
  local list, curve = {}, nil
  for _, row in ipairs(assert(run:query [[SELECT coalesce(stage, '') AS stage, name, step, value FROM metrics
      WHERE value IS NOT NULL AND abs(value) < 1e300 ORDER BY stage, name, step, id]])) do
    if not curve or curve.stage ~= row.stage or curve.name ~= row.name then
      curve = { stage = row.stage, name = row.name, points = {} }
      list[#list + 1] = curve
    end
    local last = curve.points[#curve.points]
    if last and row.step and last[1] == row.step then
      last[2] = row.value
    else
      curve.points[#curve.points + 1] = { row.step or #curve.points + 1, row.value }
    end
  end
  for index, item in ipairs(list) do
    list[index] = close_curve(item)
  end
  return json.list(list)
end

local MOST_STEPS_OF_A_POLICY = 4

-- Rows by stage, each with the columns that occur in it: steps, or policies in an evaluation, where several of them
-- play few steps each.
local function by_stage(rows)
  local list, stacks = {}, {}
  for _, row in ipairs(rows) do
    local stack = stacks[row.stage]
    if not stack then
      stack = { stage = row.stage, rows = {}, kinds = { step = 0, policy = 0 }, seen = {} }
      stacks[row.stage], list[#list + 1] = stack, stack
    end
    for kind, value in pairs { step = "step " .. (row.step or 0), policy = "policy " .. row.policy } do
      stack.kinds[kind] = stack.kinds[kind] + (stack.seen[value] and 0 or 1)
      stack.seen[value] = true
    end
    stack.rows[#stack.rows + 1] = row
  end
  for _, stack in ipairs(list) do
    local place = {}
    local policies = stack.kinds.policy
    stack.unit = policies > 1 and stack.kinds.step <= MOST_STEPS_OF_A_POLICY * policies and "policy" or "step"
    stack.columns = {}
    for _, row in ipairs(stack.rows) do
      row.column = stack.unit == "policy" and row.policy or row.step or 0
      if not place[row.column] then
        stack.columns[#stack.columns + 1] = row.column
        place[row.column] = #stack.columns
      end
      row.place = place[row.column]
    end
  end
  return list
end

-- Rows {stage, step, policy, level, n} as one stack a stage. Neighbouring columns are joined when there are too many.
local function stacks(rows, levels)
  local list = by_stage(rows)
  for index, stack in ipairs(list) do
    local columns = math.min(#stack.columns, series.MOST_STEPS)
    local labels, counts = {}, {}
    local function joined(place)
      return math.ceil(place * columns / #stack.columns)
    end
    for place, label in ipairs(stack.columns) do
      labels[joined(place)] = labels[joined(place)] or label
    end
    for level = 1, #levels do
      counts[level] = json.list {}
      for column = 1, columns do
        counts[level][column] = 0
      end
    end
    for _, row in ipairs(stack.rows) do
      local layer, column = counts[row.level], joined(row.place)
      layer[column] = layer[column] + row.n
    end
    list[index] = { stage = stack.stage, unit = stack.unit, steps = #stack.columns, x = json.list(labels),
      counts = json.list(counts) }
  end
  return json.list(list)
end

local function number(value)
  return (("%.3g"):format(value))
end

-- Names of reward levels and the function from a reward to its level. A scheme with many different rewards gets ranges
-- of equal width.
local function levels_of(values)
  local names, place = {}, {}
  if #values <= series.MOST_LEVELS - 1 then
    for index, value in ipairs(values) do
      names[index], place[value] = number(value), index
    end
    return names, function(reward) return place[reward] end
  end
  local low, high, bins = values[1], values[#values], series.MOST_LEVELS - 2
  local width = (high - low) / bins
  for bin = 1, bins do
    names[bin] = ("%s to %s"):format(number(low + (bin - 1) * width), number(low + bin * width))
  end
  return names, function(reward) return math.min(bins, math.floor((reward - low) / width) + 1) end
end

--- How many trajectories of every step got which reward; the last level is those without one.
---@param run khost.Store
---@return {levels: string[], stages: table[]}   stages: {stage, unit = "step" | "policy",
---steps, x, counts[level][column]}; steps: columns before some were joined
function series.rewards(run)
  local values = {}
  for index, row in ipairs(assert(run:query
    "SELECT DISTINCT reward AS value FROM trajectories WHERE reward IS NOT NULL ORDER BY reward")) do
    values[index] = row.value
  end
  local names, level_of = levels_of(values)
  names[#names + 1] = "no reward"
  local rows = assert(run:query [[SELECT coalesce(stage, '') AS stage, step, coalesce(policy, '') AS policy, reward,
    count(*) AS n FROM trajectories GROUP BY stage, step, policy, reward
    ORDER BY (SELECT min(s.started_s) FROM stages s WHERE s.name = trajectories.stage),
    stage, step]])
  for _, row in ipairs(rows) do
    row.level = row.reward and level_of(row.reward) or #names
  end
  return { levels = json.list(names), stages = stacks(rows, names) }
end

--- How many verdicts of every step had which status, in the order of the judge's own table; words that it does not know
--- come last.
---@param run khost.Store
---@param words string[]   the judge's statuses
---@return {levels: string[], stages: table[]}
function series.statuses(run, words)
  local rows = assert(run:query [[SELECT coalesce(stage, '') AS stage, step, coalesce(policy, '') AS policy,
    coalesce(status, '') AS status, count(*) AS n FROM verdicts GROUP BY stage, step, policy, status
    ORDER BY (SELECT min(s.started_s) FROM stages s WHERE s.name = verdicts.stage), stage, step]])
  local seen, names, place = {}, {}, {}
  for _, row in ipairs(rows) do
    seen[row.status] = true
  end
  local function add(word)
    if seen[word] and not place[word] then
      names[#names + 1] = word
      place[word] = #names
    end
  end
  for _, word in ipairs(words) do
    add(word)
  end
  for _, row in ipairs(rows) do
    add(row.status)
    row.level = place[row.status]
  end
  return { levels = json.list(names), stages = stacks(rows, names) }
end

return series
