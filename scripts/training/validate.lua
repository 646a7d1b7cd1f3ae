-- The validation set during training: what a policy makes of tasks that it neither trains on nor is tabled with, and
-- whether it has collapsed.

local log = require "khost.log"
local play = require "training.play"
local sched = require "khost.sched"
local verdicts = require "judge.verdict"

local validate = {}

--- Plays every validation task once, untimed. The reward counts 1 for right and -1 for wrong.
---@async
---@param run table
---@param stage string
---@param step integer
---@param policy table
---@param o {turns: integer, answer_tokens: integer, limit: integer}
---@return table
function validate.play(run, stage, step, policy, o)
  local setting = { run = run, policy = policy, stage = stage, step = step, turns = o.turns, measure = false,
    reuse = true, pick = run.config.reward.on, answer_tokens = o.answer_tokens, salt = "validation" }
  local tasks = run:tasks("validation")
  local episodes = sched.map(tasks, function(task, index)
    return play.episode(setting, task, index)
  end, { limit = o.limit })
  local right, count, turns = 0, 0, 0
  for index = 1, #tasks do
    local e = episodes[index]
    if e and verdicts.counts(e.verdict) then
      count, right, turns = count + 1, right + (verdicts.passed(e.verdict) and 1 or 0), turns + e.turn_count
    end
  end
  local pass = count > 0 and right / count or 0
  local result = { validation_pass = pass, validation_reward = 2 * pass - 1,
    validation_turns = turns / math.max(1, count) }
  for name, value in pairs(result) do
    log.metric(stage .. "/" .. name, value, step)
  end
  assert(run.store:metrics(stage, step, result))
  return result
end

--- Whether a stage has collapsed: two validations in a row below the base's, or an entropy above three times its first.
---@param curve {step: integer, validation_reward?: number, entropy?: number}[]
---@param base_reward number
---@return integer|nil step   where it began
function validate.collapse(curve, base_reward)
  local below, first_entropy = 0, nil
  for _, point in ipairs(curve) do
    first_entropy = first_entropy or point.entropy
    if point.entropy and first_entropy and point.entropy > 3 * first_entropy then
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
