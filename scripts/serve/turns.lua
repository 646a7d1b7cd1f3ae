-- Turns before the judge: whoever wants an answer of it waits in the queue, and pays for what it cost. Requests and
-- open episodes share the one queue and the same quotas.

local client = require "judge.client"
local fs = require "khost.fs"
local machine = require "khost.machine"
local queue = require "serve.queue"
local sched = require "khost.sched"
local usage = require "serve.usage"
local verdicts = require "judge.verdict"

local turns = {}

local Turns = {}
Turns.__index = Turns

---@class (exact) TurnOptions
---@field slots integer        pieces of work at once
---@field capacity integer     requests that may wait, of all clients together
---@field metrics table        serve.metrics
---@field target "cpu"|"cuda"
---@field artefacts? string    folder of what candidates leave on disk

---@param options TurnOptions
---@return table
function turns.new(options)
  return setmetatable({ queue = queue.new(options.slots, options.capacity), usage = usage.new(),
    metrics = options.metrics, options = options }, Turns)
end

-- What a candidate left on disk, in megabytes: its library, if the judge built it for this request.
local function left_on_disk(self, verdict)
  local hash = (verdict.evidence or {}).artefact_hash
  if not self.options.artefacts or not hash or not hash:find("^%x+$") then
    return 0
  end
  local path = ("%s/%s.so"):format(self.options.artefacts, hash)
  local stat = fs.exists(path) == "file" and machine.run({ "stat", "-c", "%s %Y", path }, { timeout_s = 10 })
  local bytes, changed = ((stat or {}).output or ""):match("^(%d+) (%d+)")
  return bytes and sched.wall_clock() - tonumber(changed) < 600 and tonumber(bytes) / 2 ^ 20 or 0
end

-- Charges an answer of the judge, or that there is none; its cost in the queue, in seconds. What tells no seconds (a
-- graph, the crash of judges that were lost, a failure) costs those for which it held the judge, in the quotas too:
-- else a client that ends judges would be served first again and again, and without an end. A void costs the same in
-- the queue, but no quota: it is our failure, and an hour without judges would use up what clients have for the next.
local function charge(self, name, verdict, code, seconds)
  local void = not verdict and code == "void" or verdict and verdict.status and verdicts.is_void(verdict)
  local amounts = usage.of(verdict or {}, self.options.target)
  local told = amounts.device_s + amounts.build_s
  if told == 0 and not void then
    local kind = self.options.target == "cpu" and "device_s" or "build_s"
    amounts[kind] = seconds
  end
  amounts.disk_mb = left_on_disk(self, verdict or {})
  self.usage:add(name, amounts)
  self.metrics:add("client_device_seconds_total", { client = name }, amounts.device_s)
  self.metrics:add("client_build_seconds_total", { client = name }, amounts.build_s)
  self.metrics:add("client_disk_megabytes_total", { client = name }, amounts.disk_mb)
  return (void or told == 0) and math.max(told, seconds) or told
end

--- What `work` gives in the client's turn: an answer of the judge. It hands each answer, or nil with message and code,
--- to `billed`, which charges it and gives it back. nil, message and code when it never came
--- to that ("turn_gone", "turn_busy", "turn_limit", "turn_quota"), and for a quota the seconds until it has room again.
---@async
---@param who ServeClient
---@param exchange khost.Exchange|nil   of the request; nil for an open episode, which waits without a limit, since the
---                                     number of open episodes is limited
---@param work fun(billed: fun(answer: any, message?: string, code?: string): any): any
---@return any given, string? message, string? code, integer? seconds
function Turns:run(who, exchange, work)
  return self.queue:run(who.name, exchange and who.quotas.waiting or math.huge, function(waited_s)
    self.metrics:observe("queue_wait_seconds", waited_s)
    if exchange and exchange:gone() then
      return 0, nil, "the connection was closed, or half closed, while the request waited for its turn", "turn_gone"
    end
    local used_up, seconds = self.usage:exceeded(who)  -- by those before it
    if used_up then
      return 0, nil, used_up, "turn_quota", seconds
    end
    local begin, cost = sched.now(), 0
    local last = begin
    local given, message, code = work(function(answer, why, failure)
      local now = sched.now()
      cost, last = cost + charge(self, who.name, answer, failure, now - last), now
      return answer, why, failure
    end)
    self.metrics:observe("verdict_seconds", sched.now() - begin)
    return cost, given, message, code
  end)
end

-- A judge process for one client: each request has its turn and is charged. What had no turn is void in the end, as
-- what the judge lost: it says nothing about the candidate.
local function in_turns(self, who, exchange, process)
  local taken = { close = function() process:close() end }
  function taken.request(_, kind, body)
    local answer, message, code = self:run(who, exchange, function(billed)
      return billed(process:request(kind, body))
    end)
    return answer, message, code
  end
  return taken
end

--- A judge whose requests have their turns. It remembers what it said itself, and nothing of other clients.
---@param who ServeClient
---@param exchange khost.Exchange|nil   as of Turns:run
---@param shared table   the service's judge.client
---@return table
function Turns:judge(who, exchange, shared)
  return client.over(in_turns(self, who, exchange, shared.process), shared.options, shared.another and function()
    local process = shared.another()
    return process and in_turns(self, who, exchange, process)
  end)
end

return turns
