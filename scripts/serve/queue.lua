-- A fair queue with back-pressure: so many pieces of work at once, a bounded number that wait, and of all clients that
-- wait the one whose work has cost least so far is next. Within a client, first come, first served.

local sched = require "khost.sched"

local queue = {}

-- Results with their number: some of them are nil.
local function pack(...)
  return { n = select("#", ...), ... }
end

local Queue = {}
Queue.__index = Queue

---@param slots integer     pieces of work at once
---@param capacity integer  that wait, of all clients together
---@return table
function queue.new(slots, capacity)
  return setmetatable({ free = slots, slots = slots, capacity = capacity, waiting = 0, unlimited = 0, lines = {},
    cost = {}, floor = 0, mean_s = 1 }, Queue)
end

local function line_of(self, name)
  local line = self.lines[name]
  if not line then
    -- Whoever comes anew begins where the queue stands, not with all that others have used before: else it would be
    -- served alone until it has used as much.
    self.cost[name] = math.max(self.cost[name] or 0, self.floor)
    line = {}
    self.lines[name] = line
  end
  return line
end

--- How many requests of a client wait, without those that wait without a limit.
---@param name string
---@return integer
function Queue:of(name)
  local count = 0
  for _, waiter in ipairs(self.lines[name] or {}) do
    count = count + (waiter.unlimited and 0 or 1)
  end
  return count
end

--- Whether no more may wait. What waits without a limit of its own takes no place of those that have one.
---@return boolean
function Queue:full()
  return self.waiting - self.unlimited >= self.capacity
end

--- Seconds until a request that comes now may be worked on, by the mean of those before.
---@return integer
function Queue:delay()
  return math.max(1, math.ceil((self.waiting + 1) * self.mean_s / self.slots))
end

local function next_line(self)
  local best
  for name in pairs(self.lines) do
    if not best or self.cost[name] < self.cost[best] or self.cost[name] == self.cost[best] and name < best then
      best = name
    end
  end
  return best
end

local function take_out(self, name, waiter)
  local line = self.lines[name] or {}
  for index, other in ipairs(line) do
    if other == waiter then
      table.remove(line, index)
      self.waiting = self.waiting - 1
      self.unlimited = self.unlimited - (waiter.unlimited and 1 or 0)
      break
    end
  end
  if #line == 0 then
    self.lines[name] = nil
  end
end

local function grant(self)
  while self.free > 0 do
    local name = next_line(self)
    if not name then
      return
    end
    local waiter = self.lines[name][1]
    take_out(self, name, waiter)
    self.free = self.free - 1
    self.floor = math.max(self.floor, self.cost[name])
    -- The price is known at the end; until then the mean is charged, so that one client does not get all free slots.
    waiter.charged = self.mean_s
    self.cost[name] = (self.cost[name] or 0) + waiter.charged
    waiter.granted = true
    waiter.turn:put(true)
  end
end

--- Waits for its turn and runs fn, which returns its cost in seconds and then its results. nil and a code that is the
--- queue's alone: "turn_busy" when it is full, "turn_limit" when the client has too many that wait.
---@async
---@param name string   of the client
---@param most integer  of its requests that wait; math.huge: it waits however many do
---@param fn fun(waited_s: number): number, ...
---@return any
function Queue:run(name, most, fn)
  local unlimited = most == math.huge
  if not unlimited and self:full() then
    return nil, ("%d requests wait, and no more may"):format(self.waiting), "turn_busy"
  elseif self:of(name) >= most then
    return nil, ("%d requests of this client wait, and no more may"):format(self:of(name)), "turn_limit"
  end
  local begin = sched.now()
  local waiter = { turn = sched.channel(1), unlimited = unlimited }
  table.insert(line_of(self, name), waiter)
  self.waiting = self.waiting + 1
  self.unlimited = self.unlimited + (unlimited and 1 or 0)
  grant(self)
  local ok, reason = pcall(waiter.turn.take, waiter.turn)
  if not ok and not waiter.granted then
    take_out(self, name, waiter)
    error(reason, 0)
  end
  local started = sched.now()
  local results = ok and pack(pcall(fn, started - begin)) or pack(false, reason)
  local cost = results[1] and results[2] or sched.now() - started
  self.cost[name] = self.cost[name] - waiter.charged + cost
  if results[1] then
    self.mean_s = 0.9 * self.mean_s + 0.1 * (sched.now() - started)
  end
  self.free = self.free + 1
  grant(self)
  if not results[1] then
    error(results[2], 0)
  end
  return unpack(results, 3, results.n)
end

return queue
