-- Tools: what an agent may call, checked against their schema; every call gives exactly one observation.

local fs = require "khost.fs"
local sched = require "khost.sched"

local tools = {}

local DEFINITION = { name = "string", summary = "string", parameters = "table", run = "function" }
local AT_ONCE = 8  -- reading calls of one answer
local OPTIONAL = { read_only = "boolean" }

local function is_list(value)
  return type(value) == "table" and (next(value) == nil or #value > 0)
end

local function is_object(value)
  return type(value) == "table" and #value == 0
end

local CHECKS = {
  string = function(value) return type(value) == "string" end,
  boolean = function(value) return type(value) == "boolean" end,
  number = function(value) return type(value) == "number" end,
  -- As far as a double counts.
  integer = function(value)
    return type(value) == "number" and value == math.floor(value) and math.abs(value) <= 2 ^ 53
  end,
  array = is_list,
  object = is_object,
}

-- Small models write "5" and "true": taken for what they mean, and labelled.
local function coerce(kind, value)
  if type(value) ~= "string" then
    return nil
  end
  if kind == "boolean" and (value == "true" or value == "false") then
    return value == "true"
  end
  if kind == "integer" or kind == "number" then
    local number = value:match("^%s*[-+]?[%d.]") and tonumber(value)  -- not "inf", "nan"
    return number and CHECKS[kind](number) and number or nil
  end
end

local function invalid(label, text)
  return { label = label, text = text }
end

local function names_of(fields)
  local names = {}
  for i, field in ipairs(fields) do
    names[i] = field.name
  end
  return table.concat(names, ", ")
end

local validate_object

local function validate(field, value, path, coerced)
  if not CHECKS[field.type](value) then
    local meant = coerce(field.type, value)
    if meant == nil then
      return nil, invalid("wrong_type", ("%s must be %s %s, got %s"):format(path,
        field.type:match("^[aeiou]") and "an" or "a", field.type, type(value)))
    end
    coerced[#coerced + 1] = path
    value = meant
  end
  if field.enum then
    for _, legal in ipairs(field.enum) do
      if value == legal then
        return value
      end
    end
    return nil, invalid("wrong_enum", ("%s must be one of %s, got %q"):format(path,
      table.concat(field.enum, ", "), tostring(value)))
  end
  if field.type == "array" then
    local list = {}
    for i, item in ipairs(value) do
      local checked, problem = validate(field.items, item, ("%s[%d]"):format(path, i), coerced)
      if problem then
        return nil, problem
      end
      list[i] = checked
    end
    return list
  end
  if field.type == "object" then
    return validate_object(field.fields, value, path .. ".", coerced)
  end
  return value
end

function validate_object(fields, object, prefix, coerced)
  local known, checked = {}, {}
  for _, field in ipairs(fields) do
    known[field.name] = true
    local value = object[field.name]
    if value == nil then
      if field.required then
        return nil, invalid("missing_field", ("%s%s is missing (fields: %s)"):format(prefix,
          field.name, names_of(fields)))
      end
    else
      local result, problem = validate(field, value, prefix .. field.name, coerced)
      if problem then
        return nil, problem
      end
      checked[field.name] = result
    end
  end
  for name in pairs(object) do
    if not known[name] then
      return nil, invalid("extra_field", ("%s%s is not a field (fields: %s)"):format(prefix,
        tostring(name), names_of(fields)))
    end
  end
  return checked
end

local function schema_of(field)
  local schema = { type = field.type, description = field.summary, enum = field.enum }
  if field.type == "array" then
    schema.items = schema_of(field.items)
  elseif field.type == "object" then
    schema.properties, schema.required = {}, {}
    for _, part in ipairs(field.fields) do
      schema.properties[part.name] = schema_of(part)
      if part.required then
        table.insert(schema.required, part.name)
      end
    end
    if #schema.required == 0 then
      schema.required = nil
    end
  end
  return schema
end

local Toolset = {}
Toolset.__index = Toolset

---@class (exact) Field
---@field name string
---@field type "string"|"integer"|"number"|"boolean"|"array"|"object"
---@field summary? string
---@field required? boolean
---@field enum? string[]
---@field items? table      of an array: a Field without a name
---@field fields? Field[]   of an object

---@class (exact) Tool
---@field name string
---@field summary string
---@field parameters Field[]
---@field run fun(context: table, arguments: table): string|nil, string?, string?  text, or nil, message, label
---@field read_only? boolean  changes nothing: neighbouring calls of such tools may run at the same time

---@class (exact) Observation
---@field text string        what the agent sees
---@field status "ok"|"error"|"invalid"
---@field label? string      why: unknown_tool, bad_arguments, missing_field, extra_field, wrong_type, wrong_enum, …
---@field coerced? string[]  fields that were given as text
---@field seconds number

--- Checks a definition; tools/*.lua return what this returns.
---@param definition Tool
---@return Tool
function tools.define(definition)
  for key, kind in pairs(DEFINITION) do
    if type(definition[key]) ~= kind then
      error(("tool %s: %s must be a %s"):format(tostring(definition.name), key, kind), 2)
    end
  end
  for key, value in pairs(definition) do
    if not DEFINITION[key] and OPTIONAL[key] ~= type(value) then
      error(("tool %s: unknown key %s"):format(definition.name, tostring(key)), 2)
    end
  end
  for _, field in ipairs(definition.parameters) do
    if not CHECKS[field.type] then
      error(("tool %s: field %s has no known type"):format(definition.name, tostring(field.name)), 2)
    end
  end
  return definition
end

-- The paper's, in its order; what else lies in tools/ follows by name.
tools.ALL = { "Bash", "BashOutput", "KillBash", "Read", "Write", "Edit", "MultiEdit", "Glob",
  "Grep", "NotebookEdit", "TodoWrite" }

local function installed()
  local list, known = {}, {}
  for i, name in ipairs(tools.ALL) do
    list[i], known[name] = name, true
  end
  for _, file in ipairs(assert(fs.list(fs.root() .. "/tools"))) do
    local name = file:match("^([%a_][%w_]*)%.lua$")
    if name and not known[name] then
      list[#list + 1] = name
    end
  end
  return list
end

--- The tools of these names (files tools/<name>.lua), in this order; all that lie there when absent. Raises for a file
--- that defines none, or one of another name.
---@param names? string[]
---@return Toolset
function tools.load(names)
  local set = { list = {}, by_name = {} }
  for _, name in ipairs(names or installed()) do
    local tool = require("tools." .. name)
    if type(tool) ~= "table" or tool.name ~= name then
      error(("tools/%s.lua must return tools.define { name = %q, … }"):format(name, name), 0)
    end
    table.insert(set.list, tool)
    set.by_name[tool.name] = tool
  end
  return setmetatable(set, Toolset)
end

--- What the tools are, as text for a prompt.
---@return string
function Toolset:describe()
  local lines = {}
  for _, tool in ipairs(self.list) do
    lines[#lines + 1] = ("%s: %s"):format(tool.name, tool.summary)
    for _, field in ipairs(tool.parameters) do
      lines[#lines + 1] = ("  %s (%s%s): %s"):format(field.name, field.type,
        field.required and "" or ", optional", field.summary or "")
    end
  end
  return table.concat(lines, "\n")
end

-- A field in a signature: strings without their type, "?" behind what may be left out, words that are legal as they
-- are.
local function signed(field)
  local kind = field.enum and '"' .. table.concat(field.enum, '"|"') .. '"' or field.type
  if field.type == "array" then
    kind = ("[%s]"):format(signed(field.items))
  elseif field.type == "object" then
    local parts = {}
    for index, part in ipairs(field.fields) do
      parts[index] = signed(part)
    end
    kind = ("{%s}"):format(table.concat(parts, ", "))
  end
  local name = field.name and field.name .. (field.required and "" or "?")
  return not name and kind or kind == "string" and name or ("%s: %s"):format(name, kind)
end

--- The tools as one line each, a signature and what it does: what a model reads that must learn them from few examples.
---@return string
function Toolset:signatures()
  local lines = {}
  for index, tool in ipairs(self.list) do
    local fields = {}
    for place, field in ipairs(tool.parameters) do
      fields[place] = signed(field)
    end
    lines[index] = ("%s(%s): %s"):format(tool.name, table.concat(fields, ", "), tool.summary)
  end
  return table.concat(lines, "\n")
end

--- The tools as chat completions describe them: {type = "function", function = {name, description, parameters}}.
---@return table[]
function Toolset:schemas()
  local list = {}
  for i, tool in ipairs(self.list) do
    list[i] = { type = "function", ["function"] = { name = tool.name, description = tool.summary,
      parameters = schema_of({ type = "object", fields = tool.parameters }) } }
  end
  return list
end

local function names(set)
  local list = {}
  for i, tool in ipairs(set.list) do
    list[i] = tool.name
  end
  return table.concat(list, ", ")
end

local function observe(self, context, name, arguments)
  local tool = self.by_name[name]
  if not tool then
    return { status = "invalid", label = "unknown_tool",
      text = ("there is no tool %s; the tools are %s"):format(tostring(name), names(self)) }
  end
  if not is_object(arguments) then
    return { status = "invalid", label = "bad_arguments",
      text = ("the arguments of %s must be one JSON object"):format(name) }
  end
  local coerced = {}
  local checked, problem = validate_object(tool.parameters, arguments, "", coerced)
  if problem then
    return { status = "invalid", label = problem.label, text = name .. ": " .. problem.text }
  end
  context.state = context.state or {}
  local ok, text, message, label = pcall(tool.run, context, checked)
  if not ok then
    if text == sched.CANCELLED then
      error(text, 0)
    end
    return { status = "error", label = "tool_failed", text = ("%s failed: %s"):format(name, tostring(text)) }
  end
  local observation = { status = "ok", text = tostring(text) }
  if text == nil then
    observation = { status = "error", label = label or "failed", text = tostring(message or name .. " gave no answer") }
  end
  if #coerced > 0 then
    observation.coerced = coerced
  end
  return observation
end

--- The calls of one answer, each of which gives one observation, in order. Neighbours that only read run together, at
--- most `AT_ONCE`; everything else waits for what stands before it.
---@async
---@param context table
---@param calls {name?: string, arguments?: table, label?: string, text?: string}[]   without a name: unreadable
---@return Observation[]
function Toolset:call_all(context, calls)
  local observations = {}
  local function one(index)
    local call = calls[index]
    local observation = call.name and self:call(context, call.name, call.arguments)
      or { status = "invalid", label = call.label or "malformed_call", text = call.text or "the call cannot be read",
        seconds = 0 }
    observation.name = call.name or "?"
    observations[index] = observation
  end
  local function reads(index)
    local tool = calls[index] and self.by_name[calls[index].name]
    return tool and tool.read_only or false
  end
  local index = 1
  while index <= #calls do
    local together = { index }
    while reads(index) and reads(index + 1) do
      index = index + 1
      together[#together + 1] = index
    end
    if #together == 1 then
      one(index)
    else
      sched.map(together, one, { limit = AT_ONCE, on_failure = "raise" })
    end
    index = index + 1
  end
  return observations
end

--- Runs one call. Only cancellation raises: everything else is an observation.
---@async
---@param context table   {workspace, shell?, shell_options?, state}: of one trajectory; state belongs to the tools
---@param name string
---@param arguments table
---@return Observation
function Toolset:call(context, name, arguments)
  local begin = sched.now()
  local observation = observe(self, context, name, arguments)
  observation.seconds = sched.now() - begin
  return observation
end

return tools
