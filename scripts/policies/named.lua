-- Policies by what a command line says: expert, endpoint:URL, local:DIR.

local named = {}

local FORMATS = { openai = "chat.openai", hermes = "chat.hermes", xml = "chat.xml", bash = "chat.bash",
  tiny = "chat.tiny" }

named.FORMS = "expert, endpoint:URL or local:FOLDER"

local function format_of(name)
  local module = FORMATS[name]
  return module and require(module)
end

-- A model of our own speaks what its tokenizer has tokens for.
local function open_local(folder, options)
  local engine, message, code = require("khost.policy").open { model = folder }
  if not engine then
    return nil, message, code
  end
  local is_tiny = engine:special "<|task|>" ~= nil
  local format = options.format and format_of(options.format) or require(is_tiny and "chat.tiny" or "chat.hermes")
  local policy = require("policies.local").open(engine, format, { name = "local " .. folder:match("[^/]*/?$"),
    temperature = options.temperature, tokens = options.context or 131072 })
  policy.answers_are_files = format == require "chat.tiny"
  return policy
end

--- Opens a policy.
---@async
---@param text string
---@param options table   {toolset, model?, format?, stream?, temperature?, context?, prices?}
---@return table|nil policy, string? message, string? code   "bad_input" when the text names none
function named.open(text, options)
  if options.format and not FORMATS[options.format] then
    return nil, ("format %s: openai, hermes, xml, bash or tiny expected"):format(options.format), "bad_input"
  end
  if text == "expert" then
    return require("policies.rules").open()
  end
  local kind, where = text:match("^(%a+):(.+)$")
  if kind == "endpoint" then
    local format = options.format and options.format ~= "openai" and format_of(options.format) or nil
    return require("policies.endpoint").open { url = where, model = options.model, stream = options.stream,
      temperature = options.temperature, context = options.context, toolset = options.toolset,
      prices = options.prices, format = format }
  elseif kind == "local" then
    return open_local(where, options)
  end
  return nil, ("policy %s: %s expected"):format(text, named.FORMS), "bad_input"
end

return named
