-- The operators that tasks are made of, for the CPU target: how each is written in PyTorch and what the tracer will
-- say about it. A test traces every one of them and compares.

local operators = {}

-- `python`: {a} is the operand, names in braces are drawn from `draw`. `attributes`: how the trace shows what was
-- drawn; a number in `operand` becomes the second input instead. `range`: what is known about the result, so that exp
-- is only applied where it cannot overflow. `cost`: "heavy" where a call of exp or the like dominates.
local function unary(name, python, more)
  local entry = more or {}
  entry.name, entry.op, entry.python, entry.kind = name, entry.op or name, python, "unary"
  return entry
end

local LIST = {
  unary("relu", "torch.relu({a})"),
  unary("sigmoid", "torch.sigmoid({a})", { cost = "heavy", range = "bounded" }),
  unary("tanh", "torch.tanh({a})", { cost = "heavy", range = "bounded" }),
  unary("silu", "F.silu({a})", { cost = "heavy" }),
  unary("gelu", "F.gelu({a})", { cost = "heavy" }),
  unary("softplus", "F.softplus({a})", { cost = "heavy" }),
  unary("elu", "F.elu({a})", { cost = "heavy", fixed = { alpha = 1 } }),
  unary("exp", "torch.exp({a})", { cost = "heavy", needs = "bounded" }),
  unary("mish", "F.mish({a})", { cost = "heavy" }),
  unary("abs", "torch.abs({a})", { keeps = true }),
  unary("square", "{a} ** 2", { op = "pow", operand = 2, fixed = { exponent = 2 } }),
  unary("neg", "-{a}", { keeps = true }),
  unary("hardsigmoid", "F.hardsigmoid({a})", { range = "bounded" }),
  unary("hardswish", "F.hardswish({a})"),
  unary("leaky_relu", "F.leaky_relu({a}, {slope})", { draw = { slope = { 0.1, 0.2, 0.05 } },
    attributes = { negative_slope = "slope" } }),
  unary("clamp", "torch.clamp({a}, {low}, {high})", { draw = { low = { -1, -0.5, -2 }, high = { 1, 0.5, 2 } },
    attributes = { min = "low", max = "high" }, range = "bounded" }),
  unary("scale", "{a} * {k}", { op = "mul", draw = { k = { 0.5, 2, 1.5, 0.25, 3 } }, operand = "k" }),
  unary("shift", "{a} + {k}", { op = "add", draw = { k = { 1, 0.5, -0.5, 2, -1 } }, operand = "k" }),
  -- A vector along the last dimension, one of each name in a task.
  { name = "add_bias", op = "add", python = "{a} + self.bias", kind = "vector", vector = "bias" },
  { name = "mul_gain", op = "mul", python = "{a} * self.gain", kind = "vector", vector = "gain" },
  -- The input again.
  { name = "residual", op = "add", python = "{a} + x", kind = "again" },
  { name = "gate", op = "mul", python = "{a} * x", kind = "again" },
  -- Whole rows.
  { name = "softmax", op = "softmax", python = "torch.softmax({a}, dim=-1)", kind = "row", cost = "heavy",
    range = "bounded", fixed = { dim = -1, half_to_float = false } },
  { name = "log_softmax", op = "log_softmax", python = "torch.log_softmax({a}, dim=-1)", kind = "row", cost = "heavy",
    fixed = { dim = -1, half_to_float = false } },
  { name = "layer_norm", op = "layer_norm", python = "F.layer_norm({a}, {a}.shape[-1:])", kind = "row",
    fixed = { eps = 1e-5 }, cols = "normalized_shape" },
  -- Rows become numbers; nothing follows.
  { name = "mean", op = "mean", python = "torch.mean({a}, dim=-1)", kind = "reduce", fixed = { dim = { -1 } } },
  { name = "sum", op = "sum", python = "torch.sum({a}, dim=-1)", kind = "reduce", fixed = { dim = { -1 } } },
  { name = "amax", op = "amax", python = "torch.amax({a}, dim=-1)", kind = "reduce", fixed = { dim = { -1 } } },
}

operators.LIST = LIST
operators.BY_NAME = {}
for _, entry in ipairs(LIST) do
  operators.BY_NAME[entry.name] = entry
end

-- Which operators a family is made of; the last operator of a row family is one of `last`.
operators.FAMILIES = {
  chain = { body = { "unary", "again" } },
  bias = { body = { "unary", "again", "vector" }, must = "vector" },
  rows = { body = { "unary", "vector" }, last = "row" },
  reduce = { body = { "unary", "vector" }, last = "reduce" },
}

local function number(value)
  return ("%.6g"):format(value)
end

--- The PyTorch expression of one use.
---@param entry table
---@param operand string
---@param drawn table<string, number>
---@return string
function operators.python(entry, operand, drawn)
  return (entry.python:gsub("{(%w+)}", function(name)
    return name == "a" and operand or number(drawn[name])
  end))
end

--- The node of the traced graph that one use will become.
---@param entry table
---@param name string
---@param operand string
---@param drawn table<string, number>
---@param size integer[]   of the operand
---@return table
function operators.node(entry, name, operand, drawn, size)
  local node = { name = name, op = entry.op, inputs = { operand }, attributes = {}, size = size, dtype = "float32" }
  if entry.operand then
    node.inputs[2] = type(entry.operand) == "number" and entry.operand or drawn[entry.operand]
  elseif entry.vector then
    node.inputs[2] = entry.vector
  elseif entry.kind == "again" then
    node.inputs[2] = "x"
  end
  for attribute, key in pairs(entry.attributes or {}) do
    node.attributes[attribute] = drawn[key]
  end
  for attribute, value in pairs(entry.fixed or {}) do
    node.attributes[attribute] = value
  end
  if entry.cols then
    node.attributes[entry.cols] = { size[#size] }
  end
  if entry.kind == "reduce" then
    node.size = {}
    for d = 1, #size - 1 do
      node.size[d] = size[d]
    end
  end
  return node
end

return operators
