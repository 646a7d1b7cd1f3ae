-- The service: takes requests from a listener, lets each route answer, and counts. Every request gets exactly one
-- answer: a route returns it, and whatever a route raises is answered 500 and logged.

local answers = require "serve.answers"
local client = require "judge.client"
local fs = require "khost.fs"
local gate = require "serve.gate"
local json = require "khost.json"
local log = require "khost.log"
local machine = require "khost.machine"
local metrics = require "serve.metrics"
local queue = require "serve.queue"
local request = require "serve.request"
local sched = require "khost.sched"
local tune = require "agent.tune"
local usage = require "serve.usage"
local verdicts = require "judge.verdict"

local app = {}

local App = {}
App.__index = App

local VOID_RETRY_S = 5   -- until a judge that died stands again
local STATUS = { bad_input = 400, no_task = 404, no_right = 403, limit = 413, timeout = 408, gone = 400 }
local JSON = "application/json"

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

---@param options ServeOptions
---@return table
function app.new(options)
  return setmetatable({ options = options, queue = queue.new(options.slots, options.capacity), usage = usage.new(),
    metrics = metrics.new(), running = {}, in_work = 0, draining = false }, App)
end

local function refused(refusal)
  return { status = refusal.status, type = JSON, body = answers.failure(refusal.code, refusal.message),
    headers = refusal.headers }
end

local function failed(status, code, message, retry_s)
  return refused(gate.refusal(status, code, message, retry_s and { ["retry-after"] = tostring(retry_s) } or nil))
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

local function charge(self, name, verdict)
  local amounts = usage.of(verdict, self.options.target)
  amounts.disk_mb = left_on_disk(self, verdict)
  self.usage:add(name, amounts)
  self.metrics:add("client_device_seconds_total", { client = name }, amounts.device_s)
  self.metrics:add("client_build_seconds_total", { client = name }, amounts.build_s)
  self.metrics:add("client_disk_megabytes_total", { client = name }, amounts.disk_mb)
  return amounts.device_s + amounts.build_s
end

-- What `work` gives in the client's turn: an answer of the judge. It hands each answer to `billed`, which charges it
-- and gives it back; what was not answered costs the seconds that it took. nil, message and code when it never came to
-- that, and for a quota the seconds until it has room again.
local function in_turn(self, exchange, who, work)
  return self.queue:run(who.name, who.quotas.waiting, function(waited_s)
    self.metrics:observe("queue_wait_seconds", waited_s)
    if exchange:gone() then
      return 0, nil, "the connection was closed, or half closed, while the request waited for its turn", "turn_gone"
    end
    local used_up, seconds = self.usage:exceeded(who)  -- by those before it
    if used_up then
      return 0, nil, used_up, "turn_quota", seconds
    end
    local begin, cost = sched.now(), 0
    local last = begin
    local given, message, code = work(function(answer, ...)
      local now = sched.now()
      cost, last = cost + (answer and charge(self, who.name, answer) or now - last), now
      return answer, ...
    end)
    self.metrics:observe("verdict_seconds", sched.now() - begin)
    return cost, given, message, code
  end)
end

local NO_TURN = { turn_gone = { 400, "half_closed" }, turn_busy = { 429, "busy" }, turn_limit = { 429, "waiting" },
  turn_quota = { 429, "quota" } }

-- The answer to a request that had no turn, or to which the judge had no answer.
local function unanswered(self, message, code, seconds)
  local status, word = unpack(NO_TURN[code] or { 503, "void" })
  local retry_s = status == 503 and VOID_RETRY_S or status == 429 and (seconds or self.queue:delay()) or nil
  return failed(status, word, message or "the judge had no answer", retry_s)
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
  elseif self.queue.waiting >= self.options.capacity then
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
  local text, message, code = exchange:body(request.MOST_BYTES)
  if not text then
    return nil, failed(STATUS[code] or 400, code, message)
  end
  local asked
  asked, message, code = read(text, { tasks = self.options.tasks, may_submit = who.rights.tasks == true,
    target = self.options.target })
  if not asked then
    return nil, failed(STATUS[code], code, message)
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
    verdict, message, code, seconds = in_turn(self, exchange, who, function(billed)
      return billed(self.options.judge:verdict(asked.task, asked.files, { measure = asked.measure,
        rules = asked.rules }))
    end)
  end
  if not verdict then
    return unanswered(self, message, code, seconds)
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
  local found, message, code, seconds = in_turn(self, exchange, who, function(billed)
    local judge = client.over(self.options.judge.process, self.options.judge.options)
    if asked.kind == "tune" then
      return tune.answer(asked, asked.files, function(changed)
        return billed(judge:feedback("profile", asked.task, changed, { kernels = false }))
      end)
    end
    return billed(judge:feedback(asked.kind, asked.task, asked.files))
  end)
  if not found or found.status and verdicts.is_void(found) then
    return unanswered(self, message or (found or {}).detail, code, seconds)
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
  local route = path and ROUTES[path]
  if not route then
    return failed(404, "no_route", "there is no such path: /v1/verdict, /v1/feedback, /health and /metrics are served"),
      "none"
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
  local ok, reason = pcall(exchange.answer, exchange, answer.status, headers, answer.body)
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
  while true do
    local exchange = listener:take()
    if not exchange then
      return
    end
    sched.spawn(self.handle, self, exchange)
  end
end

--- Accepts nothing more and waits for what is in work; what is not done after so many seconds is answered 503.
---@async
---@param seconds number
---@return boolean whole   whether everything was done in time
function App:drain(seconds)
  self.draining = true
  self.listener:close()
  local deadline = sched.now() + seconds
  while self.in_work > 0 and sched.now() < deadline do
    sched.sleep(0.02)
  end
  local whole = self.in_work == 0
  for work in pairs(self.running) do
    work:cancel()
  end
  local last = sched.now() + 2
  while self.in_work > 0 and sched.now() < last do
    sched.sleep(0.02)
  end
  return whole
end

--- The folder in which the judge keeps what it built.
---@return string
function app.artefacts()
  return require("lib.cache").folder "artefacts"
end

return app
