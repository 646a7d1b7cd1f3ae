-- Keeps the tasks that can teach something (CUDA Agent §3.1): they run, are deterministic, their output depends on the
-- inputs, no answer without work passes, and eager takes long enough to be timed. Every dropped task has a named
-- reason.
local filter = {}

-- facts: the judge's answer to "admit". limits: { eager_ms = {low, high} }. Returns keep, reason.
function filter.keep(facts, limits)
  if not facts.finite then return false, "not_finite" end
  if not facts.deterministic then return false, "not_deterministic" end
  if facts.constant_output then return false, "constant_output" end
  if facts.same_across_inputs then return false, "same_across_inputs" end
  if #facts.null_candidates > 0 then return false, "null_" .. facts.null_candidates[1] end
  local eager_ms = facts.eager_s * 1e3
  if eager_ms < limits.eager_ms[1] then return false, "too_fast" end
  if eager_ms > limits.eager_ms[2] then return false, "too_slow" end
  return true, "kept"
end

return filter
