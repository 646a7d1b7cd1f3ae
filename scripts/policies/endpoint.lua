-- A policy behind any server of OpenAI's chat completions (policies/endpoint/client.lua asks it, answer.lua reads it).
-- docs/endpoint.md says what becomes of each thing that a server may do.
--
-- Such a trajectory has no token ids and no log-probs of ours: it is fit to be imitated (after another tokenizer), not
-- for PPO. Its record says so.

local client = require "policies.endpoint.client"
local json = require "khost.json"
local prompt = require "agent.prompt"
local usage = require "policies.endpoint.usage"

local endpoint = {}

local BYTES_A_TOKEN = 3  -- for what a server has not counted yet; low, so that the context is not overrun
local CONTEXT = 131072

---@class (exact) EndpointOptions: EndpointClientOptions
---@field model? string            the first that the server lists when absent
---@field format? table            scripts/chat/{hermes,xml,bash}.lua for servers that take no tools; openai when absent
---@field toolset? Toolset         sent as tools; needed with the format openai
---@field stream? boolean          ask for a stream: a stalled server is noticed sooner
---@field temperature? number
---@field top_p? number
---@field context? integer         tokens of a conversation; 131072, or less where the server says so
---@field prices? Price|table<string, Price>   for a million tokens (endpoint/usage.lua); then records have a cost
---@field extra? table             further fields of a request

local Policy = {}
Policy.__index = Policy

local Conversation = {}
Conversation.__index = Conversation

local function fields(self, conversation, limit)
  local body = { model = self.model, messages = conversation.messages, temperature = self.temperature,
    top_p = self.top_p, seed = conversation.stream:integer(1, 2147483646) }
  local refused, most = self.client.refused, math.min(limit, self.client.most_tokens or limit)
  body[refused.max_tokens and "max_completion_tokens" or "max_tokens"] = most
  if self.tools then
    body.tools, body.parallel_tool_calls = self.tools, true
  end
  if self.is_stream and not refused.stream then
    body.stream, body.stream_options = true, { include_usage = true }
  end
  for name in pairs(refused) do
    body[name] = nil
  end
  for name, value in pairs(self.extra or {}) do
    body[name] = value
  end
  return body
end

local function size_of(message)
  return math.ceil(#json.encode(message) / BYTES_A_TOKEN)
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
  local asked = self.policy.client:ask(fields(self.policy, self, room))
  self.retried = self.retried + asked.retried
  usage.add(self.spent, asked.spent)
  local answer = asked.answer
  if not answer then
    return nil, asked.message, asked.code
  end
  local counted, by_data = answer.usage, self.policy.tools ~= nil
  self.answers = self.answers + 1
  self.uncounted = self.uncounted + (counted.known and 0 or 1)
  self.pending = by_data and answer.message.tool_calls or {}
  if not by_data then
    answer.message.tool_calls = nil
  end
  self.messages[#self.messages + 1] = answer.message
  self.used = counted.prompt_tokens > 0 and counted.prompt_tokens + counted.completion_tokens
    or self.used + size_of(answer.message)
  return { text = answer.text, cut = answer.cut, tokens = counted.completion_tokens, label = answer.label,
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
  return math.min(self.policy.context, self.policy.client.context or math.huge) - self.used
end

--- What is kept of the conversation.
---@return table
function Conversation:record()
  local spent, price = self.spent, usage.price_of(self.policy.prices, self.policy.model)
  return { messages = self.messages, model = self.policy.model, token_ids = "none: not for PPO", answers = self.answers,
    retried = self.retried, usage = { prompt_tokens = spent.prompt_tokens, completion_tokens = spent.completion_tokens,
      cached_tokens = spent.cached_tokens, uncounted_answers = self.uncounted > 0 and self.uncounted or nil,
      cost = price and usage.cost(spent, price) or spent.cost } }
end

local function first_messages(self, task)
  local messages, size = {}, 0
  for index, message in ipairs(task.messages or prompt.messages(task, self.format.describe)) do
    messages[index] = { role = message.role, content = message.text }
    size = size + #message.text
  end
  return messages, math.ceil(size / BYTES_A_TOKEN)
end

--- A policy over a server.
---@async
---@param options EndpointOptions
---@return table|nil policy, string? message, string? code
function endpoint.open(options)
  local asking = client.open(options)
  local self = setmetatable({ client = asking, counts = asking.counts, context = options.context or CONTEXT }, Policy)
  for _, name in ipairs { "model", "temperature", "top_p", "prices", "extra" } do
    self[name] = options[name]
  end
  self.format = options.format or require "chat.openai"
  self.is_stream = options.stream or false
  if not options.format then
    local toolset = options.toolset or error("the format openai needs a toolset", 2)
    self.tools = toolset:schemas()
  end
  if not self.model then
    local model, message, code = asking:first_model()
    if not model then
      return nil, message, code
    end
    self.model = model
  end
  self.name = "endpoint " .. self.model
  function self.begin(task, stream)
    local conversation = setmetatable({ policy = self, stream = stream, pending = {}, answers = 0, retried = 0,
      uncounted = 0, spent = { prompt_tokens = 0, completion_tokens = 0, cached_tokens = 0 } }, Conversation)
    conversation.messages, conversation.used = first_messages(self, task)
    return conversation
  end
  return self
end

return endpoint
