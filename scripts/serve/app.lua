-- The service: takes requests from a listener, lets each route answer, and counts. Every request gets exactly one
-- answer: a route returns it, and whatever a route raises is answered 500 and logged.

local answers = require "serve.answers"
local bodies = require "serve.bodies"
local client = require "judge.client"
local episodes = require "serve.episodes"
local fs = require "khost.fs"
local gate = require "serve.gate"
local json = require "khost.json"
local log = require "khost.log"
local mcp_http = require "serve.mcp_http"
local metrics = require "serve.metrics"
local replies = require "serve.replies"
local request = require "serve.request"
local sched = require "khost.sched"
local tune = require "agent.tune"
local turns = require "serve.turns"
local verdicts = require "judge.verdict"

local app = {}

local App = {}
App.__index = App

local JSON, VOID_RETRY_S = replies.JSON, replies.VOID_RETRY_S
local failed, refused = replies.failed, replies.refused

---@class (exact) ServeOptions
---@field judge table        judge.client
---@field clients table      serve.clients
---@field tasks table        serve.tasks
---@field schemes table      serve.schemes
---@field target "cpu"|"cuda"
---@field hosts table<string, true>   gate.hosts
---@field slots integer      verdicts that the judge works on at once
---@field capacity integer   requests that may wait, of all clients together
---@field artefacts? string  folder of what candidates leave on disk
---@field body_room? number  bytes of all bodies at once (serve.bodies)
---@field episodes? {tokenizers: table, store: khost.Store, most: integer, limits?: table}   as serve.episodes; without
---  it no token-step episodes are served
---@field root? string       of the workspaces that agents name over MCP (serve.mcp_http); without it there is no /mcp

---@param options ServeOptions
---@return table
function app.new(options)
  local counts = metrics.new()
  local judged = turns.new { slots = options.slots, capacity = options.capacity, metrics = counts,
    target = options.target, artefacts = options.artefacts }
  local taken = bodies.new { most = request.MOST_BYTES, alone = not options.clients:need_tokens(),
    room = options.body_room }
  local given = options.episodes
  local played = given and episodes.new { app = options, turns = judged, metrics = counts, bodies = taken,
    tokenizers = given.tokenizers, store = given.store, most = given.most, limits = given.limits } or nil
  local tools = options.root and mcp_http.new { app = options, turns = judged, root = options.root, bodies = taken }
  return setmetatable({ options = options, episodes = played, mcp = tools, turns = judged, queue = judged.queue,
    bodies = taken, usage = judged.usage, metrics = counts, running = {}, in_work = 0, draining = false }, App)
end

-- Numbers for trainers that read nothing else. What has no number is an error there, never 0 or -1.
local function as_number(reward, verdict, why)
  if reward then
    return { status = 200, type = "text/plain", body = ("%.17g\n"):format(reward) }
  elseif verdicts.is_void(verdict) then
    return failed(503, "void", why, VOID_RETRY_S)
  end
  return failed(422, "no_reward", why)
end

local function answer_of(self, asked, who, scheme, verdict, form)
  local reward, parts, hash = self.options.schemes:score(scheme, verdict)
  self.metrics:add("verdicts_total", { status = verdict.status })
  local why = not reward and tostring(parts) or nil
  if why then
    self.metrics:add("rewards_void_total", { status = verdict.status })
  end
  log.info("serve_verdict", { client = who.name, task = asked.task.hash, status = verdict.status,
    reason = verdict.reason, reward = reward, script_hash = hash })
  if form == "number" then
    return as_number(reward, verdict, why)
  end
  local void = verdicts.is_void(verdict)
  return { status = void and 503 or 200, type = JSON,
    headers = void and { ["retry-after"] = tostring(VOID_RETRY_S) } or {},
    body = answers.body({ reward = reward, why = why, parts = reward and parts or nil, scheme = scheme.script,
      script_hash = hash, task = asked.task.hash, verdict = verdict }, who.rights) }
end

-- Who may have something judged now; refusals need no body.
local function admitted(self, head)
  local who, refusal = gate.client(head, self.options.clients, "candidates")
  if not who then
    return nil, refused(refusal)
  end
  local message, seconds = self.usage:exceeded(who)
  if message then
    return nil, failed(429, "quota", message, seconds)
  elseif self.queue:full() then
    return nil, failed(429, "busy", "too many requests wait", self.queue:delay())
  end
  return who
end

-- The client and what it asks, read by `read`; else the refusal.
local function asked_by(self, exchange, head, read)
  local who, refusal = admitted(self, head)
  if not who then
    return nil, refusal
  end
  local text, message, code = self.bodies:read(exchange, who)
  if not text then
    return nil, replies.bad_body(code, message)
  end
  local asked
  asked, message, code = read(text, { tasks = self.options.tasks, may_submit = who.rights.tasks == true,
    target = self.options.target })
  if not asked then
    return nil, replies.bad_body(code, message)
  end
  return who, asked
end

function App:verdict(exchange, head, query)
  if query.form and query.form ~= "number" and query.form ~= "json" then
    return failed(400, "bad_input", "form: number or json expected")
  end
  local who, asked = asked_by(self, exchange, head, request.verdict)
  if not who then
    return asked
  end
  local scheme, unknown = self.options.schemes:get(asked.scheme)
  if not scheme then
    return failed(400, "bad_input", "scheme: " .. unknown)
  end
  local verdict, message, code, seconds = asked.verdict, nil, nil, nil
  if not verdict then
    verdict, message, code, seconds = self.turns:run(who, exchange, function(billed)
      return billed(self.options.judge:verdict(asked.task, asked.files, { measure = asked.measure,
        rules = asked.rules }))
    end)
  end
  if not verdict then
    return replies.unanswered(message, code, seconds or self.queue:delay())
  end
  return answer_of(self, asked, who, scheme, verdict, query.form)
end

-- What an agent may know while it writes, from visible inputs alone. No answer is kept for a second question: clients
-- would share it.
function App:feedback(exchange, head)
  local who, asked = asked_by(self, exchange, head, request.feedback)
  if not who then
    return asked
  end
  local found, message, code, seconds = self.turns:run(who, exchange, function(billed)
    local judge = client.over(self.options.judge.process, self.options.judge.options)
    if asked.kind == "tune" then
      return tune.answer(asked, asked.files, function(changed)
        return billed(judge:feedback("profile", asked.task, changed, { kernels = false }))
      end)
    end
    return billed(judge:feedback(asked.kind, asked.task, asked.files))
  end)
  if not found or found.status and verdicts.is_void(found) then
    return replies.unanswered(message or (found or {}).detail, code, seconds or self.queue:delay())
  end
  self.metrics:add("feedback_total", { kind = asked.kind })
  return { status = 200, type = JSON, body = json.encode { ok = found.ok, text = found.text, status = found.status,
    times = found.times } .. "\n" }
end

function App:health()
  return { status = self.draining and 503 or 200, type = JSON,
    body = self.draining and '{"status":"draining"}\n' or '{"status":"ok"}\n' }
end

local function resident_bytes()
  local pages = (fs.read("/proc/self/statm") or ""):match("^%d+ (%d+)")
  return pages and tonumber(pages) * 4096 or nil
end

function App:metrics_text(_, head)
  local who, refusal = gate.client(head, self.options.clients, "metrics")
  if not who then
    return refused(refusal)
  end
  local m, counts = self.metrics, self.listener and self.listener:counts() or {}
  m:set("queue_waiting", self.queue.waiting)
  m:set("queue_running", self.queue.slots - self.queue.free)
  m:set("body_bytes", self.bodies.bytes)
  m:set("episodes_open", self.episodes and self.episodes.open or 0)
  m:set("tasks_loaded", self.options.tasks.count)
  m:set("lua_memory_bytes", sched.stats().memory_bytes)
  m:set("resident_memory_bytes", resident_bytes() or 0)
  m:set("connections_accepted_total", counts.accepted or 0)
  m:set("connections_turned_away_total", counts.turned_away or 0)
  m:set("connections_open", counts.open or 0)
  return { status = 200, type = "text/plain; version=0.0.4", body = m:text() }
end

local ROUTES = {
  ["/v1/verdict"] = { POST = "verdict" },
  ["/v1/feedback"] = { POST = "feedback" },
  ["/health"] = { GET = "health" },
  ["/metrics"] = { GET = "metrics_text" },
}

-- The answer to a request, and the name of its route for the counts.
local function routed(self, exchange)
  local head = exchange:head()
  local refusal = gate.check(head, self.options.hosts)
  if refusal then
    return refused(refusal), "refused"
  end
  local path, query = gate.target(head.target)
  if path and path:find("^/v1/episodes") and self.episodes then
    local answer, name = self.episodes:answer(exchange, head, path, self.options.clients)
    if answer then
      return answer, name
    end
  end
  if path == "/mcp" and self.mcp then
    return self.mcp:answer(exchange, head), path
  end
  local route = path and ROUTES[path]
  if not route then
    return failed(404, "no_route", "there is no such path: /v1/verdict, /v1/feedback, /health and /metrics are served, "
      .. "/v1/episodes where the service has a --tokenizer, and /mcp where it has a --root"), "none"
  elseif not route[head.method] then
    local allowed = next(route)
    return refused(gate.refusal(405, "bad_method", ("%s takes %s"):format(path, allowed), { allow = allowed })), path
  end
  return self[route[head.method]](self, exchange, head, query), path
end

--- Answers one request. Cancelling what works on it, as a drain does in the end, is answered 503.
---@async
---@param exchange khost.Exchange
function App:handle(exchange)
  local work = sched.spawn(routed, self, exchange)
  self.running[work] = true
  self.in_work = self.in_work + 1
  local answer, route, code = work:wait()
  self.running[work] = nil
  if code == "cancelled" then
    answer, route = failed(503, "draining", "the service is ending", VOID_RETRY_S), "drained"
  elseif not answer then
    log.error("serve_failed", { message = tostring(route), trace = work:trace() })
    answer, route = failed(500, "host", "the service failed at this request; its log says why"), "failed"
  end
  self.metrics:add("requests_total", { route = route, status = answer.status })
  local headers = { ["content-type"] = answer.type, ["cache-control"] = "no-store",
    ["x-content-type-options"] = "nosniff" }
  for name, value in pairs(answer.headers or {}) do
    headers[name] = value
  end
  self.bodies:release(exchange)
  local ok, reason = pcall(exchange.answer, exchange, answer.status, headers, answer.body)
  if answer.unsent and not (ok and reason) then
    answer.unsent()
  end
  self.in_work = self.in_work - 1
  if not ok then
    error(reason, 0)
  end
end

--- Takes requests until the listener is closed.
---@async
---@param listener khost.Listener
function App:serve(listener)
  self.listener = listener
  if self.episodes then
    sched.spawn(self.episodes.serve, self.episodes)
  end
  while true do
    local exchange = listener:take()
    if not exchange then
      return
    end
    sched.spawn(self.handle, self, exchange)
  end
end

-- Waits until nothing is in work, at most so many seconds; whether that was reached.
function App:settle(seconds)
  local deadline = sched.now() + seconds
  local function busy() return self.in_work > 0 or self.episodes and self.episodes.open > 0 end
  while busy() and sched.now() < deadline do
    sched.sleep(0.02)
  end
  return not busy()
end

--- Accepts nothing more and waits for what is in work; what is not done after so many seconds is answered 503.
---@async
---@param seconds number
---@return boolean whole   whether everything was done in time
function App:drain(seconds)
  self.draining = true
  self.listener:close()
  if self.episodes then
    self.episodes:drain()
  end
  local whole = self:settle(seconds)
  for work in pairs(self.running) do
    work:cancel()
  end
  if self.episodes then
    self.episodes:cancel()
  end
  self:settle(2)
  return whole
end

--- The folder in which the judge keeps what it built.
---@return string
function app.artefacts()
  return require("lib.cache").folder "artefacts"
end

return app
