---@meta khost.sched
-- Tasks, time and random streams. Children belong to the task that spawned them: a task ends when its children have
-- ended, an error in a task cancels its children, cancelling a task cancels them. A cancelled wait raises
-- `sched.CANCELLED`: clean up and raise it again.

local sched = {}

---@class khost.Task
local Task = {}

---@class khost.Random
local Random = {}

---@class khost.Semaphore
local Semaphore = {}

---@class khost.Channel
local Channel = {}

---@class (exact) khost.Failed
---@field index integer       place in the list
---@field message string
---@field trace? string

--- What a cancelled wait raises.
---@type table
sched.CANCELLED = {}

--- A child of the calling task. A failure that nobody waited for is reported when the parent ends.
---@param fn fun(...): ...
---@return khost.Task
function sched.spawn(fn, ...) end

--- A service of the run: belongs to the root task, is cancelled (not waited for) when that ends.
---@param name string
---@param fn fun(...): ...
---@return khost.Task
function sched.detach(name, fn, ...) end

--- Waits for all; one value each.
---@async
---@param tasks khost.Task[]
---@return table results, khost.Failed[] failures
function sched.wait(tasks) end

--- fn(item, index) for every item, at most `limit` at once; results keep the order.
---@async
---@param list any[]
---@param fn fun(item: any, index: integer): any
---@param options? {limit?: integer, on_failure?: "collect"|"raise"}
---@return table results, khost.Failed[] failures
function sched.map(list, fn, options) end

--- The first that ends; the others are cancelled.
---@async
---@param fns fun(): ...[]
---@return integer index, any ...
function sched.race(fns) end

--- Runs fn; returns when all that it spawned has ended. Raises what fn raises.
---@async
---@param fn fun(): ...
function sched.scope(fn) end

--- fn's results, or nil, message, "timeout".
---@async
---@param seconds number
---@param fn fun(...): ...
function sched.timeout(seconds, fn, ...) end

---@async
---@param seconds number
function sched.sleep(seconds) end

--- Calls fn again and again until the calling task ends or the task returned is cancelled.
---@param seconds number
---@param fn fun()
---@return khost.Task
function sched.every(seconds, fn) end

--- Monotonic seconds.
---@return number
function sched.now() end

--- Seconds since 1970, for names and logs.
---@return number
function sched.wall_clock() end

--- The seed of every stream of this run.
---@param value integer
function sched.seed(value) end

--- The calling task's stream: run seed × place in the tree of tasks. With a key: a stream of that name, anew.
---@param key? string
---@return khost.Random
function sched.random(key) end

---@param n integer
---@return khost.Semaphore
function sched.semaphore(n) end

---@param capacity? integer   1 when absent
---@return khost.Channel
function sched.channel(capacity) end

--- `memory_bytes`: of scripts. `heap_bytes`: of the whole process, scripts included.
---@return {tasks: integer, waiting: integer, ready: integer, resumes: integer, longest_run_s: number, memory_bytes: integer, heap_bytes: integer}
function sched.stats() end

--- Failed tasks that nobody waited for.
---@return integer
function sched.lost_failures() end

--- A full collection; for measurements.
function sched.collect_garbage() end

--- Its results; nil, message, "failed" when it raised; nil, "cancelled", "cancelled" when it was cancelled.
---@async
function Task:wait() end

--- Cancels it and its children. False when it has ended.
---@return boolean
function Task:cancel() end

---@return "ready"|"waiting"|"done"|"failed"|"cancelled"
function Task:status() end

--- The traceback of where it waits or failed.
---@return string
function Task:trace() end

--- In [0, 1).
---@return number
function Random:number() end

--- A whole number, both ends included.
---@param low integer
---@param high integer
---@return integer
function Random:integer(low, high) end

--- Waits for a free place, holds it while fn runs.
---@async
---@param fn fun(...): ...
function Semaphore:use(fn, ...) end

---@return integer
function Semaphore:free() end

--- Waits for room. nil, message, "gone" when the channel is closed.
---@async
---@param value any
function Channel:put(value) end

--- Waits for a value. nil, message, "gone" when the channel is closed and empty.
---@async
function Channel:take() end

function Channel:close() end

return sched
