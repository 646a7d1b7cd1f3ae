-- Puts the pieces of a streamed message together: text, calls, and fields that only the provider knows, which must go
-- back to it as if they had come whole.

local events = require "policies.endpoint.events"
local json = require "khost.json"

local pieces = {}

--- Of a message's strings those that come in pieces; others come whole, and the last one counts.
pieces.FRAGMENTS = { content = true, reasoning_content = true, reasoning = true, reasoning_text = true, thinking = true,
  text = true, summary = true, refusal = true }

local merge

local function is_list(value)
  return type(value) == "table" and (#value > 0 or next(value) == nil)
end

-- The entry of a list that a new one goes on with: of the same type and index, or the last one of the same type where
-- no indices are given. One that is signed, or holds data as a whole, is finished.
local function continued(list, item)
  for at = #list, 1, -1 do
    local old = list[at]
    if type(old) == "table" and old.type == item.type and old.index == item.index then
      local finished = item.index == nil and old.signature and not item.signature or old.data and item.data
      return not finished and old or nil
    elseif item.index == nil then
      return nil
    end
  end
end

local function merge_list(into, items)
  for _, item in ipairs(items) do
    local old = type(item) == "table" and item.type ~= nil and continued(into, item)
    if old then
      merge(old, item)
    else
      into[#into + 1] = item
    end
  end
end

merge = function(into, from)
  for key, value in pairs(from) do
    local old = into[key]
    if value == json.null then
      value = old
    elseif type(old) == "string" and type(value) == "string" and pieces.FRAGMENTS[key] then
      value = old .. value
    elseif is_list(old) and is_list(value) and next(old) and next(value) then
      merge_list(old, value)
      value = old
    elseif type(old) == "table" and type(value) == "table" and next(value) == nil then
      value = old
    elseif type(old) == "table" and type(value) == "table" and not is_list(value) and not is_list(old) then
      merge(old, value)
      value = old
    end
    into[key] = value
  end
end

--- Adds the fields of one table to another: strings that come in pieces are joined, lists of typed entries entry by
--- entry, tables field by field. null changes nothing.
---@param into table
---@param from table
pieces.merge = merge

local function complete(arguments)
  return type(arguments) == "table" or type(arguments) == "string" and arguments:find("}%s*$") ~= nil
    and type(events.decode(arguments)) == "table"
end

local function named(value)
  return type(value) == "string" and value ~= "" and value or nil
end

local function last_where(calls, holds)
  for at = #calls, 1, -1 do
    if holds(calls[at]) then
      return calls[at]
    end
  end
end

-- Whether a piece brings a further part of a name, before any argument has come.
local function is_more_of_name(call, arguments, id)
  return not id and (call.arguments or "") == "" and (arguments or "") == ""
end

-- Whether a piece with a name begins a call of its own behind one that is whole. With the same id it must bring other
-- arguments: some servers say a call again at the end.
local function begins(call, name, arguments, id)
  if name ~= call.name then
    return call.name ~= nil and not is_more_of_name(call, arguments, id)
  end
  local news = not id or (arguments or "") ~= "" and arguments ~= call.arguments
  return news and complete(call.arguments)
end

-- The call that a piece goes on with, or nil when it begins one. An index alone decides nothing: servers give none, or
-- the same one to every call. Nor does an id: servers leave it out, give it late, or give another one in each piece.
local function target(calls, piece, name, arguments)
  local index, id = tonumber(piece.index), named(piece.id)
  local at = not index and calls[#calls]
    or index and last_where(calls, function(call) return call.index == index end) or nil
  if id then
    local same = last_where(calls, function(call)
      return call.given.id == id and (not index or not call.index or call.index == index)
    end)
    if not same and at and (not at.given.id or not name and not complete(at.arguments)) then
      same = at
    end
    at = same
  end
  return at and not (name and begins(at, name, arguments, id)) and at or nil
end

--- Adds a piece of a call.
---@param calls table[]    {index, name, arguments, given: further fields}
---@param piece any
function pieces.add_call(calls, piece)
  if type(piece) ~= "table" then
    return
  end
  local body = type(piece["function"]) == "table" and piece["function"] or {}
  local name = named(body.name)
  local call = target(calls, piece, name, body.arguments)
  if not call then
    call = { index = tonumber(piece.index), given = { ["function"] = {} } }
    calls[#calls + 1] = call
  end
  call.name = call.name and name and name ~= call.name and call.name .. name or call.name or name
  local again = name and named(piece.id) and body.arguments == call.arguments and complete(call.arguments)
  if type(body.arguments) == "string" and type(call.arguments) ~= "table" and not again then
    call.arguments = (call.arguments or "") .. body.arguments
  elseif type(body.arguments) == "table" then
    call.arguments = body.arguments
  end
  for key, value in pairs(piece) do
    if key == "function" then
      local own = {}
      for field, item in pairs(body) do
        own[field] = field ~= "name" and field ~= "arguments" and item or nil
      end
      merge(call.given["function"], own)
    elseif key ~= "index" and not (key == "id" and call.given.id) then
      merge(call.given, { [key] = value })
    end
  end
end

--- The calls in the form that a whole answer has.
---@param calls table[]
---@return table[]
function pieces.calls(calls)
  local list = {}
  for index, call in ipairs(calls) do
    call.given["function"].name, call.given["function"].arguments = call.name, call.arguments
    list[index] = call.given
  end
  return list
end

return pieces
