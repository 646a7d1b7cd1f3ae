-- Policies by what a command line says: expert, endpoint:URL, local:DIR.

local formats = require "chat.formats"

local named = {}

named.FORMS = "expert, endpoint:URL or local:FOLDER"

-- A model of our own speaks what its tokenizer has tokens for, on the device that the machine has for models.
local function open_local(folder, options)
  local machine = options.machine or {}
  local engine, message, code = require("khost.policy").open { model = folder, device = machine.device,
    dtype = machine.dtype, threads = (machine.threads or 0) > 0 and machine.threads or nil }
  if not engine then
    return nil, message, code
  end
  local format = options.format and formats.named(options.format) or formats.of(engine)
  return require("policies.local").open(engine, format, { name = "local " .. folder:match("[^/]*/?$"),
    temperature = options.temperature, tokens = options.context or 131072 })
end

--- Opens a policy.
---@async
---@param text string
---@param options table   {toolset, target?, machine?: [machine] of the configuration, model?, format?, stream?,
---                         temperature?, context?, prices?}
---@return table|nil policy, string? message, string? code   "bad_input" when the text names none
function named.open(text, options)
  if options.format and not formats.named(options.format) then
    return nil, ("format %s: one of %s expected"):format(options.format, formats.NAMES), "bad_input"
  end
  if text == "expert" then
    return require("policies.rules").open(options.target)
  end
  local kind, where = text:match("^(%a+):(.+)$")
  if kind == "endpoint" then
    local format = options.format and options.format ~= "openai" and formats.named(options.format) or nil
    return require("policies.endpoint").open { url = where, model = options.model, stream = options.stream,
      temperature = options.temperature, context = options.context, toolset = options.toolset,
      prices = options.prices, format = format }
  elseif kind == "local" then
    return open_local(where, options)
  end
  return nil, ("policy %s: %s expected"):format(text, named.FORMS), "bad_input"
end

return named
