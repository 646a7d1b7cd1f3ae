-- Where the time of a run goes: drawing, updates, checkpoints, and in the judge builds, other work and waiting for the
-- device. Drawing, updates and judging go on at the same time, so the parts are not parts of the whole; "nothing" is
-- what is left of the wall time after drawing and updates: verdicts that somebody waited for, opening models, files.

local runs = require "run.runs"

local ledger = {}

local Ledger = {}
Ledger.__index = Ledger

---@return table
function ledger.new()
  return setmetatable({ sums = {}, drawn = 0 }, Ledger)
end

--- Adds seconds to a part.
---@param part string
---@param seconds number
function Ledger:add(part, seconds)
  self.sums[part] = (self.sums[part] or 0) + seconds
end

--- Takes note of what a trainer's policy drew, before the trainer is closed.
---@param actor khost.Trainer
function Ledger:drew(actor)
  self.drawn = self.drawn + actor:policy():stats().busy_s
end

-- All sums as they are now.
local function now(self, run)
  local actor, all = run.models.actor, {}
  for part, seconds in pairs(self.sums) do
    all[part] = seconds
  end
  all.drawing = self.drawn + (actor and actor:policy():stats().busy_s or 0)
  for step, seconds in pairs(run.judging:counts().walls or {}) do
    local part = step == "build" and "builds" or step == "wait" and "device_wait" or "judging"
    all[part] = (all[part] or 0) + seconds
  end
  return all
end

--- A stage begins.
---@param run table
function Ledger:begin(run)
  self.before = now(self, run)
end

--- What the stage took since `begin`.
---@param run table
---@param wall number   seconds of the stage
---@return table<string, number>
function Ledger:finish(run, wall)
  local spent = { wall = wall }
  for part, seconds in pairs(now(self, run)) do
    local more = seconds - (self.before[part] or 0)
    spent[part] = more > 1e-3 and more or nil
  end
  spent.nothing = math.max(0, wall - (spent.drawing or 0) - (spent.update or 0))
  return spent
end

ledger.ORDER = { "drawing", "update", "writing", "builds", "judging", "device_wait", "nothing" }
ledger.NAMES = { drawing = "drawing", update = "updates", writing = "checkpoints", builds = "builds (all jobs)",
  judging = "other judging (all jobs)", device_wait = "waiting for the device (all jobs)",
  nothing = "neither drawing nor updating" }

--- One line for people.
---@param spent table<string, number>
---@return string
function ledger.text(spent)
  local parts = {}
  for _, part in ipairs(ledger.ORDER) do
    if spent[part] then
      parts[#parts + 1] = ("%s %s"):format(ledger.NAMES[part], runs.duration(spent[part]))
    end
  end
  return table.concat(parts, ", ")
end

return ledger
