-- Server-sent events as the HTML standard has them, and as servers write them: line ends of any kind, comments, fields
-- without the blank behind the colon, data over several lines, a last event without the empty line behind it.

local depth = require "lib.depth"
local json = require "khost.json"

local events = {}

local BYTE_ORDER_MARK = "\239\187\191"

--- Whether a body is a stream of events, whatever its server calls it.
---@param body string
---@return boolean
function events.is_stream(body)
  local start = body:sub(1, 3) == BYTE_ORDER_MARK and 4 or 1
  start = body:find("[^\r\n]", start) or start
  return body:find("^data:", start) ~= nil or body:find("^event:", start) ~= nil or body:find("^id:", start) ~= nil
    or body:find("^retry:", start) ~= nil or body:find("^:", start) ~= nil
end

--- Iterates over the events of a whole body, in order. No list of them is made: a body may hold a million empty ones.
---@param body string
---@return fun(): {name: string, lines: string[]}|nil   `lines`: the lines of its data
function events.each(body)
  local text = body:sub(1, 3) == BYTE_ORDER_MARK and body:sub(4) or body
  text = text:gsub("\r\n", "\n"):gsub("\r", "\n") .. "\n\n"
  local next_line, current = text:gmatch("(.-)\n"), nil
  return function()
    for line in next_line do
      if line == "" then
        local whole = current and #current.lines > 0 and current or nil
        current = nil
        if whole then
          return whole
        end
      elseif line:sub(1, 1) ~= ":" then
        local field, value = line:match("^([^:]*):? ?(.*)$")
        current = current or { name = "message", lines = {} }
        if field == "data" then
          current.lines[#current.lines + 1] = value
        elseif field == "event" then
          current.name = value
        end
      end
    end
  end
end

-- Half of a surrogate pair, which JSON in UTF-8 cannot hold: servers that cut text by UTF-16 units send one.
local function without_halves(text)
  local out, at = {}, 1
  while true do
    local from, stop, slashes, high = text:find("(\\+)u([dD][89aAbBcCdDeEfF]%x%x)", at)
    if not from then
      out[#out + 1] = text:sub(at)
      return table.concat(out)
    end
    local low = high:find("^[dD][89aAbB]") and text:match("^\\u([dD][cCdDeEfF]%x%x)", stop + 1)
    if #slashes % 2 == 0 then
      out[#out + 1] = text:sub(at, stop)
    elseif low then
      stop = stop + 6
      out[#out + 1] = text:sub(at, stop)
    else
      out[#out + 1] = text:sub(at, from - 1) .. slashes .. "ufffd"
    end
    at = stop + 1
  end
end

local MOST_PARTS = 100000  -- lists, objects and fields of one value
local DEEPEST = 48  -- what is nested deeper could not be written again, below the levels of a request

local function decoded(text)
  local ok, value, message = pcall(json.decode, text, MOST_PARTS)
  if not ok or depth.is_deeper(value, DEEPEST) then
    return nil, ("it is nested deeper than %d levels"):format(DEEPEST)
  end
  return value, message
end

--- A value of JSON. Bytes that are no UTF-8 and halves of surrogate pairs, which cut tokens leave behind, are read as
--- U+FFFD. What is nested too deep is refused.
---@param text string
---@return any|nil value, string? message
function events.decode(text)
  local value, message = decoded(text)
  if value == nil and #text > 0 then
    value = decoded(without_halves(json.decode(json.encode(text))))
  end
  return value, message
end

--- The values of an event's data: one, or one a line where servers forgot the empty lines between events. "[DONE]" is
--- a value too.
---@param event {name: string, lines: string[]}
---@return any[]|nil values, string? message
function events.values(event)
  local whole = table.concat(event.lines, "\n")
  if whole:find("^%s*$") then
    return {}
  end
  local value, message = events.decode(whole)
  if value ~= nil then
    return { value }
  end
  local list = {}
  for _, line in ipairs(event.lines) do
    local trimmed = line:match("^%s*(.-)%s*$")
    if trimmed == events.DONE then
      list[#list + 1] = events.DONE
    elseif trimmed ~= "" then
      value = events.decode(trimmed)
      if value == nil then
        return nil, message
      end
      list[#list + 1] = value
    end
  end
  return list
end

events.DONE = "[DONE]"

return events
