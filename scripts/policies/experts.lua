-- Which rule-based expert writes kernels for a target.

local template = require "run.template"

local experts = {}

local MODULES = { cpu = "policies.expert", cuda = "policies.expert_cuda" }

--- The expert of a target: `answer(graph, options)`, `ORDER` (its variants from slow to fast) and `PATH`.
---@param target? "cpu"|"cuda"   "cpu" when absent
---@return table
function experts.of(target)
  local module = MODULES[target or "cpu"] or error(("target %s: cpu or cuda expected"):format(tostring(target)), 2)
  return require(module)
end

--- Whether the expert of a target writes that variant.
---@param target "cpu"|"cuda"
---@param variant string
---@return boolean
function experts.has(target, variant)
  for _, name in ipairs(experts.of(target).ORDER) do
    if name == variant then
      return true
    end
  end
  return false
end

--- The files of a whole candidate: what the expert of a target writes and what that includes.
---@param target "cpu"|"cuda"
---@param graph table
---@param variant? string   its fastest when absent
---@return table<string, string>|nil files, string? message, string? code   "unsupported" where it has no rule
function experts.write(target, graph, variant)
  local answer, message, code = experts.of(target).answer(graph, { variant = variant })
  if not answer then
    return nil, message, code
  end
  return template.with(answer.files, template.skill(target))
end

return experts
