-- A policy behind any server of OpenAI's chat completions. Busy and broken servers are asked again, with growing
-- pauses; what happened is counted. The key comes from the environment and goes into one header, nowhere else.
--
-- Such a trajectory has no token ids and no log-probs of ours: it is fit to be imitated (after another tokenizer), not
-- for PPO. Its record says so.

local answers = require "policies.endpoint.answer"
local fs = require "khost.fs"
local http = require "khost.http"
local json = require "khost.json"
local log = require "khost.log"
local prompt = require "agent.prompt"
local sched = require "khost.sched"
local wait = require "policies.endpoint.wait"

local endpoint = {}

local BYTES_A_TOKEN = 3  -- for what a server has not counted yet; low, so that the context is not overrun
local DONE = "data: [DONE]"
local DEFAULTS = { context = 131072, tries = 8, pause_s = 0.5, most_pause_s = 60, timeout_s = 600, idle_s = 60 }
local AGAIN = { connect = true, io = true, timeout = true }
local STATUS_AGAIN = { [408] = true, [409] = true, [425] = true, [429] = true }

-- Fields that some servers refuse: left out from then on when a refusal names them.
local OPTIONAL = { "parallel_tool_calls", "stream_options", "seed", "top_p", "temperature" }

---@class (exact) EndpointOptions
---@field url string               up to and with /v1
---@field model? string            the first that the server lists when absent
---@field key_env? string          environment variable of the key; KHOST_ENDPOINT_KEY, then OPENAI_API_KEY
---@field format? table            scripts/chat/{hermes,xml,bash}.lua for servers that take no tools; openai when absent
---@field toolset? Toolset         sent as tools; needed with the format openai
---@field stream? boolean          ask for a stream: a stalled server is noticed sooner
---@field temperature? number
---@field top_p? number
---@field context? integer         tokens of a conversation; 131072
---@field tries? integer           of one answer; 8
---@field pause_s? number          before the second try, doubled before each further; 0.5
---@field most_pause_s? number     60
---@field timeout_s? number        of one try; 600
---@field idle_s? number           of a stream without a byte; 60
---@field prices? {input: number, output: number}   for a million tokens; then records have a cost
---@field extra? table             further fields of a request

local Policy = {}
Policy.__index = Policy

local Conversation = {}
Conversation.__index = Conversation

local function count(self, what)
  self.counts[what] = (self.counts[what] or 0) + 1
end

local function key_of(self)
  local key = fs.env(self.key_env or "KHOST_ENDPOINT_KEY") or not self.key_env and fs.env "OPENAI_API_KEY" or ""
  key = key:match("^%s*(.-)%s*$")
  return key ~= "" and key or nil
end

local function headers_of(self)
  local key = key_of(self)
  return { ["Content-Type"] = "application/json", Authorization = key and "Bearer " .. key or nil }
end

-- Servers repeat what they refuse.
local function without_key(self, text)
  local key = key_of(self)
  while key do
    local begin, stop = text:find(key, 1, true)
    if not begin then
      break
    end
    text = text:sub(1, begin - 1) .. "(key)" .. text:sub(stop + 1)
  end
  return text
end

-- What a server says about a refusal, short, and never with the key in it.
local function complaint(self, status, body)
  local value = json.decode(body)
  local problem = type(value) == "table" and (value.error or value.detail or value.message) or body
  local text = type(problem) == "table" and problem.message or problem
  text = type(text) == "string" and text or json.encode(problem)
  return ("status %d: %s"):format(status, without_key(self, text):sub(1, 500))
end

-- Which optional field a refusal is about.
local function refused_field(body, text)
  for _, name in ipairs(OPTIONAL) do
    if body[name] ~= nil and text:find(name, 1, true) then
      return name
    end
  end
  if body.max_tokens and text:find("max_completion_tokens", 1, true) then
    return "max_tokens"
  end
end

local function pause_of(self, try, answer)
  local wanted = math.min(self.most_pause_s, self.pause_s * 2 ^ (try - 1))
  local named = answer and wait.seconds(answer.headers, sched.wall_clock())
  if named then
    return math.min(named, self.most_pause_s) + 0.1 * self.random:number()
  end
  return wanted * (0.5 + 0.5 * self.random:number())
end

-- One try. Returns the answer; or nil, a message, a code, and the reason for another try (nil when there is none).
local function try_once(self, body)
  count(self, "requests")
  local got, message, code = http.request { url = self.url .. "/chat/completions", method = "POST",
    headers = headers_of(self), body = json.encode(body), timeout_s = self.timeout_s,
    idle_s = body.stream and self.idle_s or nil, stop_at = body.stream and DONE or nil }
  if not got then
    return nil, message, "endpoint", AGAIN[code] and code or nil
  end
  local status = got.status
  if status ~= 200 then
    local text = complaint(self, status, got.body)
    if STATUS_AGAIN[status] or status >= 500 then
      return nil, text, "endpoint", ("status_%d"):format(status), got
    elseif text:find("context", 1, true) and text:find("length", 1, true) then
      return nil, text, "limit"
    end
    return nil, text, "endpoint", nil, got
  end
  local is_stream = (got.headers["content-type"] or ""):find("event-stream", 1, true) or got.body:find("^data:")
  local answer, why = (is_stream and answers.stream or answers.whole)(got.body)
  if not answer then
    return nil, why, "endpoint", "bad_answer", got
  end
  return answer
end

-- An answer, with as many tries as are allowed.
local function ask(self, body)
  local try, retried = 1, 0
  while true do
    local answer, message, code, again, got = try_once(self, body)
    if answer then
      return answer, nil, nil, retried
    end
    local field = got and not again and refused_field(body, message)
    if field then
      self.refused[field] = true
      count(self, "refused_" .. field)
      if field == "max_tokens" then
        body.max_completion_tokens = body.max_tokens
      end
      body[field] = nil
    elseif not again or try >= self.tries then
      count(self, again and "given_up" or "refused")
      log.warn("endpoint_failed", { message = message, tries = try })
      return nil, message, code, retried
    else
      count(self, "retried_" .. again)
      sched.sleep(pause_of(self, try, got))
      try, retried = try + 1, retried + 1
    end
  end
end

local function fields(self, conversation, limit)
  local body = { model = self.model, messages = conversation.messages, temperature = self.temperature,
    top_p = self.top_p, seed = conversation.stream:integer(1, 2147483646) }
  if self.refused.max_tokens then
    body.max_completion_tokens = limit
  else
    body.max_tokens = limit
  end
  if self.tools then
    body.tools, body.parallel_tool_calls = self.tools, true
  end
  if self.is_stream then
    body.stream, body.stream_options = true, { include_usage = true }
  end
  for _, name in ipairs(OPTIONAL) do
    if self.refused[name] then
      body[name] = nil
    end
  end
  for name, value in pairs(self.extra or {}) do
    body[name] = value
  end
  return body
end

--- Draws one answer.
---@async
---@param limit integer   tokens at most
---@return table|nil drawn, string? message, string? code   "limit" without room, "endpoint" when the server gave up
function Conversation:draw(limit)
  local room = math.min(limit, self:room())
  if room < 1 then
    return nil, "no room for another token", "limit"
  end
  local answer, message, code, retried = ask(self.policy, fields(self.policy, self, room))
  self.retried = self.retried + (retried or 0)
  if not answer then
    return nil, message, code
  end
  local usage = answer.usage
  self.answers = self.answers + 1
  self.prompt_tokens = self.prompt_tokens + usage.prompt_tokens
  self.completion_tokens = self.completion_tokens + usage.completion_tokens
  self.cached_tokens = self.cached_tokens + usage.cached_tokens
  self.used = usage.prompt_tokens > 0 and usage.prompt_tokens + usage.completion_tokens
    or self.used + math.ceil(#answer.text / BYTES_A_TOKEN)
  local by_data = self.policy.tools ~= nil
  self.pending = by_data and answer.tool_calls or {}
  self.messages[#self.messages + 1] = { role = "assistant", content = answer.text,
    tool_calls = #self.pending > 0 and self.pending or nil }
  return { text = answer.text, cut = answer.finish == "length", tokens = usage.completion_tokens,
    calls = by_data and answer.calls or nil, thought = answer.thought }
end

--- Appends what the model reads next: one message for each of its calls, or a user's. False where no room is left.
---@param text string
---@param reserve integer
---@param observations? {text: string}[]   of the calls, in their order
---@return boolean
function Conversation:observe(text, reserve, observations)
  local size = 0
  local function say(message)
    self.messages[#self.messages + 1] = message
    size = size + #message.content
  end
  for index, call in ipairs(self.pending) do
    local observation = observations and observations[index]
    say { role = "tool", tool_call_id = call.id, content = observation and observation.text or text }
  end
  if #self.pending == 0 then
    say { role = "user", content = text }
  end
  self.pending = {}
  self.used = self.used + math.ceil(size / BYTES_A_TOKEN)
  return self:room() >= reserve
end

--- Tokens that are left, as far as the server has counted.
---@return integer
function Conversation:room()
  return self.policy.context - self.used
end

--- What is kept of the conversation.
---@return table
function Conversation:record()
  local prices = self.policy.prices
  return { messages = self.messages, model = self.policy.model, token_ids = "none: not for PPO", answers = self.answers,
    retried = self.retried, usage = { prompt_tokens = self.prompt_tokens, completion_tokens = self.completion_tokens,
      cached_tokens = self.cached_tokens, cost = prices and (self.prompt_tokens * prices.input
        + self.completion_tokens * prices.output) / 1e6 or nil } }
end

local function first_messages(self, task)
  local messages, size = {}, 0
  for index, message in ipairs(task.messages or prompt.messages(task, self.format.describe)) do
    messages[index] = { role = message.role, content = message.text }
    size = size + #message.text
  end
  return messages, math.ceil(size / BYTES_A_TOKEN)
end

local function first_model(self)
  local got, message = http.request { url = self.url .. "/models", headers = headers_of(self), timeout_s = 30 }
  local listed = got and got.status == 200 and json.decode(got.body)
  local first = type(listed) == "table" and type(listed.data) == "table" and listed.data[1]
  if type(first) ~= "table" or type(first.id) ~= "string" then
    return nil, ("%s names no model: %s"):format(self.url, message or complaint(self, got.status, got.body)), "endpoint"
  end
  return first.id
end

--- A policy over a server.
---@async
---@param options EndpointOptions
---@return table|nil policy, string? message, string? code
function endpoint.open(options)
  local self = setmetatable({ counts = {}, refused = {}, random = sched.random("endpoint") }, Policy)
  for name, default in pairs(DEFAULTS) do
    self[name] = options[name] or default
  end
  for _, name in ipairs { "model", "key_env", "temperature", "top_p", "prices", "extra" } do
    self[name] = options[name]
  end
  self.format, self.url = options.format or require "chat.openai", options.url:gsub("/+$", "")
  self.is_stream = options.stream or false
  if not options.format then
    local toolset = options.toolset or error("the format openai needs a toolset", 2)
    self.tools = toolset:schemas()
  end
  if not self.model then
    local model, message, code = first_model(self)
    if not model then
      return nil, message, code
    end
    self.model = model
  end
  self.name = "endpoint " .. self.model
  function self.begin(task, stream)
    local conversation = setmetatable({ policy = self, stream = stream, pending = {}, answers = 0, retried = 0,
      prompt_tokens = 0, completion_tokens = 0, cached_tokens = 0 }, Conversation)
    conversation.messages, conversation.used = first_messages(self, task)
    return conversation
  end
  return self
end

return endpoint
