-- What a chat completions server answered, whole or as a stream, brought into one form. Servers differ: arguments come
-- as text or as data, content as text, parts or null, thoughts under several names, failures at every level.
--
--   text, thought, cut, usage (usage.lua)
--   label       "refusal", "empty_answer" or "too_many_calls"
--   calls       {id, name, arguments} or {id, label, text}
--   message     the answer as it goes back to the server, with every field that only its provider knows

local events = require "policies.endpoint.events"
local failure = require "policies.endpoint.failure"
local json = require "khost.json"
local pieces = require "policies.endpoint.pieces"
local sched = require "khost.sched"
local usage = require "policies.endpoint.usage"

local answer = {}

local EVENTS_AT_ONCE = 2000
local MOST_CALLS = 64  -- of one answer; what stands behind them is not read

-- What servers call the ends that are not the model's own. Every other word is an ordinary end.
local ENDS = {
  length = "cut", max_tokens = "cut", max_output_tokens = "cut", model_length = "cut",
  model_context_window_exceeded = "cut",
  content_filter = "filtered", safety = "filtered", sensitive = "filtered", recitation = "filtered",
  prohibited_content = "filtered", blocklist = "filtered", spii = "filtered",
  refusal = "refusal",
  error = "again", abort = "again", aborted = "again", cancelled = "again", canceled = "again", timeout = "again",
  network_error = "again", insufficient_system_resource = "again", server_error = "again", overloaded = "again",
}
-- Fields of a message that are ours to say, or that servers send and do not take back.
local OURS = { role = true, content = true, tool_calls = true, function_call = true, refusal = true, audio = true,
  annotations = true, error = true, index = true }

local function named(value)
  return type(value) == "string" and value ~= "" and value or nil
end

-- The text of a content, and the thoughts in it: parts of several types, or one string.
local function text_of(content)
  if type(content) == "string" then
    return content, ""
  end
  local texts, thoughts = {}, {}
  local parts = type(content) == "table" and content or {}
  for _, part in ipairs(named(parts.text) and { parts } or parts) do
    if type(part) == "string" then
      texts[#texts + 1] = part
    elseif type(part) == "table" and part.thinking ~= nil then
      thoughts[#thoughts + 1] = text_of(part.thinking)
    elseif type(part) == "table" and part.type ~= "reasoning" then
      texts[#texts + 1] = named(part.text) or nil
    end
  end
  return table.concat(texts), table.concat(thoughts)
end

local function copy(fields)
  local own = {}
  for name, value in pairs(fields) do
    own[name] = value
  end
  return own
end

local function is_object(value)
  return type(value) == "table" and #value == 0
end

-- Arguments come as an object, as its text, or as the text of that text.
local function arguments_of(given)
  if given == nil or given == "" or given == json.null or given == "null" then
    return {}
  end
  local value, message = given, nil
  for _ = 1, 2 do
    if type(value) == "string" then
      value, message = events.decode(value)
    end
  end
  if is_object(value) then
    return value
  end
  return nil, tostring(message or "its arguments must be one JSON object")
end

-- One call; ids are made where a server gives none, and made different where it gives one twice.
local function read_call(given, index, seen)
  given = type(given) == "table" and given or {}
  local body = type(given["function"]) == "table" and given["function"] or {}
  local id = named(given.id)
  while not id or seen[id] do
    id = ("%s_%d"):format(id or "call", index)
  end
  seen[id] = true
  local arguments, message = arguments_of(body.arguments)
  local name = named(body.name)
  local call = { id = id, name = name, arguments = arguments }
  if not name or not arguments then
    call = { id = id, label = "malformed_call", text = ("the call of %s cannot be read: %s"):format(name or "a tool",
      message or "it has no name") }
  end
  local back, back_body = copy(given), copy(body)
  back.id, back.type, back.index, back["function"] = id, "function", nil, back_body
  back_body.name = name or "unknown"
  -- What cannot be read goes back empty: templates of servers fail on it.
  local text = type(body.arguments) == "string" and body.arguments
  back_body.arguments = not call.name and "{}" or text and is_object(events.decode(text)) and text
    or next(arguments) and json.encode(arguments) or "{}"
  return call, back
end

local function calls_of(message)
  local list = type(message.tool_calls) == "table" and message.tool_calls or {}
  if list["function"] then
    list = { list }
  end
  if #list == 0 and type(message.function_call) == "table" then
    list = { { ["function"] = message.function_call } }
  end
  return list
end

-- The answer as it goes back.
local function back_of(message, text, tool_calls)
  local back = {}
  for key, value in pairs(message) do
    if not OURS[key] and value ~= json.null and not (type(value) == "table" and next(value) == nil) then
      back[key] = value
    end
  end
  back.role, back.content = "assistant", type(message.content) == "table" and next(message.content)
    and message.content or text
  back.tool_calls = #tool_calls > 0 and tool_calls or nil
  return back
end

local function thought_of(message, in_content)
  return named(message.reasoning_content) or named(message.reasoning) or named(message.reasoning_text)
    or named(message.thinking) or named(in_content)
end

-- What an answer's end means: its label and whether it was cut; or a failure.
local function end_of(finish, message, result)
  local word = type(finish) == "string" and finish:lower():gsub("-", "_") or ""
  local kind = ENDS[word] or word:find("malformed_function_call", 1, true) and "again" or nil
  if kind == "again" then
    return nil, failure.bad("the answer ended with " .. word, "finish_" .. word:sub(1, 40):gsub("[^%w]", "_"))
  elseif kind == "filtered" then
    return nil, failure.filtered("a filter of the provider's took the answer: " .. word)
  elseif word == "tool_calls" and #result.calls == 0 then
    return nil, failure.bad("the answer ends with tool_calls and has none")
  end
  if #result.calls == 0 and (kind == "refusal" or named(message.refusal)) then
    result.label, result.text = "refusal", result.text ~= "" and result.text or named(message.refusal) or ""
  elseif #result.calls == 0 and not result.text:find("%S") and kind ~= "cut" then
    result.label = "empty_answer"
  end
  result.cut = kind == "cut"
  return result
end

local function finished(message, finish, counted)
  local text, in_content = text_of(message.content)
  local result = { text = text, usage = usage.of(counted), calls = {} }
  result.thought = thought_of(message, in_content)
  local seen, tool_calls, list = {}, {}, calls_of(message)
  for index = 1, math.min(#list, MOST_CALLS) do
    result.calls[index], tool_calls[index] = read_call(list[index], index, seen)
  end
  if #list > MOST_CALLS then
    result.label = "too_many_calls"
  end
  local done, problem = end_of(finish, message, result)
  if not done then
    problem.usage = result.usage
    return nil, problem
  end
  result.message = back_of(message, result.text, tool_calls)
  return result
end

-- The choice with index 0, or the first that has none.
local function choice_of(value)
  local choices = type(value.choices) == "table" and value.choices or {}
  for _, choice in ipairs(choices) do
    if type(choice) == "table" and (tonumber(choice.index) or 0) == 0 then
      return choice
    end
  end
end

local function failure_in(value, choice)
  return failure.within(value) or failure.within(choice) or failure.within(choice and choice.message)
    or failure.within(choice and choice.delta)
end

-- The whole of an answer that did not stream.
local function whole(body)
  local value, message = events.decode(body)
  if type(value) ~= "table" then
    return nil, failure.bad("the answer is not JSON: " .. tostring(message))
  end
  local choice = choice_of(value)
  local problem = failure_in(value, choice)
  if problem then
    problem.usage = usage.of(value.usage)
    return nil, problem
  elseif not choice or type(choice.message) ~= "table" then
    return nil, failure.without_choices(value)
  end
  local counted = type(value.usage) == "table" and value.usage or choice.usage
  return finished(choice.message, choice.finish_reason, counted)
end

local Stream = {}
Stream.__index = Stream

-- Joins the pieces of one string: only when they are needed, since an answer may have a hundred thousand.
function Stream:join(key)
  if self.parts[key] then
    self.message[key], self.parts[key] = table.concat(self.parts[key]), nil
  end
end

-- One field of a delta.
function Stream:add(key, value)
  local old = self.message[key]
  if key == "content" and type(value) == "table" then
    self:join(key)
    old = self.message[key]
    self.message[key] = type(old) == "string" and (old ~= "" and { { type = "text", text = old } } or nil) or old
  elseif key == "content" and type(value) == "string" and type(old) == "table" then
    value = value ~= "" and { { type = "text", text = value } } or nil
  elseif type(value) == "string" and pieces.FRAGMENTS[key] and old == nil then
    self.parts[key] = self.parts[key] or {}
    table.insert(self.parts[key], value)
    return
  end
  pieces.merge(self.message, { [key] = value })
end

function Stream:is_empty()
  return next(self.message) == nil and next(self.parts) == nil and #self.calls == 0
end

function Stream:take(value)
  local choice = choice_of(value)
  self.problem = self.problem or failure_in(value, choice)
  self.usage = type(value.usage) == "table" and value.usage or self.usage
  if not choice then
    return
  end
  self.usage = type(choice.usage) == "table" and choice.usage or self.usage
  self.finish = type(choice.finish_reason) == "string" and choice.finish_reason or self.finish
  local delta = type(choice.delta) == "table" and choice.delta
  -- Some servers put the whole message into their last event; it is news only where nothing came in pieces.
  if not delta and type(choice.message) == "table" and self:is_empty() then
    delta = choice.message
  end
  for key, item in pairs(delta or {}) do
    if key ~= "role" and key ~= "tool_calls" and key ~= "function_call" then
      self:add(key, item)
    end
  end
  for _, piece in ipairs(delta and calls_of(delta) or {}) do
    pieces.add_call(self.calls, piece)
  end
end

function Stream:read(body)
  local count = 0
  for event in events.each(body) do
    count = count + 1
    if count % EVENTS_AT_ONCE == 0 then
      sched.sleep(0)  -- other episodes go on meanwhile
    end
    local values, message = events.values(event)
    if not values then
      return nil, failure.bad("an event of the stream is not JSON: " .. tostring(message))
    end
    for _, value in ipairs(values) do
      if value == events.DONE then
        self.done = true
        return true
      elseif event.name == "error" then
        return nil, type(value) == "table" and failure.within(value.error and value or { error = value })
          or failure.bad(tostring(value))
      elseif type(value) == "table" then
        self:take(value)
      end
    end
    if self.problem then
      return nil, self.problem
    end
  end
  return true
end

-- A stream of server-sent events. One that ended early is a failure: what it said so far may be half a call.
local function stream(body)
  local self = setmetatable({ message = {}, parts = {}, calls = {} }, Stream)
  local ok, problem = self:read(body)
  if ok and not self.finish and not self.done then
    ok, problem = nil, failure.bad("the stream ended early")
  end
  if not ok then
    problem.usage = usage.of(self.usage)
    return nil, problem
  end
  for key in pairs(pieces.FRAGMENTS) do
    self:join(key)
  end
  self.message.tool_calls = #self.calls > 0 and pieces.calls(self.calls) or nil
  return finished(self.message, self.finish, self.usage)
end

--- Reads an answer with status 200.
---@param body string
---@param content_type? string
---@return table|nil answer, table? failure   failure.lua; with the usage where the server counted
function answer.read(body, content_type)
  local by_type = content_type and content_type:find("event-stream", 1, true)
  if events.is_stream(body) or by_type and not body:find("^%s*[%[{]") then
    return stream(body)
  end
  return whole(body)
end

return answer
