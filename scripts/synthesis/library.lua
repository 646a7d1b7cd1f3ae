-- The library of seed operators: what the crawl of the installed PyTorch found, as standalone task files and as what
-- the composer draws from.

local fs = require "khost.fs"
local json = require "khost.json"
local sched = require "khost.sched"
local tables = require "evaluation.table"

local library = {}

-- Small enough to look at, large enough to run; by number of dimensions.
library.SIZES = { [2] = { 1024, 1024 }, [3] = { 16, 256, 512 }, [4] = { 16, 32, 64, 64 }, [5] = { 4, 16, 16, 32, 32 } }
local FIND_SECONDS = 600

-- Of records that say the same, the first is kept.
local function merged(answers)
  local all, first, found = {}, {}, { operators = {}, skipped = {}, torch = answers[1].torch }
  for _, answer in ipairs(answers) do
    for _, operator in ipairs(answer.operators) do
      all[#all + 1] = operator
    end
    for name, reason in pairs(answer.skipped) do
      found.skipped[name] = reason
    end
  end
  table.sort(all, function(a, b) return a.place < b.place or a.place == b.place and a.name < b.name end)
  for _, operator in ipairs(all) do
    if first[operator.same] then
      found.skipped[operator.name:gsub("^transformers%.", "")] = "same_as_" .. first[operator.same]
    else
      first[operator.same] = operator.name:gsub("^transformers%.", "")
      found.operators[#found.operators + 1] = operator
    end
  end
  return found
end

local function find_in_parts(judge, what, jobs, target)
  local parts, bad = {}, nil
  for index = 1, jobs do
    parts[index] = { index - 1, jobs }
  end
  local answers = sched.map(parts, function(part)
    local answer, message, code = judge:request("crawl", { request = { find = what, part = part }, target = target,
      timeout_s = FIND_SECONDS })
    if not answer then
      bad = { message, code }
    end
    return answer or {}
  end, { limit = jobs, on_failure = "raise" })
  if bad then
    return nil, bad[1], bad[2]
  end
  return merged(answers)
end

--- Asks the judge to crawl. `file`: kept there and read again.
---@async
---@param judge khost.Judge
---@param file? string
---@param what? "torch"|"transformers"
---@param jobs? integer   children that share the work
---@param target? string  whose processes look, cpu or cuda
---@return table|nil found, string? message, string? code   {operators, skipped, torch}
function library.find(judge, file, what, jobs, target)
  local text = file and fs.read(file)
  local known = text and json.decode(text)
  if type(known) == "table" then
    return known
  end
  local found, message, code = find_in_parts(judge, what or "torch", jobs or 1, target)
  if found and file then
    assert(fs.write(file, json.encode(found)))
  end
  return found, message, code
end

--- A Python literal.
---@param value any
---@return string
function library.python(value)
  if type(value) == "table" then
    local parts = {}
    for index, item in ipairs(value) do
      parts[index] = library.python(item)
    end
    return "[" .. table.concat(parts, ", ") .. "]"
  elseif type(value) == "boolean" then
    return value and "True" or "False"
  elseif type(value) == "string" then
    return ("%q"):format(value)
  elseif value == math.floor(value) and math.abs(value) < 2 ^ 53 then
    return ("%d"):format(value)
  end
  return ("%.6g"):format(value)
end

local function keywords(values)
  local names, parts = {}, {}
  for name in pairs(values) do
    names[#names + 1] = name
  end
  table.sort(names)
  for index, name in ipairs(names) do
    parts[index] = ("%s=%s"):format(name, library.python(values[name]))
  end
  return table.concat(parts, ", ")
end

---@class (exact) OperatorUse
---@field operator table
---@field values table<string, any>   arguments as drawn; those that are bound have no value yet

--- The lines of one use on a tensor of a size: for __init__ (nil for a function) and the expression in forward.
---@param use OperatorUse
---@param size integer[]
---@param member string     name of the submodule
---@param operand string
---@return string|nil init, string expression
function library.lines(use, size, member, operand)
  local values = {}
  for name, value in pairs(use.values) do
    values[name] = value
  end
  for name, dimension in pairs(use.operator.bound or {}) do
    values[name] = dimension == -1 and size[#size] or size[dimension + 1]
  end
  local text = keywords(values)
  if use.operator.form == "function" then
    local call = use.operator.call:gsub("{x}", operand)
    return nil, (call:gsub("{arguments}", function() return text ~= "" and ", " .. text or "" end))
  end
  local init = ("self.%s = %s(%s)"):format(member, use.operator.name, text)
  if use.operator.category == "batchnorm" then
    -- Fresh statistics would make it nothing in evaluation.
    init = init .. ("\n        nn.init.uniform_(self.%s.running_mean, -0.5, 0.5)\n        nn.init.uniform_(self.%s."
      .. "running_var, 0.5, 1.5)"):format(member, member)
  end
  return init, (use.operator.call:gsub("{m}", "self." .. member):gsub("{x}", operand))
end

local INPUTS = { any = "torch.randn(%s)", bounded = "torch.rand(%s) * 2 - 1", positive = "torch.rand(%s) * 2 + 0.5",
  unit = "torch.rand(%s) * 0.9 + 0.05" }

--- The task file of a chain of uses. `sizes[i]` is the size that use i is applied to.
---@param uses OperatorUse[]
---@param sizes integer[][]
---@param needs string      which values the input has: any, bounded, positive, unit
---@return string
function library.source(uses, sizes, needs)
  local init, body, operand = {}, {}, "x"
  for index, use in ipairs(uses) do
    local member = ("%s_%d"):format(use.operator.name:match("[%w_]+$"):lower(), index)
    local line, expression = library.lines(use, sizes[index], member, operand)
    if line then
      init[#init + 1] = "        " .. line .. "\n"
    end
    body[index] = ("        x = %s\n"):format(expression)
    operand = "x"
  end
  return table.concat { "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n\n\n",
    "class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n", table.concat(init),
    "\n    def forward(self, x):\n", table.concat(body), "        return x\n\n\ndef get_inputs():\n    return [",
    INPUTS[needs]:format(table.concat(sizes[1], ", ")), "]\n\n\ndef get_init_inputs():\n    return []\n" }
end

--- The first legal value of every required argument.
---@param case table
---@return table<string, any>
function library.defaults(case)
  local values = {}
  for name, legal in pairs(case.legal) do
    values[name] = legal[1]
  end
  return values
end

--- One standalone task for each operator, on the first input that fits.
---@param found table
---@return {name: string, source: string, category: string}[]
function library.tasks(found)
  local list = {}
  for index, operator in ipairs(found.operators) do
    local case = operator.cases[1]
    list[index] = { name = operator.name:gsub("%.", "_"), category = operator.category,
      source = operator.task or library.source({ { operator = operator, values = library.defaults(case) } },
        { library.SIZES[#case.size] }, case.needs) }
  end
  return list
end

--- Tasks of single operators that come with a task file of their own (those of transformers), drawn without repetition.
---@param found table
---@param count integer
---@param stream lib.Random
---@return {name: string, chain: string, depth: integer, source: string, size: integer[]}[]
function library.alone(found, count, stream)
  local list = {}
  for index, operator in ipairs(stream:shuffled(found.operators)) do
    if index > count then
      break
    end
    list[index] = { name = operator.name:gsub("[^%w]+", "_"), chain = operator.name, depth = 0, source = operator.task,
      size = operator.cases[1].size }
  end
  return list
end

local function prefix(reason)
  return reason:match("^same_as_") and "same_as_another" or reason:match("^argument_") and "unknown_argument"
    or reason:match("^needs_") and "needs_more_of_its_package" or reason:match("^config_") and "no_plain_configuration"
    or reason:match("^forward_takes_") and "forward_takes_more" or reason
end

--- Counts by form and category, and skipped ones by reason.
---@param found table
---@return {title: string, columns: string[], rows: string[][]}[]
function library.tables(found)
  local categories, reasons = {}, {}
  for _, operator in ipairs(found.operators) do
    local key = ("%s, %s"):format(operator.form, operator.category)
    categories[key] = (categories[key] or 0) + 1
  end
  for _, reason in pairs(found.skipped) do
    reasons[prefix(reason)] = (reasons[prefix(reason)] or 0) + 1
  end
  return { tables.counts("Seed operators", "form, category", categories),
    tables.counts("Left out", "reason", reasons) }
end

return library
