-- The reward of a run: a scheme from a script that may be edited while the run goes on (run/live.lua). A scheme that
-- raises or never returns is reported, and the last good one goes on.

local live = require "run.live"
local rewards = require "khost.rewards"

local reward = {}

local Reward = {}
Reward.__index = Reward

local function check(value)
  local ok, message = pcall(rewards.schedule, value)
  return ok, not ok and tostring(message) or nil
end

---@param script string         a module, "rewards.milestone"
---@param store khost.Store     where the text of every version is kept
---@return table|nil, string? message, string? code
function reward.open(script, store)
  local opened, message, code = live.open("reward", script, store, check)
  if not opened then
    return nil, message, code
  end
  return setmetatable({ script = script, live = opened, scheme = rewards.schedule(opened:value()) }, Reward)
end

--- Looks for a change. Call once at the beginning of a step.
---@param stage string
---@param step integer
---@return string hash   of the scripts that score this step
function Reward:at_step(stage, step)
  if self.live:at_step(stage, step) then
    self.scheme = rewards.schedule(self.live:value())
  end
  return self.live:hash()
end

--- The reward of an episode, its parts and the scripts' hash; nil, why and code when it must not be scored.
---@param episode table   with a field verdict
---@param step integer
---@return number|nil, table|string, string
function Reward:score(episode, step)
  local total, parts, code = self.scheme:score(episode, step)
  if total == nil and code ~= "void" and self.live:fall_back(tostring(parts)) then
    self.scheme = rewards.schedule(self.live:value())
    total, parts, code = self.scheme:score(episode, step)
  end
  if total == nil then
    return nil, parts, code or "void"
  end
  return total, parts, self.live:hash()
end

return reward
