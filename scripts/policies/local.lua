-- A model of our own that draws tokens. Tokens are append-only: what was drawn is what the trainer sees, and nothing is
-- encoded twice.

local local_policy = {}

local Conversation = {}
Conversation.__index = Conversation

---@class (exact) Drawn
---@field text string
---@field cut boolean      the token limit ended it
---@field tokens integer

local function append(self, tokens, bit, logprobs)
  for i, token in ipairs(tokens) do
    local at = #self.tokens + 1
    self.tokens[at], self.mask[at], self.logprobs[at] = token, bit, logprobs and logprobs[i] or 0
  end
end

--- Draws one answer; nil where no room is left.
---@async
---@param limit integer   tokens at most
---@return Drawn|nil, string? message, string? code
function Conversation:draw(limit)
  local room = math.min(limit, self.most - #self.tokens)
  if room < 1 then
    return nil, "no room for another token", "limit"
  end
  self.draws = self.draws + 1
  local drawn, message, code = self.policy:generate(self.tokens, { max_tokens = room, temperature = self.temperature,
    seed = self.stream:integer(1, 2147483646), stop = self.stops })
  if not drawn then
    return nil, message, code
  end
  append(self, drawn.tokens, 1, drawn.logprobs)
  self.version = self.version or drawn.version
  return { text = drawn.text, cut = drawn.finish == "length", tokens = #drawn.tokens }
end

--- Appends what the model reads next. False where it does not fit together with an answer: then the episode ends with
--- the model's own tokens.
---@param text string
---@param reserve integer   tokens that must be left for an answer
---@return boolean
function Conversation:observe(text, reserve)
  local tokens = self.chat:observation(text)
  if #self.tokens + #tokens + reserve > self.most then
    return false
  end
  append(self, tokens, 0)
  return true
end

--- Tokens that are left.
---@return integer
function Conversation:room()
  return self.most - #self.tokens
end

--- What a trainer packs: tokens, mask, logprobs.
---@return table
function Conversation:record()
  return { tokens = self.tokens, mask = self.mask, logprobs = self.logprobs, version = self.version }
end

--- A policy over a khost.Policy and a chat format.
---@param policy khost.Policy
---@param format table   scripts/chat/*.lua
---@param options {name: string, temperature?: number, tokens: integer, fixed?: boolean}   tokens: longest conversation;
---  fixed: without the format's prompt variants
---@return table
function local_policy.open(policy, format, options)
  local chat = format.open(policy)
  -- A model may end its answer by another of its end tokens than the chat format writes.
  local stops = policy:end_tokens()
  table.insert(stops, 1, format.STOP)
  local function count(text)
    return #policy:encode(text)
  end
  return { name = options.name, format = format, count = count, begin = function(task, stream)
    local self = setmetatable({ policy = policy, chat = chat, stops = stops, stream = stream, draws = 0,
      temperature = options.temperature or 1, most = math.min(options.tokens, policy:positions()), tokens = {},
      mask = {}, logprobs = {} }, Conversation)
    append(self, chat:prompt(task, not options.fixed and stream or nil), 0)
    return self
  end }
end

return local_policy
