-- The chat format of models that call tools in the Hermes form, as ChatML (Qwen2.5, Qwen3): tool definitions in the
-- system message, <tool_call> blocks in answers, <tool_response> blocks in user turns.
--
-- Text that the model did not write is encoded without special tokens, so that a file cannot end a turn.

local json = require "khost.json"
local parse = require "agent.parse"
local prompt = require "agent.prompt"

local hermes = {}

hermes.STOP = "<|im_end|>"

local Chat = {}
Chat.__index = Chat

local function append(list, more)
  for _, token in ipairs(more) do
    list[#list + 1] = token
  end
  return list
end

---@param codec table
---@return table
function hermes.open(codec)
  local first, last = codec:special("<|im_start|>"), codec:special("<|im_end|>")
  if not first or not last then
    error("the tokenizer has no ChatML tokens", 2)
  end
  return setmetatable({ codec = codec, first = first, last = last }, Chat)
end

function Chat:message(tokens, role, text)
  append(tokens, { self.first })
  append(tokens, self.codec:encode(role .. "\n" .. text))
  append(tokens, { self.last })
  return append(tokens, self.codec:encode("\n"))
end

--- The tokens in front of the first answer.
---@param task table   with messages, or what agent.prompt makes messages of
---@return integer[]
function Chat:prompt(task)
  local tokens = {}
  for _, message in ipairs(task.messages or prompt.messages(task)) do
    self:message(tokens, message.role, message.text)
  end
  return append(append(tokens, { self.first }), self.codec:encode("assistant\n"))
end

--- The tokens between two answers; the end of the answer was drawn.
---@param text string
---@return integer[]
function Chat:observation(text)
  local tokens = self.codec:encode("\n")
  self:message(tokens, "user", text)
  return append(append(tokens, { self.first }), self.codec:encode("assistant\n"))
end

--- Observations as the model reads them.
---@param observations {text: string}[]
---@return string
function hermes.respond(observations)
  local parts = {}
  for index, observation in ipairs(observations) do
    parts[index] = ("<tool_response>\n%s\n</tool_response>"):format(observation.text)
  end
  return table.concat(parts, "\n")
end

--- What an answer means: calls, or the end when there are none.
---@param text string
---@param options? {cut?: boolean}
---@return table
function hermes.action(text, options)
  local parsed = parse.calls(text, { json = json, cut = options and options.cut })
  if options and options.cut then
    return { kind = "invalid", label = "cut" }
  elseif #parsed.calls == 0 then
    return { kind = "final" }
  end
  local signature = {}
  for index, call in ipairs(parsed.calls) do
    signature[index] = ("%s %s"):format(call.name or "?", json.encode(call.arguments or {}))
  end
  return { kind = "act", calls = parsed.calls, label = parsed.label, signature = table.concat(signature, "\n") }
end

return hermes
