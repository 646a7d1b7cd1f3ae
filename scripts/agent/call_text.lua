-- Writes tool calls as a model writes them: the other direction of agent.calls, for answers that are imitated. Fields
-- stand in the order of the tool's schema, so that a path comes before the content that goes there.

local json = require "khost.json"

local call_text = {}

-- Names of the arguments of a call: those of the schema in its order, then what it does not know.
local function ordered(call, toolset)
  local names, known, rest = {}, {}, {}
  local tool = toolset.by_name[call.name]
  for _, field in ipairs(tool and tool.parameters or {}) do
    known[field.name] = true
    if call.arguments[field.name] ~= nil then
      names[#names + 1] = field.name
    end
  end
  for name in pairs(call.arguments) do
    if not known[name] then
      rest[#rest + 1] = name
    end
  end
  table.sort(rest)
  for _, name in ipairs(rest) do
    names[#names + 1] = name
  end
  return names
end

--- One call as Hermes and Qwen2.5 write it.
---@param call {name: string, arguments: table}
---@param toolset Toolset
---@return string
function call_text.hermes(call, toolset)
  local parts = {}
  for index, name in ipairs(ordered(call, toolset)) do
    parts[index] = ("%s: %s"):format(json.encode(name), json.encode(call.arguments[name]))
  end
  return ('<tool_call>\n{"name": %s, "arguments": {%s}}\n</tool_call>'):format(json.encode(call.name),
    table.concat(parts, ", "))
end

--- One call as Qwen3-Coder writes it: values as they are, lists and objects as JSON.
---@param call {name: string, arguments: table}
---@param toolset Toolset
---@return string
function call_text.xml(call, toolset)
  local parts = { ("<tool_call>\n<function=%s>"):format(call.name) }
  for _, name in ipairs(ordered(call, toolset)) do
    local value = call.arguments[name]
    parts[#parts + 1] = ("<parameter=%s>\n%s\n</parameter>"):format(name,
      type(value) == "table" and json.encode(value) or tostring(value))
  end
  parts[#parts + 1] = "</function>\n</tool_call>"
  return table.concat(parts, "\n")
end

return call_text
