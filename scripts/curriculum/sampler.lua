-- Draws training tasks by the weights that a curriculum script gives them: scripts/curriculum/NAME.lua returns
-- {name, weight = function(task, seen) … end}. `seen` holds the task's latest rewards; a weight is a number of at least
-- 0, and of two tasks the one with twice the weight is drawn twice as often. `seen` is {rewards = the latest ones,
-- range = {low, high}, flat = how many groups in a row were all of one reward}. A preset names the script:
-- ppo.curriculum.

local sampler = {}

local Sampler = {}
Sampler.__index = Sampler

local KEPT = 16  -- rewards a task

---@param script {name: string, weight: fun(task: table, seen: table): number}
---@param tasks {id: string}[]
---@param options {range: number[]}   of rewards: {low, high}
---@return table
function sampler.open(script, tasks, options)
  if type(script) ~= "table" or type(script.weight) ~= "function" then
    error("a curriculum is a table with a function `weight`", 2)
  end
  return setmetatable({ script = script, tasks = tasks, range = options.range, rewards = {}, flat = {} },
    Sampler)
end

--- The sampler of the script scripts/curriculum/NAME.lua.
---@param name string
---@param tasks {id: string}[]
---@param options {range: number[]}
---@return table|nil, string? message
function sampler.named(name, tasks, options)
  local found, script = pcall(require, "curriculum." .. name)
  if not found then
    return nil, ("curriculum %s: %s"):format(name, tostring(script):match("[^\n]+"))
  end
  return sampler.open(script, tasks, options)
end

--- Takes note of a group: the rewards of one task in one step, without those of void episodes.
---@param id string
---@param rewards number[]
function Sampler:record_group(id, rewards)
  local least, most = math.huge, -math.huge
  for _, reward in ipairs(rewards) do
    least, most = math.min(least, reward), math.max(most, reward)
    self:record(id, reward)
  end
  self.flat[id] = most > least and 0 or (self.flat[id] or 0) + 1
end

--- Takes note of a reward; nil (a void episode) teaches nothing about the task.
---@param id string
---@param reward number|nil
function Sampler:record(id, reward)
  if reward == nil then
    return
  end
  local list = self.rewards[id] or {}
  self.rewards[id] = list
  list[#list + 1] = reward
  if #list > KEPT then
    table.remove(list, 1)
  end
end

local function checked(self, task)
  local weight = self.script.weight(task, { rewards = self.rewards[task.id] or {}, range = self.range,
    flat = self.flat[task.id] or 0 })
  if type(weight) ~= "number" or not (weight >= 0 and weight < math.huge) then
    error(("curriculum %s: the weight of task %s is %s, a number of at least 0 expected"):format(
      tostring(self.script.name), task.id, tostring(weight)), 0)
  end
  return weight
end

--- The weights of all tasks, in their order.
---@return number[]
function Sampler:weights()
  local list = {}
  for index, task in ipairs(self.tasks) do
    list[index] = checked(self, task)
  end
  return list
end

-- `count` tasks of those with a weight; none twice before all were drawn.
local function drawn(tasks, weights, count, stream)
  local out, left, total = {}, {}, 0
  while #out < count do
    if total <= 1e-12 then
      total = 0
      for index, weight in ipairs(weights) do
        left[index], total = weight, total + weight
      end
      if total == 0 then
        error("curriculum: no task has a weight above 0", 0)
      end
    end
    local at, chosen = stream:number() * total, nil
    for index = 1, #left do
      if left[index] > 0 then
        chosen, at = index, at - left[index]
        if at < 0 then
          break
        end
      end
    end
    out[#out + 1] = tasks[chosen]
    total, left[chosen] = total - left[chosen], 0
    if total < 1e-9 then
      total = 0
    end
  end
  return out
end

--- `count` tasks; none twice before all with a weight were drawn.
---@param count integer
---@param stream lib.Random
---@param timed_share? number   of them that are timed, as nearly as whole tasks allow, where there are tasks of both
---  kinds; as many as the weights make it when absent or 0
---@return table[]
function Sampler:draw(count, stream, timed_share)
  local weights = self:weights()
  local timed, other, any_timed, any_other = {}, {}, false, false
  for index, task in ipairs(self.tasks) do
    timed[index], other[index] = task.timed and weights[index] or 0, task.timed and 0 or weights[index]
    any_timed, any_other = any_timed or timed[index] > 0, any_other or other[index] > 0
  end
  if (timed_share or 0) == 0 or not (any_timed and any_other) then
    return drawn(self.tasks, weights, count, stream)
  end
  local wanted = math.floor(count * timed_share + 0.5)
  local list = drawn(self.tasks, timed, wanted, stream)
  for _, task in ipairs(drawn(self.tasks, other, count - wanted, stream)) do
    list[#list + 1] = task
  end
  return list
end

--- What a resumed run needs.
---@return table
function Sampler:state()
  return { rewards = self.rewards, flat = self.flat }
end

---@param state table
function Sampler:restore(state)
  self.rewards, self.flat = state.rewards or {}, state.flat or {}
end

return sampler
