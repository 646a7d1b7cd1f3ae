-- The Model Context Protocol in JSON-RPC 2.0: initialize, ping, tools/list and tools/call. They come as lines
-- (Server:serve) or one by one (Server:handle, for serve.mcp_http). Calls are worked on at the same time; each gets one
-- response, unless its client cancels it. What a cancelled call has asked of the judge is worked on nevertheless, so it
-- keeps its place among the calls until its tool is done.

local json = require "khost.json"
local log = require "khost.log"
local sched = require "khost.sched"

local mcp = {}

local Server = {}
Server.__index = Server

-- Versions whose handshake and tools are the same here, the newest last.
mcp.VERSIONS = { "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25" }
mcp.MOST_LINE = 4 * 2 ^ 20  -- bytes
local MOST_AT_ONCE = 32     -- calls
local MOST_LINES = 256      -- that are worked on or whose responses nobody has read
mcp.MOST_PARTS = 10000      -- lists, objects and fields of a line
local LAST_S = 1            -- for what is answered at once when the input ends
local PARSE, INVALID, METHOD, PARAMS, INTERNAL = -32700, -32600, -32601, -32602, -32603

---@class (exact) McpTool
---@field name string
---@field description string
---@field schema table        JSON schema of the arguments, an object
---@field run fun(arguments: table, is_wanted: (fun(): boolean), asked_by: any): string|nil, string?
---text for the agent, or nil and what went wrong; is_wanted says no once the call is cancelled; asked_by is that of
---Server:handle

---@param options {name: string, version: string, instructions: string, tools: McpTool[]}
---@return table
function mcp.new(options)
  local self = setmetatable({ options = options, by_name = {}, running = {}, count = 0 }, Server)
  for _, tool in ipairs(options.tools) do
    self.by_name[tool.name] = tool
  end
  return self
end

-- A number that is not whole, or from 2^53 on, could come back as another one.
local function is_id(value)
  return type(value) == "string" or type(value) == "number" and value == math.floor(value)
    and math.abs(value) < 2 ^ 53
end

--- A response that says what is wrong with a request.
---@param id string|number|nil   nil where it is not known
---@param code integer           of JSON-RPC
---@param message string
---@return table
function mcp.failure(id, code, message)
  return { jsonrpc = "2.0", id = id == nil and json.null or id, error = { code = code, message = message } }
end

local failure = mcp.failure

local function result(id, value)
  return { jsonrpc = "2.0", id = id, result = value }
end

local function initialize(self, id, params)
  local version = mcp.VERSIONS[#mcp.VERSIONS]
  for _, known in ipairs(mcp.VERSIONS) do
    version = known == params.protocolVersion and known or version
  end
  return result(id, { protocolVersion = version, capabilities = { tools = { listChanged = false } },
    serverInfo = { name = self.options.name, version = self.options.version },
    instructions = self.options.instructions })
end

local function list(self, id)
  local tools = {}
  for index, tool in ipairs(self.options.tools) do
    tools[index] = { name = tool.name, description = tool.description, inputSchema = tool.schema }
  end
  return result(id, { tools = json.list(tools) })
end

local TYPES = {
  string = function(value) return type(value) == "string" end,
  boolean = function(value) return type(value) == "boolean" end,
  array = function(value) return type(value) == "table" and (next(value) == nil or #value > 0) end,
  integer = function(value)
    return type(value) == "number" and value == math.floor(value) and math.abs(value) < 2 ^ 53
  end,
}

-- What is wrong with the arguments of a tool, by its schema.
local function problem_of(schema, arguments)
  for name, value in pairs(arguments) do
    local property = schema.properties[name]
    if not property then
      return ("unknown argument '%s'"):format(tostring(name):sub(1, 80))
    elseif not TYPES[property.type](value) then
      return ("%s: %s expected, got %s"):format(name, property.type, type(value))
    end
    for _, item in ipairs(property.items and value or {}) do
      if not TYPES[property.items.type](item) then
        return ("%s: every item must be of type %s"):format(name, property.items.type)
      end
    end
  end
  for _, name in ipairs(schema.required) do
    if arguments[name] == nil then
      return ("argument '%s' is missing"):format(name)
    end
  end
end

-- Runs a tool in a task of its own. What it says, good or bad, is a result: the model reads it and may mend its call.
local function call(self, id, params, asked_by)
  local tool = type(params.name) == "string" and self.by_name[params.name]
  local arguments = params.arguments == nil and {} or params.arguments
  if not tool then
    return failure(id, PARAMS, ("unknown tool '%s'"):format(tostring(params.name):sub(1, 80)))
  elseif type(arguments) ~= "table" or #arguments > 0 then
    return failure(id, PARAMS, "arguments must be an object")
  elseif self.count >= MOST_AT_ONCE then
    return failure(id, PARAMS, ("%d calls are worked on: wait for one"):format(MOST_AT_ONCE))
  elseif self.running[id] then
    return failure(id, INVALID, "another request with this id is worked on")
  end
  local problem = problem_of(tool.schema, arguments)
  if problem then
    return result(id, { content = { { type = "text", text = problem } }, isError = true })
  end
  local asked = { cancelled = false }
  local work = sched.spawn(tool.run, arguments, function() return not asked.cancelled end, asked_by)
  self.running[id], self.count = asked, self.count + 1
  local text, message, code = work:wait()
  self.running[id], self.count = nil, self.count - 1
  if asked.cancelled or code == "cancelled" then
    return nil
  elseif code == "failed" then
    log.error("mcp_tool_failed", { tool = tool.name, trace = work:trace() })
    message = ("%s failed: %s"):format(tool.name, message)
  end
  return result(id, { content = { { type = "text", text = text or message } }, isError = text == nil })
end

local METHODS = { initialize = initialize, ["tools/list"] = list, ["tools/call"] = call,
  ping = function(_, id) return result(id, {}) end }

local function notified(self, message)
  local params = type(message.params) == "table" and message.params or {}
  if message.method == "notifications/cancelled" and is_id(params.requestId) and self.running[params.requestId] then
    self.running[params.requestId].cancelled = true
  end
end

--- The response to one line; nil where none is due.
---@async
---@param line string
---@return table|nil
function Server:respond(line)
  local message, problem = json.decode(line, mcp.MOST_PARTS)
  if message == nil then
    return failure(nil, PARSE, problem or "not valid JSON")
  end
  return self:handle(message)
end

--- The response to one message; nil where none is due.
---@async
---@param message any     as json.decode gives it
---@param asked_by? any   handed to the tool that is called: where the message came from
---@return table|nil
function Server:handle(message, asked_by)
  if type(message) ~= "table" or message.jsonrpc ~= "2.0" then
    return failure(nil, INVALID, "one JSON-RPC 2.0 object is expected")
  elseif message.method == nil then
    return nil  -- a response, and nothing was asked
  elseif type(message.method) ~= "string" then
    return failure(is_id(message.id) and message.id or nil, INVALID, "method must be a text")
  elseif message.id == nil then
    notified(self, message)
    return nil
  elseif not is_id(message.id) then
    return failure(nil, INVALID, "id must be a text or a whole number below 2^53")
  end
  local method = METHODS[message.method]
  local params = message.params == nil and {} or message.params
  if not method then
    return failure(message.id, METHOD, ("no method '%s'"):format(message.method:sub(1, 80)))
  elseif type(params) ~= "table" then
    return failure(message.id, PARAMS, "params must be an object")
  end
  return method(self, message.id, params, asked_by)
end

--- Tells the tools that work that nobody waits for them any more.
function Server:cancel_all()
  for _, asked in pairs(self.running) do
    asked.cancelled = true
  end
end

-- The line that answers a line; nil where none is due. A request that this server fails at has a response too: its
-- client would wait for one.
local function response_to(self, line)
  local ok, text = pcall(function()
    local response = self:respond(line)
    return response and json.encode(response) .. "\n"
  end)
  if ok then
    return text
  elseif text == sched.CANCELLED then
    error(text, 0)
  end
  log.error("mcp_failed", { message = tostring(text) })
  local asked = json.decode(line, mcp.MOST_PARTS)
  return json.encode(failure(type(asked) == "table" and is_id(asked.id) and asked.id or nil, INTERNAL,
    "the server failed at this request; its log says why")) .. "\n"
end

--- Answers lines until the input ends; what is worked on then is given up.
---@async
---@param lines khost.Lines   or what has its read and write
---@return boolean whole      false when a line was too long to go on
function Server:serve(lines)
  -- A client that reads no responses is not read from: they would pile up here.
  local tasks, places = {}, sched.channel(MOST_LINES)
  while true do
    places:put(true)
    local line, message, code = lines:read(mcp.MOST_LINE)
    if not line then
      local last = sched.now() + LAST_S
      while next(tasks) and sched.now() < last do
        sched.sleep(0.01)
      end
      for task in pairs(tasks) do
        task:cancel()
      end
      if code ~= "gone" then
        lines:write(json.encode(failure(nil, PARSE, message)) .. "\n")
      end
      return code == "gone"
    elseif line:find("%S") then
      local task
      task = sched.spawn(function()
        local text = response_to(self, line)
        if text then
          lines:write(text)
        end
        tasks[task] = nil
        places:take()
      end)
      tasks[task] = true
    else
      places:take()
    end
  end
end

return mcp
