-- What is wrong with a task, named, from what the judge measured of it (kind "check").

local health = {}

-- Flaws that make a task useless to train and judge on, worst first; the others are remarks. A task that writes into
-- its inputs is judged by what it returns, but nobody should be trained on one.
health.FLAWS = { "does_not_load", "missing_module", "hangs", "dies", "out_of_memory", "does_not_run",
  "no_elements", "returns_nan", "not_deterministic", "stateful", "hidden_state", "varies", "not_seeded",
  "differs_between_processes", "unfilled_memory", "changes_inputs",
  "input_independent", "constant_output", "same_across_inputs", "null", "below_tolerance", "returns_given_memory",
  "too_small", "unused_parameters", "idle_parameters", "unused_inputs", "idle_inputs", "dead_operators",
  "does_not_compile", "compile_disagrees" }
health.REMARKS = { "too_large", "sliced", "no_dry_run", "no_op_operators", "idle_modules", "uniform_axes" }

-- Below both, a call is the overhead of calling.
local LEAST_BYTES, LEAST_FLOPS = 2 ^ 14, 1e6
-- Between processes: rounding may differ, as memory is aligned otherwise.
local SAME = 1e-3

local SET = {}
for _, name in ipairs(health.FLAWS) do
  SET[name] = true
end

--- Whether a name stands for a flaw rather than a remark.
---@param name string
---@return boolean
function health.is_flaw(name)
  return SET[name] == true
end

local function same_sketch(one, other)
  for place, values in ipairs(one) do
    for index, value in ipairs(values) do
      local twin = (other[place] or {})[index]
      if not twin or math.abs(value - twin) > SAME + SAME * math.abs(value) then
        return false
      end
    end
  end
  return true
end

local function too_small(structure)
  local bytes = (structure.input_bytes or LEAST_BYTES) + structure.state_bytes + structure.output_bytes
  return bytes < LEAST_BYTES and structure.flops < LEAST_FLOPS and bytes
end

local function failure_name(failure)
  if failure.code == "timeout" then
    return "hangs"
  elseif failure.code == "died" then
    return "dies"
  elseif failure.message:find("No module named", 1, true) then
    return "missing_module", failure.message:match("No module named '([%w_%.]+)'")
  elseif failure.message:find("MemoryError", 1, true) or failure.message:find("DefaultCPUAllocator", 1, true)
    or failure.message:find("allocate memory", 1, true) then
    return "out_of_memory"
  end
  return failure.stage == "structure" and "does_not_load" or failure.stage == "run" and "does_not_run"
    or "does_not_compile"
end

local function distinct(list)
  local seen, out = {}, {}
  for _, item in ipairs(list or {}) do
    if not seen[item] then
      seen[item] = true
      out[#out + 1] = item
    end
  end
  return out
end

local function without(list, others)
  local seen, out = {}, {}
  for _, item in ipairs(others or {}) do
    seen[item] = true
  end
  for _, item in ipairs(list or {}) do
    out[#out + 1] = not seen[item] and item or nil
  end
  return out
end

---@class (exact) Finding
---@field name string
---@field detail string

--- The findings of one task, flaws first.
---@param facts table   the judge's answer to "check"
---@return Finding[]
function health.findings(facts)
  local list = {}
  local function add(name, detail)
    list[#list + 1] = { name = name, detail = tostring(detail or "") }
  end
  local function add_list(name, items)
    items = distinct(items)
    if #items > 0 then
      add(name, table.concat(items, ", "))
    end
  end
  if facts.failure then
    local name, detail = failure_name(facts.failure)
    add(name, detail or facts.failure.message)
  end
  local run, structure, compile = facts.run, facts.structure or {}, facts.compile
  if run and run.fault then  -- what the judge would say too (sandbox/python/khost/task/task_inspection.py)
    add(run.fault, run.text)
    run = nil
  end
  if run then
    for _, name in ipairs { "input_independent", "constant_output", "same_across_inputs", "below_tolerance",
      "changes_inputs" } do
      if run[name] then
        add(name, name == "below_tolerance" and ("all of it within 0.01 of zero") or "")
      end
    end
    add_list("null", run.null_candidates)
    add_list("no_op_operators", run.no_operators)
    add_list("idle_modules", run.idle_modules)
    add_list("uniform_axes", run.uniform_axes)
  end
  if run then
    for _, name in ipairs { "returns_given_memory", "unfilled_memory" } do
      if run[name] then
        add(name)
      end
    end
    add_list("idle_parameters", without(run.idle_parameters, structure.unused_parameters))
    add_list("idle_inputs", without(run.idle_inputs, structure.unused_inputs))
    local later = facts.again or compile
    if later and later.sketch and run.sketch and (run.seed or 0) == 0 and not same_sketch(run.sketch, later.sketch) then
      add("differs_between_processes")
    end
  end
  if structure.input_bytes and too_small(structure) then
    add("too_small", ("%d bytes"):format(too_small(structure)))
  end
  if compile and not compile.compile_agrees then
    add("compile_disagrees")
  end
  if structure.too_large and structure.shrink then
    add("sliced", ("measured with %d of %d along the leading dimension"):format(structure.shrink[2],
      structure.shrink[1]))
  elseif structure.too_large then
    add("too_large", ("%.0f MiB, %.1f GFLOP"):format(structure.peak_bytes / 2 ^ 20, structure.flops / 1e9))
  end
  if structure.dry_run then
    add("no_dry_run", structure.dry_run)
  end
  add_list("unused_parameters", structure.unused_parameters)
  add_list("unused_inputs", structure.unused_inputs)
  add_list("dead_operators", structure.dead_operators)
  return list
end

--- Whether a task may be trained and judged on.
---@param findings Finding[]
---@return boolean healthy, string? flaw
function health.verdict(findings)
  for _, finding in ipairs(findings) do
    if SET[finding.name] then
      return false, finding.name
    end
  end
  return true
end

return health
