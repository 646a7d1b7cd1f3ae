-- How the operators of a traced graph read in C++: element by element. `{a}` and `{b}` stand for operands, `{m}` for
-- the namespace of exp and its family, other names in braces for attributes of the node.

local expr = {}

--- A float literal: 2 -> "2.0f".
---@param value number
---@return string
function expr.number(value)
  if value ~= value or value == math.huge or value == -math.huge then
    error("no literal for " .. tostring(value), 2)
  end
  local text = ("%.9g"):format(value)
  for digits = 1, 8 do
    local short = ("%%.%dg"):format(digits):format(value)
    local exponent_needed = value ~= 0 and (math.abs(value) < 1e-4 or math.abs(value) >= 1e6)
    if math.abs(tonumber(short) - value) <= 1e-7 * math.abs(value) and (exponent_needed or not short:find("e")) then
      text = short
      break
    end
  end
  if not text:find("[%.en]") then
    text = text .. ".0"
  end
  return text .. "f"
end

-- attribute -> its value where the graph leaves it out
local DEFAULTS = {
  leaky_relu = { negative_slope = 0.01 },
  elu = { alpha = 1, scale = 1, input_scale = 1 },
  softplus = { beta = 1, threshold = 20 },
  hardtanh = { min_val = -1, max_val = 1 },
  gelu = { approximate = "none" },
  add = { alpha = 1 },
  sub = { alpha = 1 },
  rsub = { alpha = 1 },
}

local PLAIN = {
  relu = "{a} > 0 ? {a} : 0",
  sigmoid = "1 / (1 + {m}exp(-{a}))",
  tanh = "{m}tanh({a})",
  silu = "{a} / (1 + {m}exp(-{a}))",
  exp = "{m}exp({a})",
  log = "{m}log({a})",
  log1p = "{m}log1p({a})",
  erf = "{m}erf({a})",
  abs = "std::abs({a})",
  neg = "-{a}",
  sqrt = "std::sqrt({a})",
  rsqrt = "1 / std::sqrt({a})",
  reciprocal = "1 / {a}",
  square = "{a} * {a}",
  sin = "std::sin({a})",
  cos = "std::cos({a})",
  mish = "{a} * {m}tanh({m}log1p({m}exp({a})))",
  log_sigmoid_forward = "-{m}log1p({m}exp(-{a}))",
  hardswish = "{a} < -3.0f ? 0 : {a} > 3.0f ? {a} : {a} * ({a} + 3) / 6",
  hardsigmoid = "{a} < -3.0f ? 0 : {a} > 3.0f ? 1 : ({a} + 3) / 6",
  leaky_relu = "{a} > 0 ? {a} : {a} * {negative_slope}",
  hardtanh = "{a} < {min_val} ? {min_val} : {a} > {max_val} ? {max_val} : {a}",
  maximum = "{a} > {b} ? {a} : {b}",
  minimum = "{a} < {b} ? {a} : {b}",
  mul = "{a} * {b}",
  div = "{a} / {b}",
}

local BUILDERS = {}

function BUILDERS.gelu(attributes)
  if attributes.approximate == "tanh" then
    return "0.5f * {a} * (1 + {m}tanh(0.7978846f * ({a} + 0.044715f * {a} * {a} * {a})))"
  end
  return "0.5f * {a} * (1 + {m}erf({a} * 0.7071068f))"
end

function BUILDERS.softplus(attributes)
  if attributes.beta ~= 1 then
    return "{a} * {beta} > {threshold} ? {a} : {m}log1p({m}exp({a} * {beta})) / {beta}"
  end
  return "{a} > {threshold} ? {a} : {m}log1p({m}exp({a}))"
end

function BUILDERS.elu(attributes)
  local negative = attributes.input_scale == 1 and "{m}expm1({a})" or "{m}expm1({a} * {input_scale})"
  if attributes.alpha * attributes.scale ~= 1 then
    attributes.down = attributes.alpha * attributes.scale
    negative = ("{down} * (%s)"):format(negative)
  end
  return "{a} > 0 ? " .. (attributes.scale == 1 and "{a}" or "{a} * {scale}") .. " : " .. negative
end

function BUILDERS.clamp(attributes)
  local text = "{a}"
  if attributes.max then
    text = ("{a} > {max} ? {max} : %s"):format(text)
  end
  if attributes.min then
    text = ("{a} < {min} ? {min} : %s"):format(text)
  end
  return text
end

-- a + alpha * b, with the sign of a negative literal in front of it.
local function sum(sign)
  return function(attributes, b)
    local operator, operand = sign, "{b}"
    if type(b) == "number" then
      local value = b * attributes.alpha
      if value < 0 then
        operator, value = sign == "+" and "-" or "+", -value
      end
      attributes.literal, operand = value, "{literal}"
    elseif attributes.alpha ~= 1 then
      operand = "{alpha} * {b}"
    end
    return ("{a} %s %s"):format(operator, operand)
  end
end

BUILDERS.add = sum("+")
BUILDERS.sub = sum("-")

function BUILDERS.rsub(attributes)
  return attributes.alpha == 1 and "{b} - {a}" or "{b} - {alpha} * {a}"
end

local POWERS = { [0.5] = "std::sqrt({a})", [1] = "{a}", [2] = "{a} * {a}", [3] = "{a} * {a} * {a}", [-1] = "1 / {a}",
  [-0.5] = "1 / std::sqrt({a})" }

function BUILDERS.pow(_, b)
  return POWERS[b] or "std::pow({a}, {b})"
end

--- Whether an operator is known as an element-wise one.
---@param op string
---@return boolean
function expr.known(op)
  return PLAIN[op] ~= nil or BUILDERS[op] ~= nil
end

--- The template of a node; `b` is its second input, a name or a number.
---@param node table   a node of the graph
---@return string template, table attributes
function expr.template(node)
  local attributes = {}
  for name, value in pairs(DEFAULTS[node.op] or {}) do
    attributes[name] = value
  end
  for name, value in pairs(node.attributes or {}) do
    attributes[name] = value
  end
  local builder = BUILDERS[node.op]
  return builder and builder(attributes, node.inputs[2]) or PLAIN[node.op], attributes
end

--- A template with everything put in. `operand(i)` gives the text of the i-th operand.
---@param template string
---@param attributes table
---@param operand fun(i: integer): string
---@param namespace string   "std::" or "fast::"
---@return string
function expr.fill(template, attributes, operand, namespace)
  return (template:gsub("{(%w[%w_]*)}", function(name)
    if name == "a" or name == "b" then
      return operand(name == "a" and 1 or 2)
    elseif name == "m" then
      return namespace
    end
    return expr.number(attributes[name])
  end))
end

return expr
