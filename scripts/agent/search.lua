-- One operator in, the best verified kernel out: episodes of a policy until time is out, each kept with its verdict, so
-- that a search that was stopped goes on where it was.

local best = require "judge.best"
local episode = require "agent.episode"
local sched = require "khost.sched"
local verdicts = require "judge.verdict"

local search = {}

local STAGE = "optimize"

---@class (exact) SearchOptions
---@field run khost.Store
---@field judge table            judge.client
---@field policy table
---@field task table             {id, name, source, graph?}
---@field target "cpu"|"cuda"
---@field limits? table          [limits] of the configuration
---@field seconds number         for all episodes together
---@field turns integer          of an episode
---@field episodes? integer      at most; as many as there is time for when absent
---@field seed integer
---@field say fun(text: string)

-- What earlier processes of this run left.
local function resumed(run)
  local top, played, spent = nil, 0, 0
  for index, trajectory in pairs(run:trajectories(STAGE, 0)) do
    local whole = run:get("trajectories", trajectory.id)
    local found = { verdict = whole.verdict, files = whole.verdict.files or {}, trajectory = whole.id,
      start = whole.start or {} }
    top = verdicts.passed(whole.verdict) and best.better(whole.verdict, top and top.verdict) and found or top
    played, spent = math.max(played, index), spent + (whole.seconds or 0)
  end
  return top, played, spent
end

local function outcome(index, verdict)
  local about = verdict.reason ~= "" and " " .. verdict.reason or ""
  if verdicts.passed(verdict) then
    about = (" %.2fx eager, %.2fx compile"):format(verdict.speedup.eager or 0, verdict.speedup.compile or 0)
  end
  return ("episode %d: %s%s"):format(index, verdict.status, about)
end

--- Searches. The best verdict with its files, the files it began with and its trajectory's id; nil when nothing was
--- correct.
---@async
---@param options SearchOptions
---@return table|nil best, integer episodes, string? trouble   what the policy failed with
function search.run(options)
  local run, task = options.run, { timed = true }
  for name, value in pairs(options.task) do
    task[name] = value
  end
  local setting = { judge = options.judge, store = run, seed = options.seed, target = options.target,
    limits = options.limits, policy = options.policy, stage = STAGE, step = 0, turns = options.turns, measure = true,
    reuse = false, pick = "best", salvage = true, whole = true, known = {}, say = options.say,
    draws = ("%d optimize"):format(options.seed) }
  local top, index, spent = resumed(run)
  local begin = sched.now()
  local most = options.policy.deterministic and 1 or options.episodes or math.huge
  while index < most do
    setting.seconds = options.seconds - spent - (sched.now() - begin)
    if setting.seconds <= 0 then
      break
    end
    index = index + 1
    local record = episode.play(setting, task, index)
    local verdict = record.verdict
    local found = { verdict = verdict, files = verdict.files or {}, start = record.start or {},
      trajectory = assert(run:append("trajectories", record)) }
    options.say(outcome(index, verdict))
    top = verdicts.passed(verdict) and best.better(verdict, top and top.verdict) and found or top
    if record.status == "env_error" then
      return top, index, record.error
    end
  end
  return top, index
end

return search
