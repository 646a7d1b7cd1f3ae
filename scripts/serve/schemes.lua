-- Reward schemes by name: modules of scripts/rewards, opened when they are first asked for. They are scored by
-- run.reward, so that a script may be edited while the service runs.

local config = require "khost.config"
local fs = require "khost.fs"
local log = require "khost.log"
local reward = require "run.reward"

local schemes = {}

local Schemes = {}
Schemes.__index = Schemes

-- What run.reward keeps in a run's store goes to the log here: a service has no run.
local LOGGED = {
  put = function(_, kind, key, value)
    log.debug("serve_" .. kind, { key = key, path = value.path })
  end,
  append = function(_, kind, event)
    log.debug("serve_" .. kind, event)
  end,
}

-- Names of the modules that return a scheme; building blocks such as terms.lua return none.
local function names()
  local list = {}
  for _, file in ipairs(fs.list(fs.root() .. "/scripts/rewards") or {}) do
    local name = file:match("^([%w_]+)%.lua$")
    local ok, value = pcall(require, "rewards." .. (name or ""))
    if name and ok and type(value) == "table" and type(value.score) == "function" then
      list[#list + 1] = name
    end
  end
  return list
end

---@param default string
---@return table|nil, string? message
function schemes.open(default)
  local self = setmetatable({ default = default, opened = {}, names = names(), step = 0 }, Schemes)
  local found, message = self:get(default)
  return found and self, message
end

--- A scheme; nil and why for a name that is none.
---@param name string|nil   the default when absent
---@return table|nil scheme, string? message
function Schemes:get(name)
  name = name or self.default
  if self.opened[name] then
    return self.opened[name]
  end
  local known = false
  for _, one in ipairs(self.names) do
    known = known or one == name
  end
  if not known then
    return nil, ("no reward scheme '%s'; did you mean '%s'?"):format(name, config.nearest(name, self.names))
  end
  local opened, message = reward.open("rewards." .. name, LOGGED)
  self.opened[name] = opened
  return opened, message
end

--- The reward of a verdict; nil and why where it must not be scored.
---@param scheme table
---@param verdict table
---@return number|nil reward, table|string parts_or_why, string? hash
function Schemes:score(scheme, verdict)
  return self:score_episode(scheme, { verdict = verdict, turns = {}, labels = {} })
end

--- The reward of an episode, with its turns and labels; nil and why where it must not be scored.
---@param scheme table
---@param episode {verdict: table, turns: table[], labels: table<string, integer>}
---@return number|nil reward, table|string parts_or_why, string? hash
function Schemes:score_episode(scheme, episode)
  self.step = self.step + 1
  scheme:at_step("serve", self.step)
  return scheme:score(episode, self.step)
end

return schemes
