-- What each client has used in the last hour, in minutes: seconds of the device, seconds of builds, megabytes that its
-- candidates left on disk. It is compared with the client's quotas before a request is taken, and again in its turn.

local sched = require "khost.sched"

local usage = {}

local Usage = {}
Usage.__index = Usage

local MINUTES = 60
local KINDS = { "device_s", "build_s", "disk_mb" }

---@param now? fun(): number   seconds; the scheduler's when absent
---@return table
function usage.new(now)
  return setmetatable({ now = now or sched.now, minutes = {}, totals = {} }, Usage)
end

function Usage:minute() return math.floor(self.now() / 60) end

--- What a verdict cost. Device: the seconds for which it held the device alone, and on target cpu those of its
--- verification, which holds a core. Build: compiler, recorder, and the preparation of a new task.
---@param verdict table   or what an agent is answered
---@param target "cpu"|"cuda"
---@return {device_s: number, build_s: number}
function usage.of(verdict, target)
  local wall, evidence = verdict.wall_s or {}, verdict.evidence or {}
  local alone = evidence.exclusive_s or 0
  return { device_s = alone + (target == "cpu" and wall.verify or 0),
    build_s = (wall.build or 0) + (wall.plan or 0) + (wall.task or 0) }
end

--- Adds to what a client has used.
---@param name string
---@param amounts table<string, number>
function Usage:add(name, amounts)
  local minute = self:minute()
  local list = self.minutes[name] or {}
  self.minutes[name] = list
  local last = list[#list]
  if not last or last.minute ~= minute then
    last = { minute = minute }
    list[#list + 1] = last
  end
  while list[1].minute <= minute - MINUTES do
    table.remove(list, 1)
  end
  local totals = self.totals[name] or {}
  self.totals[name] = totals
  for kind, amount in pairs(amounts) do
    last[kind] = (last[kind] or 0) + amount
    totals[kind] = (totals[kind] or 0) + amount
  end
end

--- What a client has used in the last hour.
---@param name string
---@param kind string
---@return number used, number|nil oldest   the minute of its first part
function Usage:used(name, kind)
  local sum, oldest, minute = 0, nil, self:minute()
  for _, part in ipairs(self.minutes[name] or {}) do
    if part.minute > minute - MINUTES and (part[kind] or 0) > 0 then
      sum, oldest = sum + part[kind], oldest or part.minute
    end
  end
  return sum, oldest
end

--- Which quota is used up, and in how many seconds a part of it is given back; nil while there is room.
---@param client ServeClient
---@return string|nil message, integer? seconds
function Usage:exceeded(client)
  for _, kind in ipairs(KINDS) do
    local used, oldest = self:used(client.name, kind)
    local quota = client.quotas[kind]
    if used >= quota then
      local back = oldest and (oldest + MINUTES) * 60 - self.now() or 3600
      return ("the quota %s = %g of an hour is used up (%.1f)"):format(kind, quota, used), math.max(1, math.ceil(back))
    end
  end
end

return usage
