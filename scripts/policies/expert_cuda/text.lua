-- What all CUDA variants of a row program share: which items a value needs, how operands and statements read, and the
-- lines of a file. Statements are written with std:: names, because that is the form in which mistakes are planted;
-- the last step turns them into CUDA's own names for float.

local expr = require "policies.expert.expr"

local text = {}

local Lines = {}
Lines.__index = Lines

--- An empty list of lines; `may_fail` marks the statements that carry the computation.
---@return table
function text.lines()
  return setmetatable({}, Lines)
end

---@param line string
---@param may_fail? boolean
function Lines:add(line, may_fail)
  self[#self + 1] = { text = line, may_fail = may_fail or false }
end

--- Adds a block of text line by line.
---@param block string
function Lines:block(block)
  for line in block:gmatch("([^\n]*)\n") do
    self:add(line)
  end
end

-- Only these names differ by more than the letter f.
local FLOAT_NAMES = { abs = "fabsf" }

--- std::exp( -> expf(, std::abs( -> fabsf(.
---@param line string
---@return string
function text.cuda(line)
  return (line:gsub("std::(%w+)%(", function(name)
    return (FLOAT_NAMES[name] or name .. "f") .. "("
  end))
end

--- All operands of an item: its arguments and what layer norm multiplies and adds.
---@param item Item
---@return (string|number)[]
function text.operands(item)
  local list = {}
  for _, arg in ipairs(item.args) do
    list[#list + 1] = arg
  end
  for _, arg in ipairs(item.extra or {}) do
    list[#list + 1] = arg
  end
  return list
end

--- The element-wise items that a value needs, in order, and all other values that they or it read: inputs and rows'
--- values. Every element-wise value depends on these alone, so any pass can compute it again instead of keeping it in
--- memory.
---@param program Program
---@param name string|number
---@return Item[] items, string[] leaves
function text.closure(program, name)
  local needed, leaves, seen = {}, {}, {}
  local function visit(arg)
    if type(arg) == "number" or seen[arg] then
      return
    end
    seen[arg] = true
    local item = program.by_name[arg]
    if not item or item.kind == "row" then
      leaves[#leaves + 1] = arg
      return
    end
    for _, operand in ipairs(text.operands(item)) do
      visit(operand)
    end
    needed[#needed + 1] = item
  end
  visit(name)
  return needed, leaves
end

--- The expression of a map; `operand` gives the text of a named value.
---@param item Item
---@param operand fun(name: string): string
---@return string
function text.expression(item, operand)
  local function value(arg)
    return type(arg) == "number" and expr.number(arg) or operand(arg)
  end
  local filled = expr.fill(item.template, item.attributes, function(i)
    return value(item.args[i])
  end, "std::")
  for _, name in ipairs(item.extra or {}) do
    filled = filled:gsub("%f[%w_]" .. name .. "%[c%]", (operand(name):gsub("%%", "%%%%")))
  end
  return filled
end

--- Whether any value of the program is one number a row.
---@param program Program
---@return boolean
function text.has_rows(program)
  for _, item in ipairs(program.items) do
    if item.kind == "row" then
      return true
    end
  end
  return false
end

--- "const float* x, const float* bias" for a list of inputs; `type` is "const float*" when absent.
---@param inputs {name: string}[]
---@param type? string
---@return string
function text.parameters(inputs, type)
  local list = {}
  for index, input in ipairs(inputs) do
    list[index] = (type or "const float*") .. " " .. input.name
  end
  return table.concat(list, ", ")
end

--- The names of a list of inputs, each with a text around it; "%s" when absent.
---@param inputs {name: string}[]
---@param form? string
---@return string
function text.names(inputs, form)
  local list = {}
  for index, input in ipairs(inputs) do
    list[index] = (form or "%s"):format(input.name)
  end
  return table.concat(list, ", ")
end

--- The number of elements of a shape.
---@param size integer[]
---@return integer
function text.elements(size)
  local n = 1
  for _, extent in ipairs(size) do
    n = n * extent
  end
  return n
end

return text
