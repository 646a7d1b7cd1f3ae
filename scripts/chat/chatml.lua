-- Conversations as ChatML: <|im_start|>role, text, <|im_end|>. Formats of tool calls (chat.hermes, chat.xml, chat.bash)
-- are made of it; it decides how tokens are put together, they what answers mean.
--
-- Text that the model did not write is encoded without special tokens, so that a file cannot end a turn. The line end
-- behind <|im_end|> is not drawn by the model: it opens the next observation.

local json = require "khost.json"
local prompt = require "agent.prompt"
local token_lists = require "chat.tokens"

local append = token_lists.append

local chatml = {}

chatml.STOP = "<|im_end|>"

-- How turns become tokens. Text is encoded without special tokens, so that no source can end a turn.
local Turns = {}

function Turns:message(tokens, role, text)
  append(tokens, { self.first })
  append(tokens, self.codec:encode(role .. "\n" .. text))
  append(tokens, { self.last })
  return append(tokens, self.codec:encode("\n"))
end

function Turns:answer_begins(tokens)
  return append(append(tokens, { self.first }), self.codec:encode("assistant\n"))
end

--- The tokens between two answers; the end of the answer was drawn.
---@param text string
---@return integer[]
function Turns:observation(text)
  return self:answer_begins(self:message(self.codec:encode("\n"), "user", text))
end

--- The tokens of an answer as the model would draw them.
---@param text string
---@return integer[]
function Turns:answer(text)
  return append(self.codec:encode(text), { self.last })
end

--- A class of chats in ChatML: it has the methods of turns, and gives its own `prompt`.
---@return table
function chatml.class()
  local Class = setmetatable({}, { __index = Turns })
  Class.__index = Class
  return Class
end

--- A chat of a class for a model's tokenizer; raises for one without the special tokens.
---@param class table
---@param codec table
---@param fields table   of the chat, beside codec, first and last
---@return table
function chatml.open(class, codec, fields)
  fields.codec, fields.first, fields.last = codec, codec:special("<|im_start|>"), codec:special("<|im_end|>")
  if not fields.first or not fields.last then
    error("the tokenizer has no <|im_start|> and <|im_end|>; a model that speaks ChatML is needed", 3)
  end
  return setmetatable(fields, class)
end

local Chat = chatml.class()

--- The tokens in front of the first answer.
---@param task table   with messages, or what agent.prompt makes messages of
---@return integer[]
function Chat:prompt(task)
  local tokens = {}
  for _, message in ipairs(task.messages or prompt.messages(task, self.describe, self.brief)) do
    self:message(tokens, message.role, message.text)
  end
  return self:answer_begins(tokens)
end

---@class (exact) CallFormat
---@field describe fun(toolset: Toolset): string              what the system message says about tools
---@field read fun(text: string, options: {cut?: boolean}): {calls: table[], label?: string}   agent.calls
---@field respond fun(observations: table[]): string          observations as the model reads them
---@field is_final? fun(parsed: table): boolean               whether an answer ends the episode: it has no calls
---@field explain? fun(label: string): string                 a format error, for the model
---@field write? fun(call: table, toolset: Toolset): string   a call as a model writes it
---@field how? string                                         what `describe` says of how calls are written
---@field brief? boolean                                      the system message has the skill's digest

-- What was called, as text that is equal for equal calls.
local function signature_of(calls)
  local parts = {}
  for index, call in ipairs(calls) do
    parts[index] = ("%s %s"):format(call.name or "?", json.encode(call.arguments or {}))
  end
  return table.concat(parts, "\n")
end

chatml.signature_of = signature_of

-- An answer with calls as a model writes it.
local function render(form, thought, calls, toolset)
  local parts = { thought ~= "" and thought or nil }
  for _, call in ipairs(calls) do
    parts[#parts + 1] = form.write(call, toolset)
  end
  return table.concat(parts, "\n")
end

--- A chat format: {STOP, open(codec), action(text, options), respond, describe, explain}, and where its calls can be
--- written, `render(thought, calls, toolset)`. `form` is what it was made of.
---@param form CallFormat
---@return table
function chatml.format(form)
  local format = { STOP = chatml.STOP, respond = form.respond, describe = form.describe, explain = form.explain,
    brief = form.brief, form = form }
  function format.open(codec)
    return chatml.open(Chat, codec, { describe = form.describe, brief = form.brief })
  end
  format.render = form.write and function(thought, calls, toolset)
    return render(form, thought, calls, toolset)
  end or nil
  --- What an answer means: calls, or the end.
  ---@param text string
  ---@param options? {cut?: boolean}
  ---@return {kind: "act"|"final"|"invalid", calls?: table[], label?: string, signature?: string}
  function format.action(text, options)
    if options and options.cut then
      return { kind = "invalid", label = "cut" }
    end
    local parsed = form.read(text, options or {})
    local is_final = form.is_final or function(answer) return #answer.calls == 0 end
    if is_final(parsed) then
      return { kind = "final" }
    elseif #parsed.calls == 0 then
      return { kind = "invalid", label = parsed.label or "no_block" }
    end
    return { kind = "act", calls = parsed.calls, label = parsed.label, signature = signature_of(parsed.calls) }
  end
  return format
end

-- What a tool said, within its block: it may not end the block and speak for somebody else.
local function inside(text)
  return (text:gsub("<(/?)(tool_response)", "<%1\\%2"))
end

--- Observations in <tool_response> blocks of one user turn.
---@param observations {text: string}[]
---@return string
function chatml.tool_responses(observations)
  local parts = {}
  for index, observation in ipairs(observations) do
    parts[index] = ("<tool_response>\n%s\n</tool_response>"):format(inside(observation.text))
  end
  return table.concat(parts, "\n")
end

--- The schemas of tools, one JSON object a line.
---@param toolset Toolset
---@return string
function chatml.schemas(toolset)
  local lines = {}
  for index, schema in ipairs(toolset:schemas()) do
    lines[index] = json.encode(schema)
  end
  return table.concat(lines, "\n")
end

return chatml
