-- Structured concurrency over six natives: children belong to the task that spawned them, a task ends when its
-- children have ended, and cancelling a task cancels them.
local native = ...
local CANCELLED = native.CANCELLED

local sched = {
  CANCELLED = CANCELLED,
  sleep = native.sleep,
  now = native.now,
  wall_clock = native.wall_clock,
  stats = native.stats,
  collect_garbage = native.collect_garbage,
}
local tasks = {}          -- id -> Task, of the living
local root                -- the root task of this run
local seed = 0
local lost_failures = 0   -- failed tasks that nobody waited for

-- Ten thousand episodes wait at once: what most tasks never need is made when it is first needed.
local NONE = {}
local Task = { children = NONE, orphans = NONE, waiters = NONE, spawned = 0, status_ = "running" }
Task.__index = Task
Task.__name = "Task"

local function pack(...) return { n = select("#", ...), ... } end

local function append(task, field, value)
  if task[field] == NONE then task[field] = {} end
  table.insert(task[field], value)
end

-- The place in the tree: "" for the root, "/2/1" for the first child of its second child.
local function path_of(task)
  local parts = {}
  while task.parent do
    table.insert(parts, 1, "/" .. task.number)
    task = task.parent
  end
  return table.concat(parts)
end

local function name_of(task) return task.name or "main" .. path_of(task) end

local function here(what)
  local task = tasks[native.current()]
  if not task then error(what .. ": only inside a task", 3) end
  return task
end

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

local function finish(task, status, results)
  task.status_, task.results = status, results
  tasks[task.id] = nil
  local parent = task.parent
  if parent then
    parent.children[task] = nil
    if status == "failed" and not task.awaited then append(parent, "orphans", task) end
    native.unpark(parent.id)
  end
  for _, id in ipairs(task.waiters) do native.unpark(id) end
end

local function cancel(task)
  if task.status_ ~= "running" then return false end
  for child in pairs(task.children) do cancel(child) end
  if task.started then return native.cancel(task.id) end
  native.cancel(task.id)
  finish(task, "cancelled", pack(nil, "cancelled", "cancelled"))
  return true
end

-- Until no child lives; services are not waited for but ended.
local function join_children(task)
  for child in pairs(task.children) do
    if child.service then cancel(child) end
  end
  local reason
  while next(task.children) do
    local ok, message = pcall(native.park)
    if not ok then
      reason = message
      for child in pairs(task.children) do cancel(child) end
    end
  end
  return reason
end

local function report_orphans(task)
  for _, orphan in ipairs(task.orphans) do
    if not orphan.awaited then
      lost_failures = lost_failures + 1
      native.report(("task '%s' failed and nobody waited for it: %s"):format(name_of(orphan), orphan.trace_ or ""))
    end
  end
end

local function keep_trace(reason)
  local task = tasks[native.current()]
  if task and reason ~= CANCELLED then task.trace_ = debug.traceback(tostring(reason), 2) end
  return reason
end

-- What start() left to call; nothing holds the arguments once the call has begun.
local function take_call(task)
  local fn, arguments = task.fn, task.arguments
  task.fn, task.arguments = nil, nil
  if not arguments then return fn, keep_trace end
  return fn, keep_trace, unpack(arguments, 1, arguments.n)
end

local function body()
  local task = tasks[native.current()]
  task.started = true
  local results = pack(xpcall(take_call(task)))
  if not results[1] then
    for child in pairs(task.children) do cancel(child) end
  end
  local interrupted = join_children(task)
  report_orphans(task)
  if interrupted and results[1] then results = pack(false, interrupted) end
  if results[1] then
    finish(task, "done", pack(unpack(results, 2, results.n)))
  elseif results[2] == CANCELLED then
    finish(task, "cancelled", pack(nil, "cancelled", "cancelled"))
  else
    finish(task, "failed", pack(nil, tostring(results[2]), "failed"))
  end
end

local function start(parent, name, service, fn, ...)
  if type(fn) ~= "function" then error("spawn: a function expected, got " .. type(fn), 3) end
  local number = 0
  if parent then
    parent.spawned = parent.spawned + 1
    number = parent.spawned
  end
  local task = setmetatable({
    name = name, parent = parent, service = service or nil, number = number,
    fn = fn, arguments = select("#", ...) > 0 and pack(...) or nil,
  }, Task)
  task.id = native.spawn(body, name_of(task))
  tasks[task.id] = task
  if parent then
    if parent.children == NONE then parent.children = {} end
    parent.children[task] = true
  end
  return task
end

function sched.spawn(fn, ...)
  return start(here("spawn"), nil, false, fn, ...)
end

function sched.detach(name, fn, ...)
  return start(root or here("detach"), name, true, fn, ...)
end

-- Children that the caller does not wait for and that end with it.
local function spawn_service(name, fn, ...) return start(here(name), name, true, fn, ...) end

function Task:wait()
  here("wait")
  self.awaited = true
  while self.status_ == "running" do
    append(self, "waiters", native.current())
    native.park()
  end
  return unpack(self.results, 1, self.results.n)
end

function Task:cancel() return cancel(self) end

function Task:status()
  if self.status_ ~= "running" then return self.status_ end
  return self.started and "waiting" or "ready"
end

function Task:trace() return self.trace_ or native.trace(self.id) end

-- The results of a task, or its error raised where it is waited for.
local function need(task)
  local results = pack(task:wait())
  if task.status_ == "cancelled" then error(CANCELLED, 0) end
  if task.status_ == "failed" then error(results[2], 0) end
  return unpack(results, 1, results.n)
end

function sched.wait(list)
  local results, failures = {}, {}
  for i, task in ipairs(list) do
    local value, message = task:wait()
    if task.status_ == "done" then
      results[i] = value
    else
      failures[#failures + 1] = { index = i, message = message, trace = task.trace_ }
    end
  end
  return results, failures
end

local MAP_OPTIONS = { limit = true, on_failure = true }

function sched.map(list, fn, options)
  options = options or {}
  for key in pairs(options) do
    if not MAP_OPTIONS[key] then error(("map: unknown option '%s' (known: limit, on_failure)"):format(key), 2) end
  end
  local parent = here("map")
  parent.maps = (parent.maps or 0) + 1
  local stream = ("%s/map%d"):format(path_of(parent), parent.maps)
  local results, failures, next_index = {}, {}, 1
  local workers, first_error = {}, nil
  local function stop_others(self)
    for _, other in ipairs(workers) do
      other.awaited = true
      if other ~= self then cancel(other) end
    end
  end
  local function work()
    local self = here("map")
    while next_index <= #list do
      local i = next_index
      next_index = i + 1
      -- Draws depend on the item, not on which worker happens to take it.
      self.stream = ("%s/%d"):format(stream, i)
      local ok, value = xpcall(fn, keep_trace, list[i], i)
      if ok then
        results[i] = value
      elseif value == CANCELLED or options.on_failure == "raise" then
        if value ~= CANCELLED and not first_error then
          first_error = value
          stop_others(self)
        end
        error(value, 0)
      else
        failures[#failures + 1] = { index = i, message = tostring(value), trace = self.trace_ }
      end
    end
  end
  for i = 1, math.min(options.limit or #list, #list) do workers[i] = sched.spawn(work) end
  for _, worker in ipairs(workers) do
    local ok, reason = pcall(need, worker)
    if not ok then
      stop_others(nil)
      error(first_error or reason, 0)
    end
  end
  return results, failures
end

function sched.race(fns)
  local caller, runners = native.current(), {}
  here("race")
  for i, fn in ipairs(fns) do
    runners[i] = sched.spawn(fn)
    runners[i].awaited = true
    runners[i].waiters = { caller }
  end
  local winner
  while not winner do
    for i, task in ipairs(runners) do
      if task.status_ ~= "running" then
        winner = i
        break
      end
    end
    if not winner then native.park() end
    for i, task in ipairs(runners) do
      if task.status_ == "running" then task.waiters = { caller } end
    end
  end
  for _, task in ipairs(runners) do cancel(task) end
  return winner, need(runners[winner])
end

function sched.scope(fn) return need(sched.spawn(fn)) end

function sched.timeout(seconds, fn, ...)
  local task, timed_out = sched.spawn(fn, ...), false
  local timer = spawn_service("timeout", function()
    native.sleep(seconds)
    timed_out = true
    cancel(task)
  end)
  local results = pack(pcall(need, task))
  cancel(timer)
  if timed_out and task.status_ == "cancelled" then
    return nil, ("timed out after %g s"):format(seconds), "timeout"
  end
  if not results[1] then error(results[2], 0) end
  return unpack(results, 2, results.n)
end

function sched.every(seconds, fn)
  return spawn_service("every", function()
    while true do
      native.sleep(seconds)
      fn()
    end
  end)
end

function sched.seed(value) seed = value end

-- The calling task's own stream, or one with a name: draws depend on the run's seed and the place in the tree.
function sched.random(key)
  local task = here("random")
  if key then return native.random(seed, "key:" .. key) end
  local place = task.stream or path_of(task)
  if task.random_place ~= place then
    task.random_place, task.random_ = place, native.random(seed, place)
  end
  return task.random_
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
  return setmetatable({ capacity = capacity or 1, items = {}, first = 1, last = 0, takers = {}, putters = {} }, Channel)
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

function sched.lost_failures() return lost_failures end

-- For the host: runs the root task and hands its outcome to `on_end(status, value, trace)`.
function native.run_root(fn, arguments, on_end)
  root = start(nil, "main", false, function()
    local results = pack(xpcall(fn, keep_trace, arguments))
    on_end(results[1], results[2], root.trace_, results[2] == CANCELLED)
    if not results[1] then error(results[2], 0) end
  end)
end

-- For the host: the task was ended from outside (a bare coroutine.yield, an error past every protected call).
function native.escaped(id)
  local task = tasks[id]
  if not task then return end
  for child in pairs(task.children) do cancel(child) end
  finish(task, "failed", pack(nil, ("task '%s' was ended by the host"):format(name_of(task)), "failed"))
end

function native.cancel_root() return root ~= nil and cancel(root) end

return sched
