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
  return setmetatable({ options = options, jobs = {}, stopping = false, done = 0, registering = sched.semaphore(1) },
    Node)
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

-- Until it is registered, or told to stop. Raises where the front does not want it.
local function register(self)
  local told = false
  while not self.stopping do
    local status, body = post(self, "", { name = self.options.name, target = self.options.target })
    if status == 200 then
      self.id, self.lease_s = body.node, body.lease_s
      log.info("node_registered", { front = self.options.front, lease_s = self.lease_s })
      return
    elseif status and status < 500 then
      error(("front %s refuses this judge: %s"):format(self.options.front,
        tostring(((body or {}).error or {}).message or status)), 0)
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

-- Names the jobs that it has begun. Where the front knows it no more, it registers again; what it works on is given to
-- others by then.
local function renew(self)
  local id, jobs = self.id, {}
  for job in pairs(self.jobs) do
    jobs[#jobs + 1] = job
  end
  local status = post(self, "/alive", { node = id, jobs = json.list(jobs) })
  if status == 410 then
    register_again(self, id)
  end
  return status == 200
end

local function deliver(self, id, job, answer, message, code)
  for _ = 1, ANSWER_TRIES do
    local status = post(self, "/answer", answer and { node = id, job = job, answer = answer }
      or { node = id, job = job, message = message, code = code })
    if status and status < 500 then
      return
    end
    sched.sleep(AGAIN_S)
  end
end

local function work_once(self)
  local id = self.id
  local status, body = post(self, "/take", { node = id }, TAKE_S)
  if status == 410 then
    register_again(self, id)
  elseif status == 200 then
    self.jobs[body.job] = true
    -- The front learns that the job is begun before anything of the candidate can end this process.
    if renew(self) then
      deliver(self, id, body.job, self.options.judge:request(body.kind, body.body))
      self.done = self.done + 1
    end
    self.jobs[body.job] = nil
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
        work_once(self)
      end
    end)
  end
  for _, worker in ipairs(workers) do
    worker:wait()
  end
  renewing:cancel()
  post(self, "/leave", { node = self.id })
end

--- Takes no more jobs.
function Node:stop()
  self.stopping = true
end

return node
