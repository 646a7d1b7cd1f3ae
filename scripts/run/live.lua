-- A script of a run that may be edited while the run goes on. A change takes effect at the next step. A version that
-- does not load, or that its check refuses, is reported, and the last good one goes on. The store keeps the text of
-- every version.

local log = require "khost.log"
local reload = require "khost.reload"

local live = {}

local Live = {}
Live.__index = Live

--- A check of versions: a table with a function of this name.
---@param name string
---@return fun(value: any): boolean, string
function live.has_function(name)
  return function(value)
    return type(value) == "table" and type(value[name]) == "function",
      ("it returns no table with a function `%s`"):format(name)
  end
end

---@param word string            what it is, in events and in the log: "reward", "loop"
---@param script string          a module, "rewards.milestone"
---@param store table            khost.Store, or what has its `put` and `append`
---@param check fun(value: any): boolean, string?
---@return table|nil, string? message, string? code
function live.open(word, script, store, check)
  local handle, message, code = reload.open(script, { check = check })
  if not handle then
    return nil, message, code
  end
  local self = setmetatable({ word = word, script = script, store = store, handle = handle }, Live)
  self:adopt()
  return self
end

function Live:adopt()
  self.good, self.good_hash = self.current, self.current_hash
  self.current, self.generation = self.handle:get()
  self.current_hash = self.handle:hash()
  local sources = self.handle:sources()
  for _, source in ipairs(sources) do
    self.store:put("scripts", source.hash, { path = source.path, text = source.text })
  end
  -- One hash stands for the entry and all it requires.
  self.store:put("scripts", self.current_hash, { path = sources[1].path, text = sources[1].text })
end

--- What the script returned, in the version of this step.
function Live:value() return self.current end

--- The hash of that version: of the script and of all that it requires.
---@return string
function Live:hash() return self.current_hash end

--- Looks for a change. Call once at the beginning of a step.
---@param stage string
---@param step integer
---@return boolean changed
function Live:at_step(stage, step)
  local _, generation = self.handle:get()
  local changed = generation ~= self.generation
  if changed then
    local before = self.current_hash
    self:adopt()
    log.info(self.word .. "_changed", { stage = stage, step = step, from = before:sub(1, 12),
      to = self.current_hash:sub(1, 12) })
    self.store:append("events", { level = "info", event = self.word .. "_changed", stage = stage, step = step,
      from = before, to = self.current_hash })
  end
  local failure = self.handle:failure()
  if failure and failure ~= self.complained then
    log.warn(self.word .. "_refused", { stage = stage, step = step, message = failure })
    self.store:append("events", { level = "warn", event = self.word .. "_refused", stage = stage, step = step,
      message = failure })
  end
  self.complained = failure
  return changed
end

--- This version failed while it ran: back to the one before it, if there is one, until the script changes again.
---@param message string
---@return boolean whether there is one
function Live:fall_back(message)
  log.warn(self.word .. "_failed", { script = self.script, message = message })
  self.store:append("events", { level = "warn", event = self.word .. "_failed", message = message,
    hash = self.current_hash })
  if self.good == nil then
    return false
  end
  self.current, self.current_hash, self.good = self.good, self.good_hash, nil
  return true
end

return live
