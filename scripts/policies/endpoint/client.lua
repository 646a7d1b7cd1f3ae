-- Asks a chat completions server: one answer, in as many tries as are allowed. Busy and broken servers are asked again,
-- with growing pauses; fields that a server refuses are left out from then on; what happened is counted. The key comes
-- from the environment and goes into one header, nowhere else.

local answers = require "policies.endpoint.answer"
local events = require "policies.endpoint.events"
local failure = require "policies.endpoint.failure"
local fs = require "khost.fs"
local http = require "khost.http"
local json = require "khost.json"
local log = require "khost.log"
local sched = require "khost.sched"
local usage = require "policies.endpoint.usage"
local wait = require "policies.endpoint.wait"

local client = {}

client.DEFAULTS = { tries = 8, pause_s = 0.5, most_pause_s = 60, timeout_s = 600, idle_s = 60 }

-- The line that ends a stream. With the line end in front it stands in no JSON, where a model may have written it.
local DONE = "\ndata: [DONE]"
-- Bytes of one answer: what a stream writes around each token, and what an answer has besides. A server that sends more
-- than its answer can have would be read for minutes.
local BYTES_A_TOKEN, BYTES_BESIDE, MOST_BYTES = 2048, 2 ^ 20, 2 ^ 26
local AGAIN = { connect = true, io = true, timeout = true }
local FEW_TRIES = 3      -- of an answer that a filter took, or that is empty
local LEAST_ANSWER = 64  -- tokens; with less room than this beside it a conversation is full

-- Fields that some servers refuse: left out from then on when a refusal names them.
local OPTIONAL = { "parallel_tool_calls", "stream_options", "seed", "top_p", "temperature", "stream" }
-- How a server says that it lacks a field, instead of refusing it.
local LACKING = { "must be passed back", "missing", "is required" }

local Client = {}
Client.__index = Client

---@class (exact) EndpointClientOptions
---@field url string               up to and with /v1
---@field key_env? string          environment variable of the key; KHOST_ENDPOINT_KEY, then OPENAI_API_KEY
---@field tries? integer           of one answer; 8
---@field pause_s? number          before the second try, doubled before each further; 0.5
---@field most_pause_s? number     60
---@field timeout_s? number        of one try; 600
---@field idle_s? number           of a stream without a byte; 60

--- A client of one server.
---@param options EndpointClientOptions
---@return table
function client.open(options)
  local self = setmetatable({ counts = {}, refused = {}, dropped = {}, required = {},
    random = sched.random("endpoint") }, Client)
  for name, default in pairs(client.DEFAULTS) do
    self[name] = options[name] or default
  end
  self.key_env, self.url = options.key_env, options.url:gsub("/+$", "")
  return self
end

function Client:count(what)
  self.counts[what] = (self.counts[what] or 0) + 1
end

function Client:key()
  local key = fs.env(self.key_env or "KHOST_ENDPOINT_KEY") or not self.key_env and fs.env "OPENAI_API_KEY" or ""
  key = key:match("^%s*(.-)%s*$")
  return key ~= "" and key or nil
end

function Client:headers()
  local key = self:key()
  return { ["Content-Type"] = "application/json", Authorization = key and "Bearer " .. key or nil }
end

-- Servers repeat what they refuse.
function Client:without_key(text)
  local key = self:key()
  return key and (text:gsub(key:gsub("%p", "%%%0"), "(key)")) or text
end

local function names_word(text, word)
  return text:find("%f[%w_]" .. word .. "%f[^%w_]") ~= nil
end

-- A provider's own field of an earlier answer that the server does not take back, or one that it misses.
local function refused_echo(body, text)
  for _, message in ipairs(body.messages) do
    for name in pairs(message.role == "assistant" and message or {}) do
      local ours = name == "role" or name == "content" or name == "tool_calls"
      if not ours and names_word(text, (name:gsub("%p", "%%%0"))) then
        return name
      end
    end
  end
end

-- Which optional field a refusal is about.
local function refused_field(body, text)
  for _, name in ipairs(OPTIONAL) do
    if body[name] ~= nil and names_word(text, name) then
      return name
    end
  end
  if body.max_tokens and text:find("max_completion_tokens", 1, true) then
    return "max_tokens"
  end
end

function Client:pause(try, problem, headers)
  local wanted = math.min(self.most_pause_s, self.pause_s * 2 ^ (try - 1))
  local named = headers and wait.seconds(headers, sched.wall_clock()) or problem.wait
  if named then
    return math.min(named, self.most_pause_s) + 0.1 * self.random:number()
  end
  return wanted * (0.5 + 0.5 * self.random:number())
end

local function limit_name(body)
  return body.max_completion_tokens and "max_completion_tokens" or "max_tokens"
end

-- One try: an answer; or nil and a failure, and the headers that came with it.
function Client:try(body)
  self:count("requests")
  local got, message, code = http.request { url = self.url .. "/chat/completions", method = "POST",
    headers = self:headers(), body = json.encode(body), timeout_s = self.timeout_s,
    idle_s = body.stream and self.idle_s or nil, stop_at = body.stream and DONE or nil,
    most_bytes = math.min(MOST_BYTES, BYTES_BESIDE + BYTES_A_TOKEN * (body[limit_name(body)] or MOST_BYTES)) }
  if not got then
    return nil, { kind = AGAIN[code] and "again" or "refused", why = code, message = message }
  end
  local found, problem
  if got.status == 200 then
    found, problem = answers.read(got.body, got.headers["content-type"])
  else
    problem = failure.of_status(got.status, got.body, got.headers)
  end
  if problem then
    problem.message = self:without_key(problem.message)
  end
  return found, problem, got.headers
end

local function lower(body, most)
  local name = limit_name(body)
  if not most or not body[name] or most < 1 or most >= body[name] then
    return false
  end
  body[name] = most
  return true
end

-- Changes a request so that it may be taken; the word that is counted, or nil when nothing can be changed.
function Client:amend(body, problem)
  if problem.kind == "context" then
    self.context = problem.context and math.min(problem.context, self.context or math.huge) or self.context
    return (problem.room or 0) >= LEAST_ANSWER and lower(body, problem.room) and "shortened" or nil
  elseif problem.kind ~= "refused" then
    return nil
  end
  if lower(body, problem.most_tokens) then
    self.most_tokens = problem.most_tokens
    return "shortened"
  end
  local field = refused_field(body, problem.message)
  if field then
    self.refused[field] = true
    if field == "max_tokens" then
      body.max_completion_tokens = body.max_tokens
    end
    body[field] = nil
    body.stream_options = body.stream and body.stream_options or nil
    return "refused_" .. field
  end
  return self:amend_echo(body, problem.message)
end

function Client:amend_echo(body, text)
  for _, word in ipairs(LACKING) do
    if text:lower():find(word, 1, true) then
      if self.required.reasoning_content or not names_word(text, "reasoning_content") then
        return nil
      end
      self.required.reasoning_content = true
      return "required_reasoning_content"
    end
  end
  local echo = refused_echo(body, text)
  if echo and not self.dropped[echo] then
    self.dropped[echo] = true
    return "refused_" .. echo
  end
end

--- The messages as this server takes them: without the fields of earlier answers that it refused, and with an empty
--- reasoning_content where it insists on one.
---@param messages table[]
---@return table[]
function Client:sendable(messages)
  local list = {}
  for index, message in ipairs(messages) do
    local sent = message
    if message.role == "assistant" then
      sent = {}
      for name, value in pairs(message) do
        if not self.dropped[name] then
          sent[name] = value
        end
      end
      if self.required.reasoning_content and not sent.reasoning_content then
        sent.reasoning_content = ""
      end
    end
    list[index] = sent
  end
  return json.list(list)
end

-- Whether another try is worth it, and what is counted as its reason.
function Client:again(problem, try)
  local most = problem.kind == "filtered" and math.min(FEW_TRIES, self.tries) or self.tries
  return (problem.kind == "again" or problem.kind == "filtered") and try < most
end

--- An answer, with as many tries as are allowed. Messages are in `body.messages`, the limit of the answer in its
--- max_tokens.
---@async
---@param body table
---@return {answer?: table, message?: string, code?: "limit"|"endpoint", kind?: string, retried: integer, spent: table}
function Client:ask(body)
  local messages, try, result = body.messages, 1, { retried = 0, spent = {} }
  while true do
    body.messages = self:sendable(messages)
    local answer, problem, headers = self:try(body)
    local empty = answer and answer.label == "empty_answer" and not answer.thought
    if empty and try < math.min(FEW_TRIES, self.tries) then
      problem = failure.bad("the answer is empty", "empty")
      answer, problem.usage = nil, answer.usage
    end
    if answer then
      usage.add(result.spent, answer.usage)
      result.answer = answer
      return result
    elseif problem.usage then
      usage.add(result.spent, problem.usage)
    end
    local change = self:amend(body, problem)
    if change then
      self:count(change)
    elseif self:again(problem, try) then
      self:count("retried_" .. problem.why)
      sched.sleep(self:pause(try, problem, headers))
      try, result.retried = try + 1, result.retried + 1
    else
      local again = problem.kind == "again" or problem.kind == "filtered"
      self:count(problem.kind == "context" and "context_full" or again and "given_up" or "refused")
      if problem.kind ~= "context" then
        log.warn("endpoint_failed", { message = problem.message, tries = try })
      end
      result.message, result.code = problem.message, problem.kind == "context" and "limit" or "endpoint"
      return result
    end
  end
end

--- The first model that the server lists. One that has only begun to start is asked a few times.
---@async
---@return string|nil model, string? message, string? code
function Client:first_model()
  local got, message
  for try = 1, math.min(FEW_TRIES, self.tries) do
    got, message = http.request { url = self.url .. "/models", headers = self:headers(), timeout_s = 30 }
    if got and got.status < 500 then
      break
    end
    sched.sleep(self:pause(try, {}, got and got.headers))
  end
  local listed = got and got.status == 200 and events.decode(got.body)
  local first = type(listed) == "table" and type(listed.data) == "table" and listed.data[1]
  if type(first) ~= "table" or type(first.id) ~= "string" then
    local why = message or self:without_key(failure.of_status(got.status, got.body).message)
    return nil, ("%s names no model: %s. Remedy: name one with --model, and see that the address ends with what stands "
      .. "before /models"):format(self.url, why), "endpoint"
  end
  return first.id
end

return client
