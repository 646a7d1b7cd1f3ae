-- Plays the agent with the single-turn policy and keeps the trajectories, for rejection fine-tuning and for the critic.

local episode = require "agent.episode"
local log = require "khost.log"
local models = require "training.models"
local pipeline = require "run.pipeline"
local ppo = require "training.ppo"
local tables = require "evaluation.table"

local stage = { name = "collect", summary = "trajectories of the agent" }

-- As many groups of one as episodes are wanted, task after task.
local function spread(tasks, count)
  local list = {}
  for index = 1, count do
    list[index] = tasks[(index - 1) % #tasks + 1]
  end
  table.sort(list, function(a, b) return a.id < b.id end)
  return list
end

--- Plays the agent on training tasks, one episode after the other of each, and keeps the trajectories under a stage.
---@async
---@param run table
---@param actor khost.Trainer
---@param name string    of the policy
---@param stage_name string
---@param episodes integer
---@return table[] episodes, table facts   as ppo.rollouts
function stage.play(run, actor, name, stage_name, episodes)
  local c = run.config.collect
  local hash = run:at_step(stage_name, 1)
  local setting = episode.of_run(run, { policy = models.policy(run, actor, name, { agent = true }), stage = stage_name,
    step = 1, turns = c.turns, answer_tokens = c.answer_tokens, observation_tokens = c.observation_tokens,
    measure = true, reuse = true, pick = run.config.reward.on, replay = run.replaying })
  local list, facts = ppo.rollouts(setting, spread(run:training(), episodes), 1, run.config.machine.episodes)
  ppo.keep_metrics(run, stage_name, 1, facts, hash)
  return list, facts
end

function stage.execute(run)
  local actor = models.open(run, run:need("single_turn").actor)
  local episodes, facts = stage.play(run, actor, "single-turn", stage.name, run.config.collect.episodes)
  local endings, rewards, tokens = {}, {}, 0
  for _, e in ipairs(episodes) do
    endings[e.status] = (endings[e.status] or 0) + 1
    local level = tostring(e.reward or "void")
    rewards[level] = (rewards[level] or 0) + 1
    tokens = tokens + e.token_count
  end
  local shown = { tables.counts("How trajectories ended", "ending", endings),
    tables.counts("Rewards", "reward", rewards) }
  if facts.tools then
    log.print(("collect: %.3f of %d calls well-formed"):format(facts.well_formed or 0, facts.calls))
    shown[#shown + 1] = tables.counts("Well-formed calls by tool", "tool", facts.tools)
  end
  return { episodes = #episodes, reward = facts.reward, tokens = tokens, well_formed = facts.well_formed,
    tables = shown }
end

return pipeline.standalone(stage)
