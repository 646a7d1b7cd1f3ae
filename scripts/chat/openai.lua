-- The chat format of servers that take tools and give calls as data: nothing is read out of text.

local chatml = require "chat.chatml"

local openai = {}

--- What an answer means: its calls, or the end.
---@param _ string
---@param options {cut?: boolean, calls?: table[]}
---@return {kind: "act"|"final"|"invalid", calls?: table[], label?: string, signature?: string}
function openai.action(_, options)
  if options.cut then
    return { kind = "invalid", label = "cut" }
  elseif not options.calls or #options.calls == 0 then
    return { kind = "final" }
  end
  return { kind = "act", calls = options.calls, signature = chatml.signature_of(options.calls) }
end

--- Observations for a reader; the conversation gives each call its own message.
---@param observations {text: string}[]
---@return string
function openai.respond(observations)
  local parts = {}
  for index, observation in ipairs(observations) do
    parts[index] = observation.text
  end
  return table.concat(parts, "\n")
end

return openai
