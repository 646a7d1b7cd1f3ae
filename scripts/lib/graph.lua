-- The traced graph of a task as short text: what a small model reads instead of Python.

local graph = {}

-- What every use of an operator says the same way is left out.
local SILENT = { exponent = true, half_to_float = true, normalized_shape = true, dim = true, eps = true, alpha = true,
  scale = true, input_scale = true, keepdim = true }
local DEFAULT = { approximate = "none", beta = 1, threshold = 20 }

local function value_text(value)
  if type(value) == "number" then
    return ("%.6g"):format(value)
  end
  return tostring(value)
end

local function node_line(node)
  local parts, names = {}, {}
  for i, input in ipairs(node.inputs) do
    parts[i] = value_text(input)
  end
  for name, value in pairs(node.attributes or {}) do
    if not SILENT[name] and value ~= DEFAULT[name] and type(value) ~= "table" then
      names[#names + 1] = name
    end
  end
  table.sort(names)
  for _, name in ipairs(names) do
    parts[#parts + 1] = value_text(node.attributes[name])
  end
  return ("%s = %s(%s)"):format(node.name, node.op, table.concat(parts, ", "))
end

--- The inputs, with their shapes if they matter, and one line for each operator.
---@param traced table
---@param options? {shapes?: boolean}
---@return string
function graph.text(traced, options)
  local lines, names = {}, {}
  for i, input in ipairs(traced.inputs) do
    names[i] = input.name
    if options and options.shapes then
      lines[#lines + 1] = ("%s %s"):format(input.name, table.concat(input.size, " "))
    end
  end
  if #lines == 0 then
    lines[1] = table.concat(names, " ")
  end
  for _, node in ipairs(traced.nodes) do
    lines[#lines + 1] = node_line(node)
  end
  return table.concat(lines, "\n")
end

return graph
