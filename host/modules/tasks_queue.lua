-- Queues of waiting tasks: the semaphore and the channel of khost.sched.
return function(sched, core)
  local native, pack = core.native, core.pack

  -- Wakes the first of the queue that still waits.
  local function wake(queue)
    while #queue > 0 do
      if native.unpark(table.remove(queue, 1)) then return end
    end
  end

  -- Waits in a queue. A waiter that is cancelled after it was woken passes the wake-up on.
  local function wait_in(queue)
    queue[#queue + 1] = native.current()
    local ok, reason = pcall(native.park)
    if not ok then
      wake(queue)
      error(reason, 0)
    end
  end

  local Semaphore = {}
  Semaphore.__index = Semaphore

  function sched.semaphore(n) return setmetatable({ count = n, queue = {} }, Semaphore) end

  function Semaphore:free() return self.count end

  function Semaphore:use(fn, ...)
    while self.count == 0 do wait_in(self.queue) end
    self.count = self.count - 1
    local results = pack(pcall(fn, ...))
    self.count = self.count + 1
    wake(self.queue)
    if not results[1] then error(results[2], 0) end
    return unpack(results, 2, results.n)
  end

  local Channel = {}
  Channel.__index = Channel

  function sched.channel(capacity)
    return setmetatable({
      capacity = capacity or 1, items = {}, first = 1, last = 0, takers = {}, putters = {},
    }, Channel)
  end

  function Channel:put(value)
    while not self.closed and self.last - self.first + 1 >= self.capacity do wait_in(self.putters) end
    if self.closed then return nil, "the channel is closed", "gone" end
    self.last = self.last + 1
    self.items[self.last] = value
    wake(self.takers)
    return true
  end

  function Channel:take()
    while self.first > self.last do
      if self.closed then return nil, "the channel is closed", "gone" end
      wait_in(self.takers)
    end
    local value = self.items[self.first]
    self.items[self.first] = nil
    self.first = self.first + 1
    wake(self.putters)
    return value
  end

  function Channel:close()
    self.closed = true
    while #self.takers > 0 do wake(self.takers) end
    while #self.putters > 0 do wake(self.putters) end
  end
end
