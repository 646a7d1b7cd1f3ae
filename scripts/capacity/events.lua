-- Events in the order of their times: a binary heap of numbers, so that millions of events cost no garbage. Events of
-- one time come out in the order in which they were put in.

local events = {}

local Events = {}
Events.__index = Events

---@return table
function events.new()
  return setmetatable({ count = 0, sequence = 0, times = {}, order = {}, who = {}, what = {} }, Events)
end

local function swap(self, a, b)
  local times, order, who, what = self.times, self.order, self.who, self.what
  times[a], times[b] = times[b], times[a]
  order[a], order[b] = order[b], order[a]
  who[a], who[b] = who[b], who[a]
  what[a], what[b] = what[b], what[a]
end

local function before(self, a, b)
  local times = self.times
  return times[a] < times[b] or times[a] == times[b] and self.order[a] < self.order[b]
end

--- Something that happens at a time.
---@param time number
---@param who integer
---@param what integer
function Events:put(time, who, what)
  self.count, self.sequence = self.count + 1, self.sequence + 1
  local at = self.count
  self.times[at], self.order[at], self.who[at], self.what[at] = time, self.sequence, who, what
  while at > 1 do
    local parent = (at - at % 2) / 2
    if not before(self, at, parent) then
      return
    end
    swap(self, at, parent)
    at = parent
  end
end

--- The next event; nil when there is none.
---@return number|nil time, integer? who, integer? what
function Events:take()
  if self.count == 0 then
    return nil
  end
  local time, who, what = self.times[1], self.who[1], self.what[1]
  swap(self, 1, self.count)
  self.count = self.count - 1
  local at = 1
  while true do
    local least, left = at, 2 * at
    if left <= self.count and before(self, left, least) then
      least = left
    end
    if left < self.count and before(self, left + 1, least) then
      least = left + 1
    end
    if least == at then
      return time, who, what
    end
    swap(self, at, least)
    at = least
  end
end

return events
