-- Trajectories as plain data for the page to show turn by turn. A store may hold a hundred thousand; the page gets a
-- sample in which every way to end and every reward of every stage occurs, as far as its budget of bytes goes.

local diff = require "lib.diff"
local json = require "khost.json"

local trajectories = {}

trajectories.BUDGET = 500e3  -- bytes of text of one run's sample
local EACH = 16              -- at most, of one stage, ending and reward
local MOST_TEXT = 16000      -- bytes of one text

-- Of a stretch of EACH: its end, its start and its middle come first, so that a small budget still spans the stage.
local ORDER = { 16, 1, 8, 12, 4, 14, 2, 6, 10, 15, 3, 5, 7, 9, 11, 13 }

local function cut(text)
  if type(text) ~= "string" then
    return text ~= nil and json.encode(text) or nil
  end
  if #text <= MOST_TEXT then
    return text
  end
  local half = MOST_TEXT / 2
  return ("%s\n[%d bytes are left out; khost show prints them]\n%s"):format(text:sub(1, half), #text - MOST_TEXT,
    text:sub(-half))
end

local function calls_of(turn)
  local list = {}
  for index, call in ipairs(turn.calls or {}) do
    local arguments, names = {}, {}
    for name in pairs(call.arguments or {}) do
      names[#names + 1] = name
    end
    table.sort(names)
    for place, name in ipairs(names) do
      arguments[place] = { name = name, text = cut(call.arguments[name]) }
    end
    list[index] = { name = call.name or "(unreadable call)", status = call.status, label = call.label,
      arguments = json.list(arguments), observation = cut(call.observation) }
  end
  return json.list(list)
end

-- Whether the answer of a turn shows a text whole, in what was said or in an argument of a call.
local function shows(turn, text)
  if (turn.text or ""):find(text, 1, true) then
    return true
  end
  for _, call in ipairs(turn.calls or {}) do
    for _, value in pairs(call.arguments or {}) do
      if value == text then
        return true
      end
    end
  end
  return false
end

-- The difference that a turn made to the files, without new files that its answer shows whole.
local function changes_of(turn, files)
  local paths, parts = {}, {}
  for path in pairs(turn.changes or {}) do
    paths[#paths + 1] = path
  end
  table.sort(paths)
  for _, path in ipairs(paths) do
    local text = turn.changes[path]
    if files[path] or not text or not shows(turn, text) then
      parts[#parts + 1] = diff.unified(path, files[path], text)
    end
    files[path] = text or nil
  end
  return #parts > 0 and cut(table.concat(parts)) or nil
end

local function turns_of(record)
  local list, files = {}, {}
  for path, text in pairs(record.start or {}) do
    files[path] = text
  end
  for index, turn in ipairs(record.turns or {}) do
    local calls = calls_of(turn)
    list[index] = { index = turn.index or index, thought = cut(turn.thought), text = cut(turn.text), calls = calls,
      tool = turn.tool, observation = #calls == 0 and cut(turn.observation) or nil, status = turn.status,
      label = turn.label, seconds = turn.seconds, tokens = turn.token_count, diff = changes_of(turn, files) }
  end
  return json.list(list)
end

local function prompt_of(record)
  local list = {}
  for index, message in ipairs(record.prompt or {}) do
    list[index] = { role = message.role or "message", text = cut(message.content or message.text or "") }
  end
  return json.list(list)
end

local function learnt(record)
  local count = 0
  for _, flag in ipairs(record.mask or {}) do
    count = count + (flag ~= 0 and 1 or 0)
  end
  return record.mask and count or nil
end

--- A stored trajectory without its numbers, for reading.
---@param record table   of store:get("trajectories", id)
---@return table
function trajectories.describe(record)
  local verdict = record.verdict or {}
  return { id = record.id, stage = record.stage, step = record.step, index = record.index, task = record.task,
    name = record.name or record.task or "", policy = record.policy, status = record.status, reason = record.reason,
    error = cut(record.error), reward = record.reward, void = record.void, turn_count = record.turn_count,
    tokens = record.token_count, learnt = learnt(record), seconds = record.seconds, labels = record.labels,
    prompt = prompt_of(record), turns = turns_of(record),
    verdict = { status = verdict.status, stage = verdict.stage, reason = verdict.reason, detail = cut(verdict.detail),
      speed = verdict.speed, times = verdict.times, speedup = verdict.speedup } }
end

-- Ids in the order in which they are worth their bytes.
local function candidates(run)
  local rows = assert(run:query([[SELECT id, rank FROM (SELECT id, n * ?1 / max(total, ?1) AS rank,
      total <= ?1 OR n * ?1 / total <> (n - 1) * ?1 / total AS chosen, n, total FROM (
        SELECT id, row_number() OVER w AS n, count(*) OVER (PARTITION BY stage, status, round(reward)) AS total
        FROM trajectories WINDOW w AS (PARTITION BY stage, status, round(reward) ORDER BY id)))
    WHERE chosen ORDER BY id]], { EACH }))
  local place = {}
  for at, rank in ipairs(ORDER) do
    place[rank] = at
  end
  for _, row in ipairs(rows) do
    row.place = place[row.rank] or 0  -- a group that is small comes whole
  end
  table.sort(rows, function(a, b)
    if a.place ~= b.place then
      return a.place < b.place
    end
    return a.id < b.id
  end)
  return rows
end

--- A sample of a run's trajectories, by id.
---@param run khost.Store
---@param wanted integer[]   ids that must be in it
---@param budget? integer    bytes of text
---@return {total: integer, list: table[]}
function trajectories.sample(run, wanted, budget)
  local left, seen, list = budget or trajectories.BUDGET, {}, {}
  local function take(id)
    local record = not seen[id] and run:get("trajectories", id)
    if record then
      local described = trajectories.describe(record)
      local size = #json.encode(described)
      if size <= left or #list == 0 then
        seen[id], left, list[#list + 1] = true, left - size, described
      end
      return left > 2000
    end
    return true
  end
  for _, id in ipairs(wanted) do
    take(id)
  end
  for _, row in ipairs(candidates(run)) do
    if not take(row.id) then
      break
    end
  end
  table.sort(list, function(a, b) return a.id < b.id end)
  return { total = assert(run:count("trajectories")), list = json.list(list) }
end

return trajectories
