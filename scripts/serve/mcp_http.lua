-- The Model Context Protocol over HTTP: its Streamable HTTP transport at /mcp of a service, for the same tools as
-- `khost mcp` has (serve.mcp_tools).
--
--   POST /mcp     one JSON-RPC message: 200 with the response as JSON; 202 where none is due
--   DELETE /mcp   ends the session
--   GET /mcp      405: the service begins no message, so it offers no stream (the specification allows that)
--
-- `initialize` opens a session, whose id comes in the field Mcp-Session-Id and stands in every later request. A session
-- belongs to the client that opened it; to others it does not exist. Every request of a tool to the judge waits for its
-- turn and is charged as one of /v1/verdict is. Without tokens an agent names folders below the service's root; with
-- tokens a client named NAME names folders below root/NAME alone.
--
-- https://modelcontextprotocol.io/specification/2025-11-25/basic/transports

local fs = require "khost.fs"
local gate = require "serve.gate"
local json = require "khost.json"
local log = require "khost.log"
local mcp = require "serve.mcp"
local mcp_tools = require "serve.mcp_tools"
local replies = require "serve.replies"
local request = require "serve.request"
local sched = require "khost.sched"
local tokenizers = require "serve.tokenizers"

local mcp_http = {}

local Http = {}
Http.__index = Http

local IDLE_S = 1800          -- after which a session without calls is forgotten
local MOST_SESSIONS = 64     -- of a client; one more ends its session that was silent for longest
-- Codes of JSON-RPC errors: the specification's for a version, and two of the range that is left to servers.
local PARSE, INVALID, VERSION, REFUSED, CANCELLED = -32700, -32600, -32022, -32000, -32001

---@class (exact) McpHttpOptions
---@field app table     serve.app's own: judge, clients, tasks, target
---@field turns table   serve.turns
---@field root string   as fs.absolute gives it
---@field bodies table  serve.bodies

---@param options McpHttpOptions
---@return table
function mcp_http.new(options)
  return setmetatable({ options = options, sessions = {} }, Http)
end

-- An answer with a JSON-RPC error in its body, which is what clients of the protocol read.
local function refuse(status, code, message, more)
  local body = mcp.failure(nil, code, message)
  body.error.data = (more or {}).data
  return { status = status, type = replies.JSON, headers = (more or {}).headers, body = json.encode(body) .. "\n" }
end

-- The folder whose workspaces a client may name, held: the client may own the folders above it, and could put a link
-- in its place later. nil and a message where there is none.
local function folder_of(self, who)
  local path = self.options.root
  if self.options.app.clients:need_tokens() then
    path = not who.name:find("^%.") and not who.name:find("[^%w%-_%.]") and path .. "/" .. who.name or nil
  end
  local folder, message
  if path then folder, message = fs.folder(path) end
  if message then log.warn("mcp_no_folder", { client = who.name, message = message }) end
  return folder, ("the service has no folder for this client: its --root needs one named %s"):format(who.name)
end

local function forget(self, id)
  self.sessions[id].folder:release()
  self.sessions[id] = nil
end

local function server_of(self, who, folder)
  local app, turns = self.options.app, self.options.turns
  return mcp_tools.server { roots = { folder }, target = app.target,
    judge = function(exchange) return turns:judge(who, exchange, app.judge) end,
    task = function(source) return request.task({ source = source }, app.tasks, who.rights.tasks == true) end,
    turn = function(exchange, work)
      return turns:run(who, exchange, function(billed)
        local given, message = work()
        billed(nil)  -- it tells no seconds, and costs those that it took
        return given, message
      end)
    end }
end

-- Forgets sessions that are silent, and the oldest of a client that has too many.
local function make_room(self, who)
  local now, count, oldest = sched.now(), 0, nil
  for id, one in pairs(self.sessions) do
    local idle = one.server.count == 0
    if idle and now - one.seen > IDLE_S then
      forget(self, id)
    elseif one.who == who then
      count = count + 1
      oldest = idle and (not oldest or one.seen < self.sessions[oldest].seen) and id or oldest
    end
  end
  if count < MOST_SESSIONS then
    return true
  elseif oldest then
    forget(self, oldest)
  end
  return oldest ~= nil
end

-- Answers `initialize` and opens a session.
local function open(self, who, message, exchange)
  local folder, problem = folder_of(self, who)
  if not folder then
    return refuse(403, REFUSED, problem)
  elseif not make_room(self, who) then
    folder:release()
    return refuse(429, REFUSED, ("%d sessions of this client are at work, and no more may be open")
      :format(MOST_SESSIONS), { headers = { ["retry-after"] = "5" } })
  end
  local server = server_of(self, who, folder)
  local response = server:handle(message, exchange)
  if not response or not response.result then
    folder:release()
    return { status = 400, type = replies.JSON, body = json.encode(response or mcp.failure(nil, INVALID,
      "initialize is a request: it needs an id")) .. "\n" }
  end
  local id = tokenizers.fresh_id()
  self.sessions[id] = { who = who, server = server, folder = folder, seen = sched.now() }
  return { status = 200, type = replies.JSON, headers = { ["mcp-session-id"] = id },
    body = json.encode(response) .. "\n" }
end

-- The session of a request, for the client that opened it.
local function session_of(self, who, head)
  local id = head.headers["mcp-session-id"]
  local one = id and self.sessions[id]
  if one and one.who == who then
    one.seen = sched.now()
    return one
  elseif not id then
    return nil, refuse(400, INVALID, "the header field Mcp-Session-Id is missing; the answer to initialize has it")
  end
  return nil, refuse(404, INVALID, "this client has no such session (any more): initialize again")
end

-- Why a tool may not be called now; nil where it may.
local function full(self, who)
  local turns = self.options.turns
  local message, seconds = turns.usage:exceeded(who)
  if not message and turns.queue:full() then
    message = "too many requests wait"
  elseif not message and turns.queue:of(who.name) >= who.quotas.waiting then
    message = "too many requests of this client wait"
  end
  return message and refuse(429, REFUSED, message,
    { headers = { ["retry-after"] = tostring(seconds or turns.queue:delay()) } })
end

-- What is wrong with the header fields of a message.
local function wrong_head(head)
  local fields = head.headers
  local kind, accept = (fields["content-type"] or ""):lower(), (fields.accept or "*/*"):lower()
  local version = fields["mcp-protocol-version"]
  if not kind:find("^application/json%s*$") and not kind:find("^application/json%s*;") then
    return refuse(415, INVALID, "Content-Type: application/json is expected")
  elseif not accept:find("application/json", 1, true) and not accept:find("application/*", 1, true)
      and not accept:find("*/*", 1, true) then
    return refuse(406, INVALID, "answers are application/json, which the field Accept leaves out")
  end
  for _, known in ipairs(mcp.VERSIONS) do
    if not version or version == known then
      return nil
    end
  end
  return refuse(400, VERSION, "this version of the protocol is not spoken here",
    { data = { supported = json.list(mcp.VERSIONS), requested = version:sub(1, 40) } })
end

local function post(self, exchange, head, who)
  local wrong = wrong_head(head)
  if wrong then
    return wrong
  end
  local text, why, code = self.options.bodies:read(exchange, who, mcp.MOST_LINE)
  if not text then
    return replies.bad_body(code, why)
  end
  local message, problem = json.decode(text, mcp.MOST_PARTS)
  if message == nil then
    return refuse(400, PARSE, problem or "not valid JSON")
  elseif type(message) == "table" and message.method == "initialize" then
    return open(self, who, message, exchange)
  end
  local one, refusal = session_of(self, who, head)
  if one and type(message) == "table" and message.method == "tools/call" then
    refusal = full(self, who)
  end
  if refusal then
    return refusal
  end
  local response = one.server:handle(message, exchange)
  one.seen = sched.now()
  if response then
    return { status = response.id == json.null and 400 or 200, type = replies.JSON,
      body = json.encode(response) .. "\n" }
  elseif message.method ~= nil and message.id ~= nil then
    return { status = 200, type = replies.JSON,
      body = json.encode(mcp.failure(message.id, CANCELLED, "the call was cancelled")) .. "\n" }
  end
  return { status = 202, body = "" }
end

local function delete(self, head, who)
  local one, refusal = session_of(self, who, head)
  if not one then
    return refusal
  end
  one.server:cancel_all()
  forget(self, head.headers["mcp-session-id"])
  return { status = 204, body = "" }
end

--- The answer to a request of /mcp.
---@async
---@param exchange khost.Exchange
---@param head table
---@return table
function Http:answer(exchange, head)
  local who, refusal = gate.client(head, self.options.app.clients, "candidates")
  if not who then
    return replies.refused(refusal)
  elseif head.method == "POST" then
    return post(self, exchange, head, who)
  elseif head.method == "DELETE" then
    return delete(self, head, who)
  end
  return replies.refused(gate.refusal(405, "bad_method", "/mcp takes POST and DELETE; it has no stream of its own",
    { allow = "POST, DELETE" }))
end

return mcp_http
