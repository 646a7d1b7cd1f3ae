-- Where judges register (docs/serve.md, "Many machines"): a listener of its own beside the one for clients, so that who
-- may ask for verdicts may not answer for a judge. Every request but the first names the node that it was given.
--
--   POST /v1/nodes          {"name", "target"}                 -> {"node", "lease_s"}
--   POST /v1/nodes/take     {"node"}                           -> {"job", "kind", "body"}, or 204 after some seconds
--   POST /v1/nodes/alive    {"node", "jobs": [job], "at"}      renews the lease; a job is begun once it stands here.
--                                                              at: the number of this renewal of the node
--   POST /v1/nodes/answer   {"node", "job", "answer"} or {"node", "job", "message", "code"}
--   POST /v1/nodes/leave    {"node"}
--   GET  /v1/nodes          nodes, jobs that wait, counts
--
-- 401 without the token, 409 for a judge of another target, 410 where node or job is not known any more, 422 for an
-- answer that no judge gives: the job goes to another node.

local answers = require "serve.answers"
local bodies = require "serve.bodies"
local fs = require "khost.fs"
local gate = require "serve.gate"
local json = require "khost.json"
local log = require "khost.log"
local node_answer = require "serve.node_answer"
local pool = require "serve.pool"
local sched = require "khost.sched"

local front = {}

local MOST_BYTES = 32 * 2 ^ 20  -- of an answer of a node
local MOST_PARTS = 2 ^ 20       -- lists, objects and fields of one
local NODES = { name = "nodes" }  -- they share the room for bodies
local MOST_NAME = 200
local TAKE_S = 10               -- that a node waits for a job in one request

local Front = {}
Front.__index = Front

---@class (exact) FrontOptions
---@field target "cpu"|"cuda"
---@field token? string      that nodes send; none on loopback
---@field hosts table<string, true>   gate.hosts
---@field lease_s number
---@field wait_s number
---@field take_s? number     that a node waits for a job in one request (10)

---@param options FrontOptions
---@return table
function front.new(options)
  local judges = pool.new { lease_s = options.lease_s, wait_s = options.wait_s }
  return setmetatable({ options = options, pool = judges, bodies = bodies.new { most = MOST_BYTES, alone = true } },
    Front)
end

local function reply(status, body)
  return { status = status, body = body and json.encode(body) .. "\n" or "" }
end

local function refuse(status, code, message)
  return { status = status, body = answers.failure(code, message) }
end

local GONE = "it is not known (any more); register again"

local ROUTES = {}

function ROUTES.register(self, body)
  if type(body.name) ~= "string" or #body.name > MOST_NAME or body.name:find "%c" then
    return refuse(400, "bad_input", ("name: a text of at most %d bytes without control characters expected")
      :format(MOST_NAME))
  elseif body.target ~= self.options.target then
    return refuse(409, "bad_target", ("this front judges %s"):format(self.options.target))
  end
  local id = self.pool:register(body.name)
  if not id then
    return refuse(503, "busy", "too many judges are registered")
  end
  log.info("node_registered", { name = body.name })
  return reply(200, { node = id, lease_s = self.options.lease_s })
end

function ROUTES.take(self, body, exchange)
  local job, message, code = self.pool:take(body.node, self.options.take_s or TAKE_S)
  if not job then
    return code and refuse(410, code, message) or reply(204)
  elseif exchange:gone() then
    self.pool:give_back(body.node, job.id)
    return reply(204)
  end
  return reply(200, { job = job.id, kind = job.kind, body = job.body }), function()
    self.pool:give_back(body.node, job.id)
  end
end

function ROUTES.alive(self, body)
  local jobs = {}
  for _, job in ipairs(type(body.jobs) == "table" and body.jobs or {}) do
    jobs[#jobs + 1] = type(job) == "string" and job or nil
  end
  local at = type(body.at) == "number" and body.at or nil
  return self.pool:renew(body.node, jobs, at) and reply(200, {}) or refuse(410, "gone", GONE)
end

function ROUTES.answer(self, body)
  if type(body.job) ~= "string" or (body.answer ~= nil and type(body.answer) ~= "table") then
    return refuse(400, "bad_input", "job: a text, and answer: an object expected")
  end
  local code = type(body.code) == "string" and body.code or "host"
  local message = type(body.message) == "string" and body.message or "the node gave no reason"
  self.pool:renew(body.node)
  local kind = self.pool:kind_of(body.node, body.job)
  local wrong = kind and body.answer and node_answer.wrong(kind, body.answer)
  if wrong then
    log.warn("node_answer_refused", { kind = kind, message = wrong })
    self.pool:refuse(body.node, body.job, wrong)
    return refuse(422, "bad_answer", wrong)
  end
  local kept = self.pool:finish(body.node, body.job, body.answer, not body.answer and message or nil,
    not body.answer and code or nil)
  return kept and reply(200, {}) or refuse(410, "gone", GONE)
end

function ROUTES.leave(self, body)
  self.pool:leave(body.node)
  return reply(200, {})
end

local POSTED = { ["/v1/nodes"] = "register", ["/v1/nodes/take"] = "take", ["/v1/nodes/alive"] = "alive",
  ["/v1/nodes/answer"] = "answer", ["/v1/nodes/leave"] = "leave" }

local function authorised(self, head)
  local token = (head.headers.authorization or ""):match("^[Bb][Ee][Aa][Rr][Ee][Rr] ([^%s,]+)$")
  return not self.options.token or token and fs.sha256(token) == fs.sha256(self.options.token)
end

-- The answer to a request, and what to do where it does not reach the node.
local function routed(self, exchange)
  local head = exchange:head()
  local refusal = gate.check(head, self.options.hosts)
  if refusal then
    return refuse(refusal.status, refusal.code, refusal.message)
  elseif not authorised(self, head) then
    return refuse(401, "bad_token", "the token of --node-token is needed")
  end
  local path = gate.target(head.target)
  if head.method == "GET" and path == "/v1/nodes" then
    local state = self.pool:state()
    state.nodes = json.list(state.nodes)
    return reply(200, state)
  end
  local name = head.method == "POST" and POSTED[path or ""]
  if not name then
    return refuse(404, "no_route", "POST /v1/nodes, and below it take, alive, answer, leave; GET /v1/nodes")
  end
  local text, message, code = self.bodies:read(exchange, NODES)
  local body, problem = nil, nil
  if text then
    body, problem = json.decode(text, MOST_PARTS)
  elseif code == "busy" then
    return refuse(503, code, message)
  end
  if type(body) ~= "table" then
    return refuse(400, code or "bad_input", message or problem or "the body is no JSON object")
  elseif name ~= "register" and type(body.node) ~= "string" then
    return refuse(400, "bad_input", "node: a text expected")
  end
  return ROUTES[name](self, body, exchange)
end

local function handle(self, exchange)
  local ok, answer, undo = pcall(routed, self, exchange)
  self.bodies:release(exchange)
  if not ok and answer == sched.CANCELLED then
    error(answer, 0)
  elseif not ok then
    log.error("front_failed", { message = tostring(answer) })
    answer, undo = refuse(500, "host", "the front failed at this request; its log says why"), nil
  end
  local sent = exchange:answer(answer.status, { ["content-type"] = "application/json" }, answer.body)
  if not sent and undo then
    undo()
  end
end

--- Takes nodes' requests until the listener is closed.
---@async
---@param listener khost.Listener
function Front:serve(listener)
  local sweeping = sched.every(self.options.lease_s / 4, function() self.pool:sweep() end)
  while true do
    local exchange = listener:take()
    if not exchange then
      break
    end
    sched.spawn(handle, self, exchange)
  end
  sweeping:cancel()
  self.pool:close()
end

return front
