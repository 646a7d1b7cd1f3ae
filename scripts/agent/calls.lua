-- Reads tool calls in what a model wrote, in three dialects. Nothing is repaired but raw line ends in JSON strings, and
-- that has a label; a call that cannot be read keeps its place, with a label and no name. Text is never rewritten: what
-- a trainer sees are the tokens that were drawn.
--
--   thought    what stands before the first call
--   calls      { name, arguments, label? } or { label, text }
--   label      of the answer: cut, unclosed, trailing_text, too_many_calls

local json = require "khost.json"

local calls = {}

local OPEN, CLOSE = "<tool_call>", "</tool_call>"
local MOST_CALLS = 64  -- of one answer; what stands behind them is not read

calls.LABELS = { "malformed_call", "lenient_json", "unclosed", "cut", "trailing_text",
  "too_many_calls", "several_blocks" }

-- Small models put raw line ends into strings. From one character that matters to the next, not by each.
local function lenient(body)
  local out, inside, at = {}, false, 1
  while true do
    local next_at = body:find('[%c"\\]', at)
    if not next_at then
      out[#out + 1] = body:sub(at)
      return table.concat(out)
    end
    local sign = body:sub(next_at, next_at)
    out[#out + 1] = body:sub(at, next_at - 1)
    at = next_at + 1
    if sign == '"' then
      inside = not inside
    elseif inside and sign == "\\" then
      sign, at = body:sub(next_at, at), at + 1
    elseif inside then
      sign = ("\\u%04x"):format(sign:byte())
    end
    out[#out + 1] = sign
  end
end

-- Without the blanks around it, in one pass: a pattern for both ends takes the square of the length.
local function trimmed(text)
  local stop = #text
  while stop > 0 and text:find("^%s", stop) do
    stop = stop - 1
  end
  return text:sub(text:match("^%s*()"), stop)
end

local function malformed(text)
  return { label = "malformed_call", text = text }
end

local function decode_call(body)
  local value, message = json.decode(body)
  local label
  if value == nil then
    value = json.decode(lenient(body))
    label = "lenient_json"
  end
  if type(value) ~= "table" or type(value.name) ~= "string" then
    return malformed(message or "a call is one JSON object with name and arguments")
  end
  local arguments = value.arguments
  if type(arguments) == "string" then
    arguments = json.decode(arguments)  -- as on the wire of chat completions
  end
  if arguments ~= nil and type(arguments) ~= "table" then
    return malformed("arguments must be a JSON object")
  end
  return { name = value.name, arguments = arguments or {}, label = label }
end

-- Where the JSON object that begins at `at` ends, looking at strings only; nil when it does not.
local function object_end(text, at)
  local depth, inside = 0, false
  while true do
    at = text:find(inside and '["\\]' or '["{}]', at)
    if not at then
      return nil
    end
    local sign = text:sub(at, at)
    if sign == "\\" then
      at = at + 1
    elseif sign == '"' then
      inside = not inside
    elseif not inside then
      depth = depth + (sign == "{" and 1 or -1)
      if depth <= 0 then
        return at
      end
    end
    at = at + 1
  end
end

-- Where the block ends whose content begins at `from`: a closing mark in a string of the call closes nothing.
local function json_block_end(text, from)
  local object = text:match("^%s*(){", from)
  local stop = object and object_end(text, object)
  return text:find(CLOSE, stop and text:match("^%s*()" .. CLOSE, stop + 1) or from, true)
end

-- Blocks between <tool_call> and </tool_call>: `decode(body)` makes calls of them, `close(text, from)` finds their
-- ends.
local function blocks(text, cut, decode, close)
  local list, at = {}, 1
  local first = text:find(OPEN, 1, true)
  local result = { thought = first and text:sub(1, first - 1) or text, calls = list }
  while true do
    local _, after = text:find(OPEN, at, true)
    if not after then
      break
    end
    if #list == MOST_CALLS then
      result.label = "too_many_calls"
      return result
    end
    local stop, next_at = close(text, after + 1)
    if not stop and cut then
      result.label = "cut"
      break
    end
    local call = decode(trimmed(text:sub(after + 1, stop and stop - 1 or -1)))
    list[#list + 1] = call
    if not stop then
      result.label = call.name and "unclosed" or nil
      call.label = call.label or "unclosed"
      return result
    end
    at = next_at + 1
  end
  if first and not result.label and text:sub(at):find("%S") then
    result.label = "trailing_text"
  end
  return result
end

--- Hermes and Qwen: <tool_call>{"name": …, "arguments": {…}}</tool_call>, several in order.
---@param text string
---@param options? {cut?: boolean}   cut: the answer ended because of a limit
---@return {thought: string, calls: table[], label?: string}
function calls.hermes(text, options)
  return blocks(text, options and options.cut, decode_call, json_block_end)
end

-- Values are raw text; what they mean is said by the schema of the tool, as far as it is known.
local function typed(value, kind)
  if kind == nil or kind == "string" then
    return value
  elseif kind == "array" or kind == "object" then
    local decoded = json.decode(value)
    if decoded == nil then
      decoded = json.decode(lenient(value))
    end
    return decoded == nil and value or decoded
  elseif kind == "boolean" and (value == "true" or value == "True") then
    return true
  elseif kind == "boolean" and (value == "false" or value == "False") then
    return false
  elseif (kind == "integer" or kind == "number") and value:find("^%s*[-+]?[%d.]") then
    return tonumber(value) or value
  end
  return value
end

-- The types of a tool's fields by name; nil for an unknown tool.
local function types_of(toolset, name)
  local tool = toolset and toolset.by_name[name]
  local types = {}
  for _, field in ipairs(tool and tool.parameters or {}) do
    types[field.name] = field.type
  end
  return types
end

local PARAMETER_END = "</parameter>"

-- The end of a value: a mark that something of the call follows, so that a value may hold the mark itself.
local function parameter_end(body, from)
  local at = from
  while true do
    local stop, after = body:find(PARAMETER_END, at, true)
    if not stop then
      return nil
    end
    local rest = body:match("^%s*()", after + 1)
    if rest > #body or body:find("^<parameter=", rest) or body:find("^</function>", rest) then
      return stop, after + 1
    end
    at = after + 1
  end
end

local function decode_xml(body, toolset)
  local name, at = body:match("^<function=([^>\n]+)>()")
  if not name then
    return malformed("a call is <function=NAME> with <parameter=KEY> in it")
  end
  name = trimmed(name)
  local types, arguments = types_of(toolset, name), {}
  while true do
    local key, value_at = body:match("^%s*<parameter=([^>\n]+)>()", at)
    if not key then
      break
    end
    local stop, behind = parameter_end(body, value_at)
    if not stop then
      return malformed(("parameter %s has no end"):format(key))
    end
    -- One line end on each side belongs to the form.
    local value = body:sub(value_at, stop - 1):gsub("^\r?\n", "", 1):gsub("\r?\n$", "", 1)
    arguments[key] = typed(value, types[key])
    at = behind
  end
  if not body:find("^%s*</function>%s*$", at) then
    return malformed(("<function=%s> is not closed, or something stands between its parameters"):format(name))
  end
  return { name = name, arguments = arguments }
end

-- Behind </function>, so that values may hold the mark; but not in the next call, when this one is broken.
local function xml_block_end(text, from)
  local function_end
  if text:find("</function>", from, true) then
    function_end = select(2, text:find("</function>%s*" .. CLOSE, from))
  end
  local next_call = function_end and text:find(OPEN .. "%s*<function=", from)
  if not function_end or next_call and next_call < function_end then
    return text:find(CLOSE, from, true)
  end
  return function_end - #CLOSE + 1, function_end
end

--- Qwen3-Coder: <tool_call><function=NAME><parameter=KEY>value</parameter></function></tool_call>.
--- The schema says which values are numbers, booleans or JSON.
---@param text string
---@param options? {cut?: boolean, toolset?: Toolset}
---@return {thought: string, calls: table[], label?: string}
function calls.xml(text, options)
  local toolset = options and options.toolset
  return blocks(text, options and options.cut, function(body) return decode_xml(body, toolset) end, xml_block_end)
end

--- One fenced block of bash in an answer, as mini-swe-agent has it: exactly one.
---@param text string
---@param options? {cut?: boolean}
---@return {thought: string, calls: table[], label?: string}
function calls.bash(text, options)
  local result = { thought = text, calls = {} }
  local from, first = 1, nil
  while true do
    local open, info_end, ticks = text:find("\n(```+)bash[ \t]*\r?\n", from)
    if from == 1 and text:find("^```+bash[ \t]*\r?\n") then
      open, info_end, ticks = text:find("^(```+)bash[ \t]*\r?\n")
    end
    if not open then
      break
    end
    first = first or open
    local body_at = info_end + 1
    local stop, after = text:find("\n" .. ticks .. "[ \t]*\r?\n", body_at - 1)
    if not stop then
      stop, after = text:find("\n" .. ticks .. "[ \t]*$", body_at - 1)
    end
    if not stop then
      result.label = options and options.cut and "cut" or "unclosed"
      return result
    end
    local command = text:sub(body_at, stop - 1)
    result.calls[#result.calls + 1] = { name = "Bash", arguments = { command = command } }
    from = after
  end
  result.thought = first and text:sub(1, first - 1) or text
  if #result.calls > 1 then
    result.calls, result.label = {}, "several_blocks"
  elseif first and text:sub(from):find("%S") then
    result.label = "trailing_text"
  end
  return result
end

return calls
