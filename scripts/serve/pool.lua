-- Judges on other machines as one judge. A node registers under a lease of seconds, takes jobs and answers them. One
-- that does not renew its lease loses the jobs that it holds. A job is given to one node at a time, and the first
-- answer of the node that has it is the only one that counts.
--
-- A job that was lost goes to another node, which works on nothing else meanwhile (serve.placing). Where that one is
-- lost too, the candidate ends judges, and its verdict is a crash, unless a node that was silent comes back
-- (serve.losses). A job that no node began is not counted as lost: it waits for the next one. Where no node has been
-- there for `wait_s`, it fails with code "void".
--
-- A node may also be broken: one that keeps a job for `job_s`, or answers what no judge answers, loses the job as well.
-- That says nothing about the candidate, so a job that was lost so and lost again is void.

local fs = require "khost.fs"
local losses = require "serve.losses"
local placing = require "serve.placing"
local sched = require "khost.sched"
local verdicts = require "judge.verdict"

local pool = {}

local MOST_MISSED = 2   -- renewals of a lease that do not name a job that was begun: requests can overtake each other
local JOB_S = 1800       -- a verdict's own limits end it earlier
local MOST_NODES = 4096  -- registered at once

local Pool = {}
Pool.__index = Pool

---@class (exact) PoolOptions
---@field lease_s number    until a node that is silent is lost
---@field wait_s number     that a job waits where there is no node
---@field job_s? number     that a node may work on one job (1800)
---@field now? fun(): number

---@param options PoolOptions
---@return table
function pool.new(options)
  local counts = { registered = 0, expired = 0, lost = 0, returned = 0, crashed = 0, void = 0, late = 0, answered = 0,
    overdue = 0, refused = 0, back = 0 }
  return setmetatable({ lease_s = options.lease_s, wait_s = options.wait_s, job_s = options.job_s or JOB_S,
    now = options.now or sched.now, nodes = {}, jobs = {}, waiting = {}, takers = {}, counts = counts,
    losses = losses.new(options.lease_s) }, Pool)
end

local function identity(self)
  self.number = (self.number or 0) + 1
  local random = assert(fs.read("/proc/sys/kernel/random/uuid")):gsub("[^%x]", "")
  return ("%s%d"):format(random, self.number)
end

local function remove(list, item)
  for index, one in ipairs(list) do
    if one == item then
      table.remove(list, index)
      break
    end
  end
end

local function finish(self, job, answer, message, code)
  self.jobs[job.id] = nil
  self.losses:forget(job)
  local node = job.node and self.nodes[job.node]
  if node then
    node.jobs[job.id] = nil
  end
  placing.release(self.nodes, job)
  job.done:put { answer = answer, message = message, code = code }
end

local function wait_again(self, job)
  job.node, job.since = nil, self.now()
  table.insert(self.waiting, 1, job)
end

local function end_as(self, job, ending, why)
  if ending == "crash" then
    self.counts.crashed = self.counts.crashed + 1
    finish(self, job, verdicts.blank("crash", "verify", "exit",
      ("%d judges were lost while they judged this candidate: %s"):format(job.losses, why)))
  else
    self.counts.void = self.counts.void + 1
    finish(self, job, nil, ("the judge was lost with this request: %s"):format(why), ending)
  end
end

-- A node does not answer this job any more. `silent`: nothing else is known of the node.
local function lose(self, job, why, silent)
  local node = job.node
  if self.nodes[node] then
    self.nodes[node].jobs[job.id] = nil
  end
  placing.release(self.nodes, job)
  if job.begun then
    self.counts.lost = self.counts.lost + 1
    self.losses:add(job, node, silent)
  else
    self.counts.returned = self.counts.returned + 1
    job.returned_by[node] = true
  end
  local ending = losses.ending(job)
  if ending == "held" then
    self.losses:hold(job, self.now(), why)
  elseif ending then
    end_as(self, job, ending, why)
  else
    wait_again(self, job)
  end
end

-- A node that is not known says something. Where it was only silent, its jobs were not lost by its death.
local function come_back(self, id)
  self.counts.back = self.counts.back + (self.losses.silent[id] and 1 or 0)
  for _, job in ipairs(self.losses:come_back(id)) do
    end_as(self, job, "void", job.why .. ", and came back")
  end
end

local function drop(self, id, why, silent)
  local node = self.nodes[id]
  self.nodes[id] = nil
  for index = #self.takers, 1, -1 do
    if self.takers[index].node == id then
      table.remove(self.takers, index).turn:put(false)
    end
  end
  local list = {}
  for _, job in pairs(node.jobs) do
    list[#list + 1] = job
  end
  table.sort(list, function(a, b) return a.order > b.order end)  -- each goes to the front: the oldest is first again
  for _, job in ipairs(list) do
    lose(self, job, why, silent)
  end
  placing.hand(self)
end

--- A new node; its identity. nil where too many are registered.
---@param name string     for people
---@return string|nil
function Pool:register(name)
  if placing.count_of(self.nodes) >= MOST_NODES then
    return nil
  end
  local id = identity(self)
  self.counts.registered = self.counts.registered + 1
  self.nodes[id] = { name = name, expires = self.now() + self.lease_s, jobs = {}, order = self.counts.registered,
    at = 0 }
  return id
end

--- Renews a lease. `begun`: jobs that the node works on or is about to begin; one that it no longer names goes back.
--- False for a node that is not known (any more): it registers again.
---@param id string
---@param begun? string[]
---@param at? integer   the node's count of its renewals: one that another has overtaken says nothing about jobs
---@return boolean
function Pool:renew(id, begun, at)
  local node = self.nodes[id]
  if not node then
    come_back(self, id)
    return false
  end
  node.expires = self.now() + self.lease_s
  if at then
    begun, node.at = at > node.at and begun or nil, math.max(at, node.at)
  end
  local named, forgotten = {}, {}
  for _, job in ipairs(begun or {}) do
    named[job] = true
  end
  for job_id, job in pairs(begun and node.jobs or {}) do
    job.missed = named[job_id] and 0 or job.missed + (job.begun and 1 or 0)
    job.begun = job.begun or named[job_id] == true
    if job.missed >= MOST_MISSED then
      forgotten[#forgotten + 1] = job_id
    end
  end
  for _, job_id in ipairs(forgotten) do
    self:give_back(id, job_id)
  end
  return true
end

--- The next job for a node, after at most so many seconds; nil when there is none, and for an unknown node a code too.
---@async
---@param id string
---@param seconds number
---@return {id: string, kind: string, body: table}|nil job, string? message, string? code
function Pool:take(id, seconds)
  if not self:renew(id) then
    return nil, "this node is not registered", "gone"
  end
  local taker = { node = id, turn = sched.channel(1) }
  self.takers[#self.takers + 1] = taker
  placing.hand(self)
  local ok, reason = pcall(function()
    if not taker.job then
      sched.timeout(seconds, taker.turn.take, taker.turn)
    end
  end)
  remove(self.takers, taker)
  if not ok then
    if taker.job then
      self:give_back(id, taker.job.id)
    end
    error(reason, 0)
  end
  return taker.job
end

--- A job that did not reach its node goes back.
---@param id string
---@param job_id string
function Pool:give_back(id, job_id)
  local job = self.jobs[job_id]
  if job and job.node == id then
    job.begun = false
    lose(self, job, "it did not reach its node")
    placing.hand(self)
  end
end

-- A job that its node holds and will not answer as it should; other than by a node's death, the node is to blame.
local function take_away(self, job, why)
  job.begun, job.broken = true, true
  lose(self, job, why)
  placing.hand(self)
end

--- Takes a job from a node whose answer is none. False where the job is not that node's (any more).
---@param id string
---@param job_id string
---@param why string
---@return boolean
function Pool:refuse(id, job_id, why)
  local job = self.jobs[job_id]
  if not job or job.node ~= id then
    return false
  end
  self.counts.refused = self.counts.refused + 1
  take_away(self, job, "its answer was none of a judge's: " .. why)
  return true
end

--- The kind of a job that a node holds; nil where it holds none of this id.
---@param id string
---@param job_id string
---@return string|nil
function Pool:kind_of(id, job_id)
  local job = self.jobs[job_id]
  return job and job.node == id and job.kind or nil
end

--- A node's answer to a job, or its failure. False where the job is not that node's (any more): the answer is dropped.
---@param id string
---@param job_id string
---@param answer table|nil
---@param message? string
---@param code? string
---@return boolean
function Pool:finish(id, job_id, answer, message, code)
  local job = self.jobs[job_id]
  if not job or job.node ~= id then
    self.counts.late = self.counts.late + 1
    come_back(self, id)
    return false
  end
  if not answer and code == "gone" then  -- the node lives, and its judge died
    job.begun = true
    lose(self, job, message or "its judge died")
    placing.hand(self)
  else
    self.counts.answered = self.counts.answered + 1
    finish(self, job, answer, message, code)
    placing.hand(self)  -- its node may have been kept free for it
  end
  return true
end

--- A node that ends by itself; what it holds goes to others.
---@param id string
function Pool:leave(id)
  if self.nodes[id] then
    drop(self, id, "its node left")
  else
    come_back(self, id)
  end
end

-- Where this process stood still itself, renewals wait to be read: its own absence is no node's silence.
local function forgive_absence(self, now)
  local gap = now - (self.swept or now)
  self.swept = now
  if gap > self.lease_s / 2 then
    for _, node in pairs(self.nodes) do
      node.expires = node.expires + gap
    end
    for _, job in pairs(self.jobs) do
      job.since = job.since + gap
    end
  end
end

--- Drops the nodes whose leases are over, and the jobs that no node is there for. Call it several times a lease.
function Pool:sweep()
  local now = self.now()
  forgive_absence(self, now)
  local silent, unbegun, overdue = {}, {}, {}
  for id, node in pairs(self.nodes) do
    silent[#silent + 1] = node.expires < now and id or nil
    for job_id, job in pairs(node.jobs) do
      if not job.begun and now - job.since > self.lease_s then
        unbegun[#unbegun + 1] = { id, job_id }
      elseif job.begun and now - job.since > self.job_s then
        overdue[#overdue + 1] = job
      end
    end
  end
  for _, id in ipairs(silent) do
    self.counts.expired = self.counts.expired + 1
    drop(self, id, ("node %s was silent for %g s"):format(self.nodes[id].name, self.lease_s), true)
  end
  for _, pair in ipairs(unbegun) do
    self:give_back(pair[1], pair[2])
  end
  for _, job in ipairs(overdue) do
    if job.node and self.jobs[job.id] then  -- its node may just have been dropped
      self.counts.overdue = self.counts.overdue + 1
      take_away(self, job, ("its node had it for %g s"):format(self.job_s))
    end
  end
  for _, job in ipairs(self.losses:due(now)) do
    end_as(self, job, "crash", job.why)
  end
  for index = #self.waiting, 1, -1 do
    local job = self.waiting[index]
    if not next(self.nodes) and now - job.since > self.wait_s then
      table.remove(self.waiting, index)
      self.counts.void = self.counts.void + 1
      finish(self, job, nil, ("no judge has been registered for %g s"):format(self.wait_s), "void")
    end
  end
end

--- As a judge process answers (judge.client: over).
---@async
---@param kind string
---@param body table
---@return table|nil answer, string? message, string? code
function Pool:request(kind, body)
  self.order = (self.order or 0) + 1
  local job = losses.job { id = identity(self), kind = kind, body = body, done = sched.channel(1), since = self.now(),
    order = self.order }
  self.jobs[job.id] = job
  self.waiting[#self.waiting + 1] = job
  placing.hand(self)
  local ok, found = pcall(job.done.take, job.done)
  if not ok then  -- cancelled: whoever has it answers in vain
    self.jobs[job.id] = nil
    self.losses:forget(job)
    remove(self.waiting, job)
    if job.node and self.nodes[job.node] then
      self.nodes[job.node].jobs[job.id] = nil
    end
    placing.release(self.nodes, job)
    placing.hand(self)
    error(found, 0)
  end
  return found.answer, found.message, found.code
end

--- What there is: nodes with their jobs, and the counts since the start.
---@return table
function Pool:state()
  local nodes = {}
  for _, node in pairs(self.nodes) do
    nodes[#nodes + 1] = { name = node.name, jobs = placing.count_of(node.jobs), lease_s = node.expires - self.now() }
  end
  table.sort(nodes, function(a, b) return a.name < b.name end)
  return { nodes = nodes, waiting = #self.waiting, counts = self.counts }
end

--- Ends what waits; nodes find out when they ask next.
function Pool:close()
  self.nodes, self.waiting = {}, {}
  for _, job in pairs(self.jobs) do
    job.done:put { message = "the front ends", code = "void" }
  end
  self.jobs = {}
end

return pool
