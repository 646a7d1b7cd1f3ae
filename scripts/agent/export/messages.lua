-- A trajectory as a list of chat messages: what all forms of export begin with, and what reading them gives back.
--
--   { role = "system" | "user", content }
--   { role = "assistant", content, thought?, calls? = { { id, name, arguments, label? } } }
--   { role = "tool", call_id, name, content }

local json = require "khost.json"

local messages = {}

-- Text in front of calls that were written as text.
local function spoken(turn)
  local text = turn.text or ""
  local at = turn.calls and text:find("<tool_call>", 1, true)
  return at and text:sub(1, at - 1) or text
end

local function add_turn(list, turn)
  local message = { role = "assistant", content = spoken(turn), thought = turn.thought }
  list[#list + 1] = message
  if not turn.calls then
    if turn.observation then
      list[#list + 1] = { role = "user", content = turn.observation }
    end
    return
  end
  message.calls = {}
  for index, call in ipairs(turn.calls) do
    local id = call.id or ("turn_%d_call_%d"):format(turn.index, index)
    message.calls[index] = { id = id, name = call.name or "unreadable", arguments = call.arguments or {},
      label = call.label }
    list[#list + 1] = { role = "tool", call_id = id, name = call.name or "unreadable", content = call.observation
      or "" }
  end
end

--- The messages of a stored trajectory.
---@param trajectory table
---@return table[]
function messages.of(trajectory)
  local list = {}
  for _, message in ipairs(trajectory.prompt or {}) do
    list[#list + 1] = { role = message.role, content = message.content or message.text }
  end
  for _, turn in ipairs(trajectory.turns or {}) do
    add_turn(list, turn)
  end
  return list
end

local function object(value)
  return next(value) ~= nil and value or json.decode("{}")
end

--- As chat completions write them.
---@param list table[]
---@return table[]
function messages.to_openai(list)
  local out = {}
  for index, message in ipairs(list) do
    local one = { role = message.role, content = message.content, reasoning_content = message.thought,
      tool_call_id = message.call_id, name = message.role == "tool" and message.name or nil }
    for place, call in ipairs(message.calls or {}) do
      one.tool_calls = one.tool_calls or {}
      one.tool_calls[place] = { id = call.id, type = "function",
        ["function"] = { name = call.name, arguments = json.encode(object(call.arguments)) } }
    end
    out[index] = one
  end
  return out
end

-- Later names of two tools in others' trajectories.
local ALIASES = { KillShell = "KillBash", TaskOutput = "BashOutput" }
local ROLES = { system = true, user = true, assistant = true, tool = true }

--- Back from chat completions; what is unknown there is kept as user text with a label.
---@param given table[]
---@return table[]
function messages.from_openai(given)
  local list = {}
  for index, message in ipairs(given) do
    local known = ROLES[message.role]
    local content = message.content
    local one = { role = known and message.role or "user", label = not known and "unknown_role" or nil,
      content = type(content) == "string" and content or content ~= nil and json.encode(content) or "",
      thought = message.reasoning_content, call_id = message.tool_call_id, name = message.role == "tool"
        and message.name or nil }
    for place, call in ipairs(message.tool_calls or {}) do
      local body = call["function"] or {}
      local arguments = type(body.arguments) == "string" and json.decode(body.arguments) or body.arguments
      one.calls = one.calls or {}
      one.calls[place] = { id = call.id, name = ALIASES[body.name] or body.name,
        arguments = type(arguments) == "table" and arguments or {},
        label = type(arguments) ~= "table" and "malformed_call" or nil }
    end
    list[index] = one
  end
  return list
end

return messages
