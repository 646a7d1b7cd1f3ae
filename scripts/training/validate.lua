-- The validation set during training: what a policy makes of tasks that it neither trains on nor is tabled with, and
-- whether it has collapsed.

local metrics = require "evaluation.metrics"
local log = require "khost.log"
local episode = require "agent.episode"
local sched = require "khost.sched"
local verdicts = require "judge.verdict"
local watch = require "training.watch"

local validate = {}

--- Plays every validation task, `validate.samples` times where the preset says so. The reward is the run's own
--- scheme's, so that it sees speed where a task is timed (tasks.validation_timed of the preset); of tasks that are only
--- verified it counts 1 for right and -1 for wrong.
---@async
---@param run table
---@param stage string
---@param step integer
---@param policy table
---@param o {turns: integer, answer_tokens: integer, observation_tokens?: integer, limit: integer}
---@return table
function validate.play(run, stage, step, policy, o)
  local setting = episode.of_run(run, { policy = policy, stage = stage, step = step, turns = o.turns, measure = true,
    reuse = true, pick = run.config.reward.on, answer_tokens = o.answer_tokens,
    observation_tokens = o.observation_tokens, salt = "validation" })
  local tasks, once = {}, run:tasks("validation")
  for _, task in ipairs(run:tasks("validation_timed")) do
    once[#once + 1] = task
  end
  for _ = 1, run.config.validate.samples or 1 do
    for _, task in ipairs(once) do
      tasks[#tasks + 1] = task
    end
  end
  local played = sched.map(tasks, function(task, index)
    return episode.play_until_counted(setting, task, index)
  end, { limit = o.limit })
  local result = validate.figures(tasks, played)
  if not policy.format.answers_are_files then
    local list = {}
    for index = 1, #tasks do
      list[#list + 1] = played[index]
    end
    result.validation_well_formed = watch.calls(list).well_formed
  end
  for name, value in pairs(result) do
    log.metric(stage .. "/" .. name, value, step)
  end
  assert(run.store:metrics(stage, step, result))
  return result
end

--- What a validation found, over those episodes that count.
---@param tasks table[]
---@param played table<integer, table>   by the task's place; what could not be played is missing
---@return table<string, number>   validation_pass, _reward, _turns, _reward_timed where a timed task was scored, and
--- _families: the share of families with a right answer
function validate.figures(tasks, played)
  local seen, turns, rewards, timed, families = {}, {}, {}, {}, {}
  for index, task in ipairs(tasks) do
    local e = played[index]
    if e and verdicts.counts(e.verdict) then
      seen[#seen + 1], turns[#turns + 1], rewards[#rewards + 1] = e.verdict, e.turn_count, e.reward
      timed[#timed + 1] = task.timed and e.reward or nil
      families[task.family or ""] = families[task.family or ""] or verdicts.passed(e.verdict)
    end
  end
  local solved, count = 0, 0
  for _, one in pairs(families) do
    solved, count = solved + (one and 1 or 0), count + 1
  end
  return { validation_families = solved / math.max(count, 1),
    validation_pass = (metrics.pass_rate(seen)), validation_reward = metrics.mean(rewards) or -1,
    validation_reward_timed = metrics.mean(timed), validation_turns = metrics.mean(turns) or 0 }
end

-- Nats a token. After a supervised start the entropy may be .01, and three times that is no noise (docs/learning.md).
local LEAST_NOISE = 0.3

--- Whether a stage has collapsed: two validations in a row below the base's, or an entropy above three times its first
--- and above LEAST_NOISE.
---@param curve {step: integer, validation_reward?: number, entropy?: number}[]
---@param base_reward number
---@return integer|nil step   where it began
function validate.collapse(curve, base_reward)
  local below, first_entropy = 0, nil
  for _, point in ipairs(curve) do
    first_entropy = first_entropy or point.entropy
    if point.entropy and first_entropy and point.entropy > math.max(3 * first_entropy, LEAST_NOISE) then
      return point.step
    end
    if point.validation_reward then
      below = point.validation_reward < base_reward and below + 1 or 0
      if below == 2 then
        return point.step
      end
    end
  end
end

--- The last validated step before a collapse, else the last one: whose weights tables use.
---@param curve table[]
---@param base_reward number
---@return integer|nil
function validate.chosen(curve, base_reward)
  local collapse, last = validate.collapse(curve, base_reward), nil
  for _, point in ipairs(curve) do
    if collapse and point.step >= collapse then
      break
    end
    last = point.validation_reward and point.step or last
  end
  return last
end

return validate
