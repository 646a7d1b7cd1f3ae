-- Events in the order of their times: a binary heap of numbers, so that millions of events cost no garbage. Events of
-- one time come out in the order in which they were put in.

local events = {}

local Events = {}
Events.__index = Events

local KINDS = 8  -- what an event says is below; it is kept in one number with whose it is

---@return table
function events.new()
  return setmetatable({ count = 0, sequence = 0, times = {}, order = {}, what = {} }, Events)
end

--- Something that happens at a time.
---@param time number
---@param who integer
---@param what integer   0 to 7
function Events:put(time, who, what)
  local times, order, whats = self.times, self.order, self.what
  self.sequence = self.sequence + 1
  local at = self.count + 1
  self.count = at
  -- The newest of equal times comes last, so that only earlier times move down.
  while at > 1 do
    local parent = (at - at % 2) / 2
    if times[parent] <= time then
      break
    end
    times[at], order[at], whats[at] = times[parent], order[parent], whats[parent]
    at = parent
  end
  times[at], order[at], whats[at] = time, self.sequence, who * KINDS + what
end

--- The next event; nil when there is none.
---@return number|nil time, integer? who, integer? what
function Events:take()
  local count = self.count
  if count == 0 then
    return nil
  end
  local times, order, whats = self.times, self.order, self.what
  local first, packed = times[1], whats[1]
  local time, place, last = times[count], order[count], whats[count]
  count = count - 1
  self.count = count
  local at = 1
  while 2 * at <= count do
    local child = 2 * at
    local t = times[child]
    if child < count then
      local other = times[child + 1]
      if other < t or other == t and order[child + 1] < order[child] then
        child, t = child + 1, other
      end
    end
    if time < t or time == t and place < order[child] then
      break
    end
    times[at], order[at], whats[at] = t, order[child], whats[child]
    at = child
  end
  times[at], order[at], whats[at] = time, place, last
  local what = packed % KINDS
  return first, (packed - what) / KINDS, what
end

return events
