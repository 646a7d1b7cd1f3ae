-- A model that somebody else runs behind a server of messages: text goes out, and an answer's text comes in together
-- with the token ids of prompt and answer as that server had them. The ids that the server says are the record: nothing
-- is encoded here, and each prompt must continue the tokens before it.

local files = require "chat.files"
local prompt = require "agent.prompt"

local remote_text = {}

local Conversation = {}
Conversation.__index = Conversation

---@class (exact) TextDraw
---@field text string
---@field prompt_tokens integer[]   what the server drew behind, the whole conversation
---@field tokens integer[]          as drawn
---@field logprobs number[]
---@field finish "stop"|"length"
---@field version? integer|string

local function append(self, tokens, first, bit, logprobs)
  for index = first, #tokens do
    local at = #self.tokens + 1
    self.tokens[at], self.mask[at] = tokens[index], bit
    self.logprobs[at] = logprobs and logprobs[index] or 0
  end
end

--- Where a prompt differs from the tokens so far; nil where it continues them.
---@param tokens integer[]   of the conversation
---@param continued integer[]
---@return integer|nil index   from 1
function remote_text.differs(tokens, continued)
  for index, token in ipairs(tokens) do
    if continued[index] ~= token then
      return index
    end
  end
end

--- Draws one answer; nil where no room is left, or what the draw says.
---@async
---@param limit integer
---@return table|nil, string? message, string? code
function Conversation:draw(limit)
  local room = math.min(limit, self:room())
  if room < 1 then
    return nil, "no room for another token", "limit"
  end
  local new = {}
  for index = self.told + 1, #self.messages do
    new[#new + 1] = self.messages[index]
  end
  self.told = #self.messages
  local drawn, message, code = self.ask(new, room, self.tokens)
  if not drawn then
    return nil, message, code
  end
  self.prompt = self.prompt or #drawn.prompt_tokens
  append(self, drawn.prompt_tokens, #self.tokens + 1, 0)
  append(self, drawn.tokens, 1, 1, drawn.logprobs)
  self.version = self.version or drawn.version
  self.messages[#self.messages + 1] = { role = "assistant", content = drawn.text }
  self.told = #self.messages
  return { text = drawn.text, cut = drawn.finish == "length", tokens = #drawn.tokens }
end

--- Adds what the model reads next. Its tokens are known when the server has read it.
---@param text string
---@param reserve integer
---@return boolean
function Conversation:observe(text, reserve)
  if self:room() < reserve then
    return false
  end
  self.messages[#self.messages + 1] = { role = "user", content = text }
  return true
end

--- Tokens that are left: of the conversation, and of what may stand behind the first prompt.
---@return integer
function Conversation:room()
  local count = #self.tokens
  return math.min(self.most - count, self.behind - (count - (self.prompt or count)))
end

---@return table
function Conversation:record()
  return { tokens = self.tokens, mask = self.mask, logprobs = self.logprobs, version = self.version,
    messages = self.messages }
end

-- The messages in front of the first answer.
local function first_messages(format, task)
  local list = {}
  local given = format.answers_are_files and files.messages(format.fixed, task, format.target)
    or prompt.messages(task, format.describe, format.brief)
  for index, message in ipairs(given) do
    list[index] = { role = message.role, content = message.text }
  end
  return list
end

--- A policy over whoever asks the server.
---@param format table   scripts/chat: one that reads calls or files out of text
---@param options {name: string, tokens: integer, ask: fun(messages: table[], max_tokens: integer, tokens: integer[]):
---  TextDraw|nil, string?, string?}   tokens: longest conversation; `ask` gets the messages that are new
---@return table
function remote_text.open(format, options)
  return { name = options.name, format = format, begin = function(task)
    return setmetatable({ messages = first_messages(format, task), told = 0, tokens = {}, mask = {}, logprobs = {},
      most = options.tokens, behind = math.huge, ask = options.ask }, Conversation)
  end }
end

return remote_text
