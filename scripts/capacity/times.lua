-- Where the seconds of a simulation come from: measured ones of a run's store, drawn again with replacement, or means
-- that somebody gives, as exponential times.

local times = {}

--- Exponential times of a mean.
---@param stream table   lib.random
---@param mean number
---@return fun(): number
function times.exponential(stream, mean)
  return function() return -mean * math.log(1 - stream:number()) end
end

--- One of the measured times, each as likely as the others.
---@param stream table
---@param list number[]   not empty
---@return fun(): number
function times.measured(stream, list)
  return function() return list[stream:integer(1, #list)] end
end

local function mean(list)
  local sum = 0
  for _, value in ipairs(list) do
    sum = sum + value
  end
  return #list > 0 and sum / #list or nil
end

times.mean = mean

-- Seconds of the judge's steps, of verdicts that have them. A build that came from the cache is none.
local function of_verdicts(run, found)
  for _, verdict in run:each("verdicts") do
    local wall = verdict.wall_s or {}
    if (wall.build or 0) > 0 then
      table.insert(found.build, wall.build + (wall.plan or 0))
    end
    if (wall.verify or 0) > 0 then
      table.insert(found.verify, wall.verify)
    end
    if (wall.time or 0) > 0 then
      table.insert(found.time, (wall.verify or 0) + wall.time)
    end
  end
end

-- Turns of episodes, tokens of an answer, and how often a turn asked the judge.
local function of_trajectories(run, found)
  local asked, count = 0, 0
  for _, row in run:each("trajectories", { columns = { "id", "turn_count" } }) do
    if (row.turn_count or 0) > 0 then
      table.insert(found.turns, row.turn_count)
    end
  end
  for _, turn in run:each("turns") do
    count = count + 1
    if (turn.token_count or 0) > 0 then
      table.insert(found.tokens, turn.token_count)
    end
    local is_asking = turn.tool == "files"
    for _, call in ipairs(turn.calls or {}) do
      local command = type(call.arguments) == "table" and tostring(call.arguments.command or "") or ""
      is_asking = is_asking or command:find("utils.verification", 1, true) ~= nil
        or command:find("utils.profiling", 1, true) ~= nil
    end
    asked = asked + (is_asking and 1 or 0)
  end
  found.requests = count > 0 and asked / count or nil
end

--- What a run measured: lists of seconds `build`, `verify` and `time` (a timed verdict, with its verification), `turns`
--- and `tokens` of answers, and the share of turns that asked the judge. Lists may be empty.
---@param run khost.Store
---@return {build: number[], verify: number[], time: number[], turns: number[], tokens: number[], requests?: number}
function times.of_run(run)
  local found = { build = {}, verify = {}, time = {}, turns = {}, tokens = {} }
  of_verdicts(run, found)
  of_trajectories(run, found)
  return found
end

return times
