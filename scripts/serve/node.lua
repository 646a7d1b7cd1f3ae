-- A judge of a front on another machine (serve.front): registers, renews its lease, takes jobs and answers them. It
-- listens to nobody: every connection is its own. Where the front is away it tries again until it is told to stop.

local http = require "khost.http"
local json = require "khost.json"
local log = require "khost.log"
local sched = require "khost.sched"

local node = {}

local AGAIN_S = 1          -- between two tries to reach the front
local REQUEST_S, TAKE_S = 10, 30
local ANSWER_TRIES = 5
local LEAST_LEASE_S, MOST_LEASE_S = 0.1, 3600

local Node = {}
Node.__index = Node

---@class (exact) NodeOptions
---@field front string     URL
---@field token? string
---@field name string      for people
---@field target "cpu"|"cuda"
---@field slots integer    jobs at once
---@field judge table      answers `request(self, kind, body)` as a judge process does

---@param options NodeOptions
---@return table
function node.new(options)
  return setmetatable({ options = options, jobs = {}, stopping = false, done = 0, renewals = 0,
    registering = sched.semaphore(1), taking = sched.semaphore(1) }, Node)
end

local function post(self, path, body, seconds)
  local headers = { ["content-type"] = "application/json",
    authorization = self.options.token and "Bearer " .. self.options.token or nil }
  local answer, message = http.request { url = self.options.front .. "/v1/nodes" .. path, method = "POST",
    headers = headers, body = json.encode(body), timeout_s = seconds or REQUEST_S }
  if not answer then
    return nil, message
  end
  return answer.status, answer.body ~= "" and json.decode(answer.body) or nil
end

local function is_registration(body)
  return type(body) == "table" and type(body.node) == "string" and type(body.lease_s) == "number"
    and body.lease_s >= LEAST_LEASE_S and body.lease_s <= MOST_LEASE_S
end

-- The sentence of a refusal.
local function said(body)
  local failure = type(body) == "table" and body.error
  return type(failure) == "table" and type(failure.message) == "string" and failure.message or nil
end

-- Until it is registered, or told to stop. Raises where the front does not want it.
local function register(self)
  local told = false
  while not self.stopping do
    local status, body = post(self, "", { name = self.options.name, target = self.options.target })
    if status == 200 and is_registration(body) then
      self.id, self.lease_s = body.node, body.lease_s
      log.info("node_registered", { front = self.options.front, lease_s = self.lease_s })
      return
    elseif status and status < 500 then
      self.stopping = true
      self.refused = ("front %s refuses this judge: %s"):format(self.options.front, said(body) or
        ("what answers there with status %d is no front; give the URL that `khost serve --front` prints"):format(
          status))
      error(self.refused, 0)
    end
    if not told then
      log.warn("front_away", { front = self.options.front, message = tostring(body or status) })
      told = true
    end
    sched.sleep(AGAIN_S)
  end
end

-- Several tasks can find out that the front does not know `id`.
local function register_again(self, id)
  self.registering:use(function()
    if self.id == id then
      register(self)
    end
  end)
end

-- Names the jobs that it has begun, in time for another try before the lease is over. Where the front knows it no more,
-- it registers again; what it works on is given to others by then.
local function renew(self)
  local id, jobs = self.id, {}
  for job in pairs(self.jobs) do
    jobs[#jobs + 1] = job
  end
  self.renewals = self.renewals + 1
  local status = post(self, "/alive", { node = id, jobs = json.list(jobs), at = self.renewals },
    math.min(REQUEST_S, self.lease_s / 3))
  if status == 410 then
    register_again(self, id)
  end
  return status == 200
end

-- Whether the front has taken an answer, or has no use for one any more. It takes none that is too large or nested too
-- deep, and is told why there is none instead: else the job would go round the nodes until each has tried.
local function deliver(self, id, job, answer, message, code)
  local function replace(why)
    answer, code, message = nil, "host", "the judge's answer could not be delivered: " .. tostring(why)
    log.warn("node_answer_undelivered", { message = message })
  end
  local ok, problem = pcall(json.encode, { { answer } })
  if not ok then
    replace(problem)
  end
  for _ = 1, ANSWER_TRIES do
    local status, body = post(self, "/answer", answer and { node = id, job = job, answer = answer }
      or { node = id, job = job, message = message, code = code })
    local taken = status and (status < 400 or status == 410 or status == 422)
    if taken or status and status < 500 and not answer then
      return
    elseif status and status < 500 then
      replace(said(body) or status)
    else
      sched.sleep(AGAIN_S)
    end
  end
end

local function work_on(self, id, job)
  -- The front learns that the job is begun before anything of the candidate can end this process. A job of an identity
  -- that the front has dropped is somebody else's.
  if self.id == id and renew(self) and self.id == id then
    deliver(self, id, job.job, self.options.judge:request(job.kind, job.body))
    self.done = self.done + 1
  end
end

-- One request at a time waits for a job, however many slots are idle.
local function take(self)
  local id = self.id
  if not self.stopping then
    return id, post(self, "/take", { node = id }, TAKE_S)
  end
end

local function work_once(self)
  local id, status, body = self.taking:use(take, self)
  if not id then
    return
  elseif status == 410 then
    register_again(self, id)
  elseif status == 200 and type(body) == "table" and type(body.job) == "string" and type(body.kind) == "string"
      and type(body.body) == "table" then
    self.jobs[body.job] = true
    local ok, reason = pcall(work_on, self, id, body)
    self.jobs[body.job] = nil
    if not ok then
      error(reason, 0)
    end
  elseif status ~= 204 then
    sched.sleep(AGAIN_S)
  end
end

--- Works until stop(); then what it has begun is finished.
---@async
function Node:run()
  register(self)
  if self.stopping then
    return
  end
  local renewing = sched.every(self.lease_s / 3, function() renew(self) end)
  local workers = {}
  for index = 1, self.options.slots do
    workers[index] = sched.spawn(function()
      while not self.stopping do
        local ok, reason = pcall(work_once, self)
        if not ok and (reason == sched.CANCELLED or self.refused) then
          error(reason, 0)
        elseif not ok then
          log.error("node_failed", { message = tostring(reason) })
          sched.sleep(AGAIN_S)
        end
      end
    end)
  end
  for _, worker in ipairs(workers) do
    worker:wait()
  end
  renewing:cancel()
  if self.refused then
    error(self.refused, 0)
  end
  post(self, "/leave", { node = self.id })
end

--- Takes no more jobs.
function Node:stop()
  self.stopping = true
end

return node
