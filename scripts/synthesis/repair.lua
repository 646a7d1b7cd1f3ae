-- Mends tasks that an answer without work passes: other inputs, of another spread, centre or scale, under which the
-- output depends on the work. What no repair mends is quarantined. The operators stay as they are.

local repair = {}

local HEAD = [[


_plain_inputs = get_inputs


def _repaired(value):
    if isinstance(value, (list, tuple)):
        return type(value)(_repaired(item) for item in value)
    if isinstance(value, torch.Tensor) and value.is_floating_point():
        return %s
    return value


def get_inputs():
    return _repaired(_plain_inputs())
]]

-- In the order in which they are tried. "rows": each row of a tensor gets a scale and a centre of its own, so that no
-- moment of a row is known beforehand.
repair.KINDS = {
  { name = "centred", expression = "(value - value.mean()) * (1.0 / (value.std() + 1e-6))" },
  { name = "wider", expression = "value * 4.0" },
  { name = "rows", expression = "value * torch.exp(torch.randn(value.shape[:1] + (1,) * (value.dim() - 1))) + "
    .. "torch.randn(value.shape[:1] + (1,) * (value.dim() - 1))" },
  { name = "positive_rows", expression = "value.abs() * torch.exp(torch.randn(value.shape[:1] + (1,) * "
    .. "(value.dim() - 1)))" },
}

-- Flaws that other inputs can mend.
local MENDABLE = { null = true, same_across_inputs = true, constant_output = true, below_tolerance = true,
  operator_without_effect = true }

--- Whether a reason to drop a task is one that other inputs may mend.
---@param reason string
---@return boolean
function repair.may_mend(reason)
  return MENDABLE[reason] or reason:match("^null_") ~= nil
end

--- The task with other inputs.
---@param source string
---@param kind {name: string, expression: string}
---@return string
function repair.apply(source, kind)
  return source:gsub("%s+$", "") .. HEAD:format(kind.expression)
end

--- Tries the kinds in order. `judged(source)` returns keep, reason, facts.
---@async
---@param source string
---@param judged fun(source: string): boolean, string, table
---@return string|nil source, string kind_or_reason, table|nil facts
function repair.mend(source, judged)
  local last = "no_repair"
  for _, kind in ipairs(repair.KINDS) do
    local candidate = repair.apply(source, kind)
    local keep, reason, facts = judged(candidate)
    if keep then
      return candidate, kind.name, facts
    end
    last = reason
  end
  return nil, last
end

return repair
