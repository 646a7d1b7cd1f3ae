-- Structured concurrency over few natives: children belong to the task that spawned them, a task ends when its
-- children have ended, and cancelling a task cancels them. A task's function is the coroutine itself: what happens
-- after it returned or raised is told by the host (native.ended), so that a task that waits for its children, or a
-- hundred thousand that wait for an answer, hold no frames of ours.
local native = ...
local CANCELLED = native.CANCELLED

local tasks = {}          -- id -> Task, of the living
local root                -- the root task of this run
local seed = 0
local lost_failures = 0   -- failed tasks that nobody waited for

-- Ten thousand episodes wait at once: what most tasks never need is made when it is first needed. The fields of a
-- living task are parent and id; its place among its siblings stands in its parent's `children` while it lives.
local NONE = {}
local Task = { children = NONE, orphans = NONE, waiters = NONE, spawned = 0, status_ = "running" }
Task.__index = Task
Task.__name = "Task"

-- What the other halves (tasks_combine.lua, tasks_queue.lua) build on.
local core = { native = native, CANCELLED = CANCELLED }

function core.pack(...) return { n = select("#", ...), ... } end
local pack = core.pack

local function append(task, field, value)
  if task[field] == NONE then task[field] = {} end
  table.insert(task[field], value)
end

-- The place in the tree: "" for the root, "/2/1" for the first child of its second child.
function core.path_of(task)
  local parts = {}
  while task.parent do
    table.insert(parts, 1, "/" .. (task.number or task.parent.children[task]))
    task = task.parent
  end
  return table.concat(parts)
end

local function name_of(task) return task.name or "main" .. core.path_of(task) end

-- The calling task. `what` names the function that needs one.
function core.here(what)
  local task = tasks[native.current()]
  if not task then error(what .. ": only inside a task", 3) end
  return task
end
local here = core.here

-- A handler of errors that keeps where the calling task was.
function core.keep_trace(reason)
  local task = tasks[native.current()]
  if task and reason ~= CANCELLED then task.trace_ = debug.traceback(tostring(reason), 2) end
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

local conclude

local function finish(task, status, results)
  task.status_, task.results, task.outcome = status, results, nil
  tasks[task.id] = nil
  for _, id in ipairs(task.waiters) do native.unpark(id) end
  local parent = task.parent
  if not parent then return end
  task.number, parent.children[task] = parent.children[task], nil
  if status == "failed" and not task.awaited then append(parent, "orphans", task) end
  if parent.outcome and next(parent.children) == nil then conclude(parent) end
end

-- The function has ended and no child lives.
function conclude(task)
  report_orphans(task)
  local outcome = task.outcome
  if outcome[1] then
    finish(task, "done", pack(unpack(outcome, 2, outcome.n)))
  elseif outcome[2] == CANCELLED then
    finish(task, "cancelled", pack(nil, "cancelled", "cancelled"))
  else
    finish(task, "failed", pack(nil, tostring(outcome[2]), "failed"))
  end
end

-- False when the task has ended, or is the caller: that one ends itself by raising.
function core.cancel(task)
  if task.status_ ~= "running" then return false end
  if task.outcome and task.outcome[1] then task.outcome = pack(false, CANCELLED) end
  for child in pairs(task.children) do core.cancel(child) end
  if task.outcome or task.status_ ~= "running" then return true end
  local state = native.cancel(task.id)
  if state == "dropped" then finish(task, "cancelled", pack(nil, "cancelled", "cancelled")) end
  return state ~= nil
end
local cancel = core.cancel

-- For the host: the task's function has returned (true, results…) or raised (false, reason, traceback).
function native.ended(id, ok, ...)
  local task = tasks[id]
  if not task then return end
  task.outcome = pack(ok, ...)
  if not ok and (...) ~= CANCELLED then
    local text = tostring((...))
    -- An error that was caught and raised again has its first place already.
    if not task.trace_ or task.trace_:sub(1, #text) ~= text then
      task.trace_ = text .. "\n" .. select(2, ...)
    end
  end
  if task.on_end then task.on_end(ok, (...), task.trace_, not ok and (...) == CANCELLED) end
  for child in pairs(task.children) do
    -- Children are waited for, unless the task failed; services never are.
    if not ok or child.service then cancel(child) end
  end
  if task.status_ == "running" and next(task.children) == nil then conclude(task) end
end

-- For the host's reports.
function native.name_of(id) return tasks[id] and name_of(tasks[id]) or "" end

function core.start(parent, name, service, fn, ...)
  if type(fn) ~= "function" then error("spawn: a function expected, got " .. type(fn), 3) end
  local task = setmetatable({ parent = parent, id = native.spawn(fn, ...) }, Task)
  if name then task.name = name end
  if service then task.service = true end
  tasks[task.id] = task
  if parent then
    if parent.children == NONE then parent.children = {} end
    parent.spawned = parent.spawned + 1
    parent.children[task] = parent.spawned
  end
  return task
end
local start = core.start

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
  return native.started(self.id) and "waiting" or "ready"
end

function Task:trace() return self.trace_ or native.trace(self.id) end

-- The results of a task, or its error raised where it is waited for.
function core.need(task)
  local results = pack(task:wait())
  if task.status_ == "cancelled" then error(CANCELLED, 0) end
  if task.status_ == "failed" then error(results[2], 0) end
  return unpack(results, 1, results.n)
end

-- For the host: runs the root task. When its function has ended, and before its children have, its outcome is handed to
-- `on_end(ok, value, trace, cancelled)`.
function native.run_root(fn, arguments, on_end)
  root = start(nil, "main", false, fn, arguments)
  root.on_end = on_end
end

function native.cancel_root() return root ~= nil and cancel(root) end

local sched = {
  CANCELLED = CANCELLED,
  sleep = native.sleep,
  now = native.now,
  wall_clock = native.wall_clock,
  stats = native.stats,
  collect_garbage = native.collect_garbage,
}

function sched.spawn(fn, ...) return start(here("spawn"), nil, false, fn, ...) end
function sched.detach(name, fn, ...) return start(root or here("detach"), name, true, fn, ...) end
function sched.lost_failures() return lost_failures end
function sched.seed(value) seed = value end

-- The calling task's own stream, or one with a name: draws depend on the run's seed and the place in the tree.
function sched.random(key)
  local task = here("random")
  if key then return native.random(seed, "key:" .. key) end
  local place = task.stream or core.path_of(task)
  if task.random_place ~= place then
    task.random_place, task.random_ = place, native.random(seed, place)
  end
  return task.random_
end

require "host.modules.tasks_combine"(sched, core)
require "host.modules.tasks_queue"(sched, core)
return sched
