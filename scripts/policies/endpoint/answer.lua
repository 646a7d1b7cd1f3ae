-- What a chat completions server answered, whole or as a stream, brought into one form. Servers differ:
-- arguments come as text or as data, content as text, parts or null, thoughts under two names.
--
--   text, thought, finish, usage {prompt_tokens, completion_tokens, cached_tokens}
--   calls       {id, name, arguments} or {id, label, text}
--   tool_calls  the same as they go back to the server

local json = require "khost.json"

local answer = {}

local function text_of(content)
  if type(content) == "string" then
    return content
  end
  local parts = {}
  for _, part in ipairs(type(content) == "table" and content or {}) do
    parts[#parts + 1] = type(part) == "table" and type(part.text) == "string" and part.text or nil
  end
  return table.concat(parts)
end

-- One call; ids are made where a server gives none, and made different where it gives one twice.
local function read_call(given, index, seen)
  local body = type(given) == "table" and type(given["function"]) == "table" and given["function"] or {}
  local id = type(given) == "table" and type(given.id) == "string" and given.id ~= "" and given.id or nil
  if not id or seen[id] then
    id = ("%s_%d"):format(id or "call", index)
  end
  seen[id] = true
  local arguments, message = body.arguments, nil
  if arguments == nil or arguments == "" then
    arguments = {}
  elseif type(arguments) == "string" then
    arguments, message = json.decode(arguments)
  end
  local name = type(body.name) == "string" and body.name or nil
  local call = { id = id, name = name, arguments = arguments }
  if not name or type(arguments) ~= "table" then
    call = { id = id, label = "malformed_call", text = ("the call of %s cannot be read: %s"):format(name or "a tool",
      tostring(message or "its arguments must be one JSON object")) }
  end
  -- What cannot be read goes back empty: templates of servers fail on it.
  local back = { id = id, type = "function", ["function"] = { name = name or "unknown",
    arguments = call.name and json.encode(next(arguments) and arguments or json.decode("{}")) or "{}" } }
  return call, back
end

local function usage_of(usage)
  usage = type(usage) == "table" and usage or {}
  local details = type(usage.prompt_tokens_details) == "table" and usage.prompt_tokens_details or {}
  local function number(value) return type(value) == "number" and value or 0 end
  return { prompt_tokens = number(usage.prompt_tokens), completion_tokens = number(usage.completion_tokens),
    cached_tokens = number(details.cached_tokens) }
end

local function finished(message, finish, usage)
  local result = { text = text_of(message.content), finish = finish, usage = usage_of(usage), calls = {},
    tool_calls = {} }
  local thought = message.reasoning_content or message.reasoning
  result.thought = type(thought) == "string" and thought ~= "" and thought or nil
  local seen = {}
  for index, given in ipairs(type(message.tool_calls) == "table" and message.tool_calls or {}) do
    result.calls[index], result.tool_calls[index] = read_call(given, index, seen)
  end
  return result
end

local function error_of(value)
  local problem = type(value) == "table" and value.error
  if problem then
    return type(problem) == "table" and tostring(problem.message or problem.code) or tostring(problem)
  end
end

--- The whole of an answer that did not stream.
---@param body string
---@return table|nil, string? message
function answer.whole(body)
  local value, message = json.decode(body)
  if type(value) ~= "table" then
    return nil, "the answer is not JSON: " .. tostring(message)
  end
  local problem = error_of(value)
  local choice = not problem and type(value.choices) == "table" and value.choices[1] or nil
  if type(choice) ~= "table" or type(choice.message) ~= "table" then
    return nil, problem or "the answer has no choices"
  end
  return finished(choice.message, choice.finish_reason, value.usage)
end

-- Adds a piece of a call to the one with its index.
local function add_call(calls, delta)
  local index = type(delta.index) == "number" and delta.index + 1 or math.max(#calls, 1)
  if index < 1 or index > #calls + 1 then
    index = #calls + 1
  end
  local call = calls[index] or { ["function"] = {} }
  calls[index] = call
  local body = type(delta["function"]) == "table" and delta["function"] or {}
  call.id = call.id or delta.id
  call["function"].name = call["function"].name or body.name
  local before = call["function"].arguments
  if type(body.arguments) == "string" then
    call["function"].arguments = (type(before) == "string" and before or "") .. body.arguments
  elseif type(body.arguments) == "table" then
    call["function"].arguments = body.arguments
  end
end

local function add(parts, text)
  if type(text) == "string" then
    parts[#parts + 1] = text
  end
end

--- A stream of server-sent events. One that ended early is a failure: what it said so far may be half a call.
---@param body string
---@return table|nil, string? message
function answer.stream(body)
  local content, thought, calls, finish, usage, done = {}, {}, {}, nil, nil, false
  for line in (body .. "\n"):gmatch("(.-)\r?\n") do
    local data = line:match("^data:%s*(.*)$")
    if data == "[DONE]" then
      done = true
      break
    elseif data and data ~= "" then
      local event, message = json.decode(data)
      if type(event) ~= "table" then
        return nil, "an event of the stream is not JSON: " .. tostring(message)
      end
      local problem = error_of(event)
      if problem then
        return nil, problem
      end
      usage = type(event.usage) == "table" and event.usage or usage
      local choice = type(event.choices) == "table" and event.choices[1] or {}
      local delta = type(choice.delta) == "table" and choice.delta or {}
      finish = choice.finish_reason or finish
      add(content, delta.content)
      add(thought, delta.reasoning_content or delta.reasoning)
      for _, piece in ipairs(type(delta.tool_calls) == "table" and delta.tool_calls or {}) do
        add_call(calls, piece)
      end
    end
  end
  if not finish and not done then
    return nil, "the stream ended early"
  end
  return finished({ content = table.concat(content), reasoning = table.concat(thought), tool_calls = calls }, finish,
    usage)
end

return answer
