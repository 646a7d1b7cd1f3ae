-- One episode from a task to a stored trajectory with its verdict and reward.

local best = require "judge.best"
local environment = require "agent.environment"
local loop = require "agent.loop"
local random = require "lib.random"
local sandbox = require "khost.sandbox"
local template = require "lib.template"
local verdicts = require "judge.verdict"

local play = {}

---@class (exact) Setting
---@field run table          lib.pipeline: store, judging, reward, seed
---@field policy table
---@field stage string
---@field step integer
---@field turns integer      1 = single-turn
---@field answer_tokens integer
---@field measure boolean    whether a correct candidate of a timed task is timed
---@field reuse boolean      identical candidates are judged once (training)
---@field pick "final"|"best"   which state of the workspace is judged
---@field salt? string       of the random numbers; the stage when absent

local function record_of(setting, task, index, episode, verdict)
  local turns = episode.turns
  local tokens = episode.record.tokens
  return {
    stage = setting.stage, step = setting.step, index = index, task = task.id, name = task.name,
    policy = setting.policy.name, status = episode.ending, reason = verdict.reason ~= "" and verdict.reason or nil,
    turn_count = #turns, token_count = tokens and #tokens or 0, seconds = episode.seconds, turns = turns,
    tokens = tokens, mask = episode.record.mask, logprobs = episode.record.logprobs, version = episode.record.version,
    labels = episode.labels, error = episode.error, verdict = verdict,
  }
end

local function judge_episode(setting, task, episode, world)
  local files = world.candidate()
  local verdict
  if episode.ending == "env_error" then  -- it failed through us, whatever had been written by then
    verdict = verdicts.blank("void", "task", "env_error", tostring(episode.error or ""))
  elseif setting.pick == "best" and files then
    local found = best.of(best.states(world), best.JUDGED, function(state)
      return setting.run.judging:verdict(task, state.files, { measure = setting.measure and task.timed,
        reuse = setting.reuse })
    end)
    verdict, files = found.verdict, found.files
  end
  if not verdict then
    verdict = setting.run.judging:verdict(task, files, { measure = setting.measure and task.timed,
      reuse = setting.reuse, labels = loop.unreadable(episode) })
  end
  verdict.files = files
  verdict.policy, verdict.task = setting.policy.name, task.id
  return verdict
end

-- Single-turn answers need no workspace: their files are the candidate.
local function flat_world()
  local world = { states = {} }
  function world.act(action)
    world.files = environment.single(action.files)
    world.states[1] = { files = world.files }
    return { tool = "files", status = "ok", text = "" }
  end
  function world.candidate()
    return world.files
  end
  return world
end

local function with_world(setting, task, fn)
  if setting.turns == 1 then
    return fn(flat_world())
  end
  return sandbox.within(template.FOLDER, function(workspace)
    return fn(environment.files(workspace, task, setting.run.judging, { reuse = setting.reuse,
      feedback = setting.policy.format.feedback }))
  end, { files = { ["model.py"] = task.source } })
end

--- Plays, judges and scores one episode. The result is what the store keeps; `void` says why it has no reward.
---@async
---@param setting Setting
---@param task table
---@param index integer
---@return table
function play.episode(setting, task, index)
  local run = setting.run
  local stream = random.stream(("%d %s %d %d"):format(run.seed, setting.salt or setting.stage, setting.step, index))
  local episode, verdict = with_world(setting, task, function(world)
    local episode = loop.run({ policy = setting.policy, environment = world, reserve = math.min(64,
      setting.answer_tokens), limits = { turns = setting.turns, answer_tokens = setting.answer_tokens } }, task, stream)
    return episode, judge_episode(setting, task, episode, world)
  end)
  if not episode then
    error("no workspace: " .. tostring(verdict), 0)
  end
  local record = record_of(setting, task, index, episode, verdict)
  local reward, parts, hash = run.reward:score({ verdict = verdict, turns = episode.turns, labels = episode.labels },
    setting.step)
  if reward then
    record.reward, record.parts, record.script_hash = reward, parts, hash
  else
    record.void = tostring(parts)
  end
  verdict.reward, verdict.script_hash = reward, record.script_hash
  return record
end

--- The same, kept: a trajectory that the store has already is not played again.
---@async
---@param setting Setting
---@param task table
---@param index integer
---@param known? table<integer, table>   store:trajectories(stage, step)
---@return table
function play.kept(setting, task, index, known)
  if known and known[index] then
    -- By its id it comes with its verdict and its turns.
    return setting.run.store:get("trajectories", known[index].id)
  end
  local record = play.episode(setting, task, index)
  assert(setting.run.store:append("trajectories", record))
  return record
end

--- All stored trajectories of some stages, whole: with verdict and turns.
---@param run table
---@param stages string[]
---@return table[]
function play.of_stages(run, stages)
  local list = {}
  for _, stage in ipairs(stages) do
    for _, row in ipairs(assert(run.store:list("trajectories", { where = { stage = stage } }))) do
      list[#list + 1] = run.store:get("trajectories", row.id)
    end
  end
  return list
end

return play
