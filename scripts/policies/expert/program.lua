-- From a traced graph to a row program: what is computed for every element, what for every row, and in how many passes
-- over a row, since a pass can use a row's sum only after the pass that made it.

local expr = require "policies.expert.expr"

local program = {}

---@class (exact) Item
---@field name string
---@field kind "full"|"row"    one value an element, or one a row
---@field how "map"|"sum"|"max"|"min"
---@field template? string     of a map
---@field attributes? table
---@field args (string|number)[]
---@field level integer        the pass that makes it; a row value is ready one pass later
---@field source integer       which node of the graph it belongs to

local function product(size)
  local n = 1
  for _, extent in ipairs(size) do
    n = n * extent
  end
  return n
end

-- "full" like the first input, "vec" along the last dimension, "row" with an extent of 1 there, or nil.
local function shape_kind(size, full)
  local cols = full[#full] or 1
  if #size == #full then
    local same, row = true, true
    for d = 1, #full do
      same = same and size[d] == full[d]
      row = row and size[d] == (d == #full and 1 or full[d])
    end
    if same then
      return "full"
    end
    if row then
      return "row"
    end
  end
  if size[#size] == cols and product(size) == cols then
    return "vec"
  end
  if #size == #full - 1 and product(size) * cols == product(full) then
    return "flat_row"  -- a row's value without its dimension: no operand of an element
  end
end

local Builder = {}
Builder.__index = Builder

function Builder:fail(text)
  error({ unsupported = text }, 0)
end

function Builder:push(item)
  item.source = self.source
  local level = 0
  for _, arg in ipairs(item.args) do
    local made = self.items_by_name[arg]
    if made then
      level = math.max(level, made.kind == "row" and made.ready or made.level)
    end
  end
  item.level = level
  item.ready = item.how == "map" and level or level + 1
  self.items[#self.items + 1] = item
  self.items_by_name[item.name] = item
  self.kinds[item.name] = item.kind
  return item.name
end

function Builder:map(name, kind, template, ...)
  return self:push { name = name, kind = kind, how = "map", template = template, attributes = {}, args = { ... } }
end

function Builder:reduce(name, how, arg)
  return self:push { name = name, kind = "row", how = how, args = { arg } }
end

local function last_dim(node, rank)
  local dim = node.attributes.dim
  if type(dim) == "table" then
    if #dim ~= 1 then
      return false
    end
    dim = dim[1]
  end
  return dim == -1 or dim == rank - 1
end

local ROW_OPS = {}

function ROW_OPS.sum(b, node, arg)
  b:reduce(node.name, "sum", arg)
end

function ROW_OPS.mean(b, node, arg)
  b:map(node.name, "row", "{a} / cols", b:reduce("s" .. b.suffix, "sum", arg))
end

function ROW_OPS.amax(b, node, arg)
  b:reduce(node.name, "max", arg)
end

function ROW_OPS.amin(b, node, arg)
  b:reduce(node.name, "min", arg)
end

-- `max` and `min` along a dimension also give the places, which no rule reads.
ROW_OPS.max = ROW_OPS.amax
ROW_OPS.min = ROW_OPS.amin

-- The Euclidean norm of a row.
function ROW_OPS.linalg_vector_norm(b, node, arg)
  if (node.attributes.ord or 2) ~= 2 then
    b:fail("a norm of the order " .. tostring(node.attributes.ord))
  end
  local square = b:map("e" .. b.suffix, "full", "{a} * {a}", arg)
  b:map(node.name, "row", "std::sqrt({a})", b:reduce("s" .. b.suffix, "sum", square))
end

function ROW_OPS.softmax(b, node, arg)
  local most = b:reduce("m" .. b.suffix, "max", arg)
  local e = b:map("e" .. b.suffix, "full", "{m}exp({a} - {b})", arg, most)
  b:map(node.name, "full", "{a} / {b}", e, b:reduce("s" .. b.suffix, "sum", e))
end

function ROW_OPS.log_softmax(b, node, arg)
  local most = b:reduce("m" .. b.suffix, "max", arg)
  local d = b:map("d" .. b.suffix, "full", "{a} - {b}", arg, most)
  local e = b:map("e" .. b.suffix, "full", "{m}exp({a})", d)
  local s = b:reduce("s" .. b.suffix, "sum", e)
  b:map(node.name, "full", "{a} - {b}", d, b:map("l" .. b.suffix, "row", "{m}log({a})", s))
end

function ROW_OPS.layer_norm(b, node, arg)
  local wide = node.attributes.normalized_shape
  if type(wide) ~= "table" or #wide ~= 1 then
    b:fail("layer_norm over several dimensions")
  end
  local mean = b:map("m" .. b.suffix, "row", "{a} / cols", b:reduce("s" .. b.suffix, "sum", arg))
  local d = b:map("d" .. b.suffix, "full", "{a} - {b}", arg, mean)
  local square = b:map("e" .. b.suffix, "full", "{a} * {a}", d)
  local q = b:reduce("q" .. b.suffix, "sum", square)
  local scale = b:map("k" .. b.suffix, "row", "1 / std::sqrt({a} / cols + {eps})", q)
  b.items[#b.items].attributes.eps = node.attributes.eps or 1e-5
  local weight, bias = node.inputs[2], node.inputs[3]
  local text = "{a} * {b}"
  local function affine(sign, operand)
    if type(operand) ~= "string" then
      return
    end
    b:known(operand)
    b.items[#b.items].extra = b.items[#b.items].extra or {}
    table.insert(b.items[#b.items].extra, operand)
    text = text .. (" %s %s[c]"):format(sign, operand)
  end
  b:map(node.name, "full", text, d, scale)
  affine("*", weight)
  affine("+", bias)
  b.items[#b.items].template = text
end

function Builder:known(name)
  local kind = self.kinds[name]
  if not kind then
    self:fail("value " .. tostring(name))
  end
  return kind
end

local function result_kind(self, node)
  local row_only = true
  for _, arg in ipairs(node.inputs) do
    if type(arg) == "string" and self:known(arg) ~= "row" and self.kinds[arg] ~= "flat_row" then
      row_only = false
    end
  end
  return row_only and "row" or "full"
end

function Builder:element_wise(node)
  local template, attributes = expr.template(node)
  local kind = result_kind(self, node)
  local shape = shape_kind(node.size, self.full)
  if kind == "full" and shape ~= "full" then
    self:fail(("%s to the shape %s"):format(node.op, table.concat(node.size, "x")))
  end
  for _, arg in ipairs(node.inputs) do
    if kind == "full" and self.flat[arg] then
      self:fail("a reduced value without its dimension in an element-wise operator")
    end
  end
  self:push { name = node.name, kind = kind, how = "map", template = template, attributes = attributes,
    args = { node.inputs[1], node.inputs[2] } }
  self.flat[node.name] = kind == "row" and shape == "flat_row" or nil
end

function Builder:node(node, index)
  self.source, self.suffix = index, node.name:match("%d+$") or tostring(index)
  if ROW_OPS[node.op] then
    local arg = node.inputs[1]
    if self:known(arg) ~= "full" then
      self:fail(node.op .. " of a value that is not a whole tensor")
    end
    if node.op ~= "layer_norm" and not last_dim(node, #self.full) then
      self:fail(node.op .. " over another dimension than the last")
    end
    ROW_OPS[node.op](self, node, arg)
    self.flat[node.name] = self.kinds[node.name] == "row" and #node.size == #self.full - 1 or nil
  elseif expr.known(node.op) then
    self:element_wise(node)
  else
    self:fail("operator " .. node.op)
  end
end

local RESERVED = { out = true, n = true, rows = true, cols = true, i = true, r = true, c = true, w = true, k = true }

function Builder:inputs(graph)
  for _, input in ipairs(graph.inputs) do
    local kind = shape_kind(input.size, self.full)
    if input.dtype ~= "float32" then
      self:fail("values of type " .. tostring(input.dtype))
    end
    if RESERVED[input.name] or input.name:match("^[a-z]%d+$") then
      self:fail("an input called " .. input.name)
    end
    self.kinds[input.name] = kind or "other"
    self.inputs_by_name[input.name] = { name = input.name, kind = kind }
  end
end

-- What is used where, and the last pass of all.
local function finish(self, graph)
  if #graph.output ~= 1 then
    self:fail("several outputs")
  end
  local result = self.items_by_name[graph.output[1]]
  if not result then
    self:fail("an output that no operator makes")
  end
  local used, order = {}, {}
  for _, item in ipairs(self.items) do
    for _, list in ipairs { item.args, item.extra or {} } do
      for _, arg in ipairs(list) do
        used[arg] = true
      end
    end
  end
  for _, input in ipairs(graph.inputs) do
    if used[input.name] then
      if self.kinds[input.name] == "other" or self.kinds[input.name] == "flat_row" then
        self:fail("an input of the shape " .. table.concat(input.size, "x"))
      end
      order[#order + 1] = self.inputs_by_name[input.name]
    end
  end
  return { items = self.items, by_name = self.items_by_name, kinds = self.kinds, inputs = order, result = result }
end

---@class (exact) Program
---@field items Item[]
---@field by_name table<string, Item>
---@field kinds table<string, string>   of every value: full, row, vec
---@field inputs {name: string, kind: string}[]   those that are used
---@field result Item

---@param graph table   as the judge traces it
---@return Program|nil, string? message, string? code   "unsupported"
function program.build(graph)
  local first = graph.inputs[1]
  if not first or first.kind == "state" or #first.size < 1 then
    return nil, "the first input is no tensor", "unsupported"
  end
  local self = setmetatable({ full = first.size, kinds = {}, flat = {}, items = {}, items_by_name = {},
    inputs_by_name = {} }, Builder)
  local ok, result = pcall(function()
    self:inputs(graph)
    for index, node in ipairs(graph.nodes) do
      self:node(node, index)
    end
    return finish(self, graph)
  end)
  if ok then
    return result
  end
  if type(result) == "table" and result.unsupported then
    return nil, "no rule for " .. result.unsupported, "unsupported"
  end
  error(result, 0)
end

return program
