-- Writes kernels by rule from a task's traced graph: the teacher of small models, a row of every table, a generator of
-- load. It knows element-wise operators, broadcasts, reductions of rows, softmax and layer norm.

local emit = require "policies.expert.emit"
local faults = require "policies.expert.faults"
local program = require "policies.expert.program"
local repeated = require "policies.expert.repeated"
local template = require "run.template"

local expert = {}

-- From slow to fast. `fast` includes fast.h: vector instructions and polynomials.
expert.VARIANTS = {
  slow = { fused = false, fast = false },
  plain = { fused = true, fast = false },
  split = { fused = false, fast = true },
  fast = { fused = true, fast = true },
}
expert.ORDER = { "slow", "plain", "split", "fast" }

expert.PATH = "kernels/k.cpp"

---@class (exact) ExpertOptions
---@field variant? "slow"|"plain"|"split"|"fast"   "fast" when absent
---@field fault_rate? number     probability of a mistake in a statement; 0
---@field random? lib.Random     where mistakes come from; needed with a fault_rate
---@field rewrite? fun(text: string): string   of each line before mistakes are planted

---@class (exact) Answer
---@field files table<string, string>
---@field variant string
---@field faults string[]        kinds of the mistakes that were planted
---@field syntax boolean         whether one of them cannot compile

--- The kernel for a traced graph.
---@param graph table
---@param options? ExpertOptions
---@return Answer|nil, string? message, string? code   "unsupported"
function expert.answer(graph, options)
  options = options or {}
  local variant = options.variant or "fast"
  local form = expert.VARIANTS[variant] or error("unknown variant " .. tostring(variant), 2)
  local rows, message, code = program.build(graph)
  if not rows then
    return nil, message, code
  end
  local planted, syntax, texts = {}, false, {}
  for index, line in ipairs(emit.lines(rows, form)) do
    local text = options.rewrite and options.rewrite(line.text) or line.text
    if line.may_fail and options.fault_rate and options.random:number() < options.fault_rate then
      local wrong, kind, broken = faults.plant(text, options.random)
      if wrong then
        text = wrong
        planted[#planted + 1] = kind
        syntax = syntax or broken
      end
    end
    texts[index] = text
  end
  return { files = { [expert.PATH] = table.concat(texts, "\n") .. "\n" }, variant = variant, faults = planted,
    syntax = syntax }
end

--- The files of a kernel that computes its rows several times over and takes about so many times as long.
---@param graph table
---@param variant string
---@param times number   at least 1
---@return table<string, string>
function expert.repeated(graph, variant, times)
  return template.with { [expert.PATH] = repeated.text(assert(program.build(graph)), expert.VARIANTS[variant], times) }
end

return expert
