-- Which candidate is the best: the one rule of searches, of episodes whose best state counts, and of tables over
-- several samples of a task.
--
-- What passed comes before what did not, what counts before what does not. Of two that passed, the one with the greater
-- speed-up over the faster of its baselines (the paper's choice where both were timed, since all candidates of a task
-- have the same baselines). The first of equals stays.

local client = require "judge.client"
local verdicts = require "judge.verdict"

local best = {}

best.JUDGED = 3  -- states of one episode that are judged at most, the latest

-- 0 for what passed without a time.
local function speed(record)
  local least
  for _, side in ipairs { "eager", "compile" } do
    local ratio = verdicts.speedup(record, side)
    least = ratio and math.min(least or ratio, ratio) or least
  end
  return least or 0
end

--- What a verdict is worth beside others of its task; greater is better.
---@param record table   a verdict, or a result that has its status and speed-ups
---@return number
function best.score(record)
  if verdicts.passed(record) then
    return speed(record)
  end
  return verdicts.counts(record) and -1 or -2
end

--- Whether the first is better than the second; anything is better than nothing.
---@param record table
---@param other table|nil
---@return boolean
function best.better(record, other)
  return not other or best.score(record) > best.score(other)
end

--- The states of an episode that may be its best: distinct, those that its agent did not find wrong, the latest first;
--- without any, what stands in the end.
---@param world table   agent.environment
---@return {files: table<string, string>, artefact: string}[]
function best.states(world)
  local list, seen = {}, {}
  local function add(files)
    local artefact = files and client.artefact(files)
    if artefact and not seen[artefact] then
      seen[artefact] = true
      list[#list + 1] = { files = files, artefact = artefact }
    end
  end
  for index = #world.states, 1, -1 do
    if world.states[index].correct ~= false then
      add(world.states[index].files)
    end
  end
  if #list == 0 then
    add(world.candidate())
  end
  return list
end

--- The best state by verdicts of their own: what the agent was shown decides nothing. nil when there is no state.
---@async
---@param states {files: table<string, string>, artefact: string}[]
---@param most integer
---@param verdict_of fun(state: table): table
---@return {files: table<string, string>, verdict: table}|nil
function best.of(states, most, verdict_of)
  local found
  for index = 1, math.min(#states, most) do
    local verdict = verdict_of(states[index])
    if best.better(verdict, found and found.verdict) then
      found = { files = states[index].files, verdict = verdict }
    end
  end
  return found
end

return best
