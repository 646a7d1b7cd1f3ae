-- Which synthesised tasks are worth training on: the paper's four rules (runs in eager and compile, is deterministic,
-- outputs are neither constant nor the same across inputs, eager time within bounds), that no answer without work
-- passes, and no resemblance to an evaluation suite. Every refusal has a name. A copy of this file with other rules is
-- a rubric of one's own: `--rubric rubrics.mine`.

local health = require "suites.health"

local admission = {}

---@class (exact) AdmissionLimits
---@field eager_ms number[]      least and most
---@field similarity? number     most, to any task of an evaluation suite; for `before`
---@field idle_operators? boolean   whether an operator may change nothing (a relu of what is above 0); it may not

-- Cheap rules first: what is known before anything runs, then what one run in eager mode shows, compile last.
admission.STAGES = { "before", "eager", "compile" }

--- Before anything runs. `known`: {duplicate_of?, similarity?}.
---@param known table
---@param limits AdmissionLimits
---@return boolean keep, string reason
function admission.before(known, limits)
  if known.duplicate_of then
    return false, "duplicate"
  end
  if known.similarity and known.similarity > limits.similarity then
    return false, "similar_to_evaluation"
  end
  return true, "kept"
end

--- After the stages structure and run of a check.
---@param facts table
---@param limits AdmissionLimits
---@return boolean keep, string reason
function admission.eager(facts, limits)
  if facts.run and facts.run.cut_short then
    return false, facts.run.eager_s * 1e3 < limits.eager_ms[1] and "too_fast" or "too_slow"
  end
  local structure = facts.structure or {}
  if #(structure.dead_operators or {}) > 0 or #(structure.unused_parameters or {}) > 0 then
    return false, "dead_code"
  end
  local findings = health.findings(facts)
  local healthy, flaw = health.verdict(findings)
  if not healthy then
    return false, flaw == "null" and "null_" .. facts.run.null_candidates[1]:match("^[%w_]+") or flaw
  end
  if not facts.run then
    return false, "too_large"
  end
  if structure.shrink then
    return false, "too_large"
  end
  if not limits.idle_operators and (#facts.run.idle_modules > 0 or #facts.run.no_operators > 0) then
    return false, "operator_without_effect"
  end
  local eager_ms = facts.run.eager_s * 1e3
  if eager_ms < limits.eager_ms[1] then
    return false, "too_fast"
  end
  if eager_ms > limits.eager_ms[2] then
    return false, "too_slow"
  end
  return true, "kept"
end

--- After the stage compile, which runs the task in a process of its own and on inputs that the first had not.
---@param facts table
---@param known? {output_digest?: string}   what the first process returned
---@return boolean keep, string reason
function admission.compile(facts, known)
  if not facts.compile then
    return false, facts.failure and facts.failure.code == "timeout" and "compile_hangs" or "does_not_compile"
  end
  if not facts.compile.compile_agrees then
    return false, "compile_disagrees"
  end
  if known and known.output_digest and facts.compile.output_digest ~= known.output_digest then
    return false, "differs_between_processes"
  end
  local null = (facts.compile.null_candidates or {})[1]
  if null then
    return false, "null_" .. null:match("^[%w_]+")
  end
  return true, "kept"
end

return admission
