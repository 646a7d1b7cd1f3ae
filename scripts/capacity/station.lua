-- A place with so many servers and one queue, first come, first served: the builders of a cluster, or its cards.

local station = {}

local Station = {}
Station.__index = Station

---@param servers integer
---@return table
function station.new(servers)
  return setmetatable({ servers = servers, busy = 0, first = 1, last = 0, line = {}, since = {}, served = 0, work_s = 0,
    wait_s = 0, longest_wait_s = 0, waited = 0 }, Station)
end

-- One of them begins to be served.
local function begin(self, wait_s, seconds)
  self.busy, self.served = self.busy + 1, self.served + 1
  self.work_s, self.wait_s = self.work_s + seconds, self.wait_s + wait_s
  self.longest_wait_s = math.max(self.longest_wait_s, wait_s)
  self.waited = self.waited + (wait_s > 0 and 1 or 0)
end

--- Somebody comes with work of so many seconds; true when it begins at once.
---@param now number
---@param who integer
---@param seconds number
---@return boolean
function Station:arrive(now, who, seconds)
  if self.busy < self.servers then
    begin(self, 0, seconds)
    return true
  end
  self.last = self.last + 1
  self.line[self.last], self.since[self.last] = who, now
  return false
end

--- Somebody's work is done: whose begins, if somebody waits. `seconds_of` says how long it takes.
---@param now number
---@param seconds_of fun(who: integer): number
---@return integer|nil who, number? seconds
function Station:leave(now, seconds_of)
  self.busy = self.busy - 1
  if self.first > self.last then
    return nil
  end
  local who, since = self.line[self.first], self.since[self.first]
  self.line[self.first], self.since[self.first] = nil, nil
  self.first = self.first + 1
  local seconds = seconds_of(who)
  begin(self, now - since, seconds)
  return who, seconds
end

--- What it did until now.
---@param now number
---@return {utilisation: number, served: integer, wait_s: number, longest_wait_s: number, waited: number}
function Station:summary(now)
  local served = math.max(self.served, 1)
  return { utilisation = now > 0 and self.work_s / (self.servers * now) or 0, served = self.served,
    wait_s = self.wait_s / served, longest_wait_s = self.longest_wait_s, waited = self.waited / served }
end

return station
