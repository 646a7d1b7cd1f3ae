-- The reward of a run: a scheme from a script that may be edited while the run goes on. A change takes effect at the
-- next step; a scheme that does not load, raises or never returns is reported and the last good one goes on.

local log = require "khost.log"
local reload = require "khost.reload"
local rewards = require "khost.rewards"

local reward = {}

local Reward = {}
Reward.__index = Reward

local function check(value)
  local ok, message = pcall(rewards.schedule, value)
  return ok, not ok and tostring(message) or nil
end

---@param script string         a module, "rewards.milestone"
---@param store khost.Store     where the text of every generation is kept
---@return table|nil, string? message, string? code
function reward.open(script, store)
  local handle, message, code = reload.open(script, { check = check })
  if not handle then
    return nil, message, code
  end
  local self = setmetatable({ handle = handle, store = store, script = script, complained = nil }, Reward)
  self:adopt()
  return self
end

function Reward:adopt()
  local value, generation = self.handle:get()
  self.good, self.good_hash = self.current, self.hash
  self.current, self.hash, self.generation = rewards.schedule(value), self.handle:hash(), generation
  for _, source in ipairs(self.handle:sources()) do
    self.store:put("scripts", source.hash, { path = source.path, text = source.text })
  end
  -- One hash stands for the entry and all it requires.
  self.store:put("scripts", self.hash, { path = "scripts/" .. self.script:gsub("%.", "/") .. ".lua",
    text = self.handle:sources()[1].text })
end

--- Looks for a change. Call once at the beginning of a step.
---@param stage string
---@param step integer
---@return string hash   of the scripts that score this step
function Reward:at_step(stage, step)
  local _, generation = self.handle:get()
  if generation ~= self.generation then
    local before = self.hash
    self:adopt()
    log.info("reward_changed", { stage = stage, step = step, from = before:sub(1, 12), to = self.hash:sub(1, 12) })
    self.store:append("events", { level = "info", event = "reward_changed", stage = stage, step = step,
      from = before, to = self.hash })
  end
  local failure = self.handle:failure()
  if failure and failure ~= self.complained then
    log.warn("reward_refused", { stage = stage, step = step, message = failure })
    self.store:append("events", { level = "warn", event = "reward_refused", stage = stage, step = step,
      message = failure })
  end
  self.complained = failure
  return self.hash
end

-- The scheme is at fault: back to the last good one for the rest of this generation.
function Reward:fall_back(message)
  log.warn("reward_failed", { script = self.script, message = message })
  self.store:append("events", { level = "warn", event = "reward_failed", message = message, hash = self.hash })
  if self.good then
    self.current, self.hash, self.good = self.good, self.good_hash, nil
    return true
  end
end

--- The reward of an episode, its parts and the scripts' hash; nil, why and code when it must not be scored.
---@param episode table   with a field verdict
---@param step integer
---@return number|nil, table|string, string
function Reward:score(episode, step)
  local total, parts, code = self.current:score(episode, step)
  if total == nil and code ~= "void" and self:fall_back(tostring(parts)) then
    total, parts, code = self.current:score(episode, step)
  end
  if total == nil then
    return nil, parts, code or "void"
  end
  return total, parts, self.hash
end

function Reward:counts()
  return self.current:counts()
end

return reward
