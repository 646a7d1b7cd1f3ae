-- A model that somebody else runs and trains: tokens go out, drawn tokens come in. It is what policies.local asks of a
-- khost.Policy, so that conversations are the same wherever their tokens are drawn; text is encoded here alone, with
-- the model's own tokenizer.

local remote = {}

local Engine = {}
Engine.__index = Engine

---@class (exact) RemoteDraw
---@field tokens integer[]     as drawn, with the token that ended the answer
---@field logprobs number[]    of each of them, under the temperature it was drawn with
---@field finish "stop"|"length"
---@field version? integer|string   of the weights

---@class (exact) RemoteOptions
---@field tokenizer khost.Tokenizer
---@field ends integer[]       tokens that end an answer, beside that of the chat format
---@field positions integer    the longest conversation, in tokens
---@field draw fun(tokens: integer[], how: {max_tokens: integer, stop: integer[]}): RemoteDraw|nil, string?, string?
---                            whoever draws; nil, message and code where no answer will come

--- An engine over whoever draws.
---@param options RemoteOptions
---@return table
function remote.open(options)
  return setmetatable({ options = options }, Engine)
end

function Engine:encode(text, how) return self.options.tokenizer:encode(text, how) end

function Engine:decode(tokens, how) return self.options.tokenizer:decode(tokens, how) end

function Engine:special(text) return self.options.tokenizer:special(text) end

function Engine:end_tokens() return { unpack(self.options.ends) } end

function Engine:positions() return self.options.positions end

-- Ids of what ends an answer: special tokens come by their text.
local function ids_of(self, stops)
  local ids, seen = {}, {}
  for _, stop in ipairs(stops) do
    local id = type(stop) == "number" and stop or self:special(stop)
    if id and not seen[id] then
      seen[id] = true
      ids[#ids + 1] = id
    end
  end
  return ids
end

--- One answer. Its text has no special tokens, as that of a khost.Policy.
---@async
---@param tokens integer[]
---@param how {max_tokens: integer, stop: (integer|string)[]}
---@return table|nil, string? message, string? code
function Engine:generate(tokens, how)
  local drawn, message, code = self.options.draw(tokens, { max_tokens = how.max_tokens,
    stop = ids_of(self, how.stop) })
  if not drawn then
    return nil, message, code
  end
  return { tokens = drawn.tokens, logprobs = drawn.logprobs, finish = drawn.finish, version = drawn.version,
    text = self:decode(drawn.tokens) }
end

return remote
