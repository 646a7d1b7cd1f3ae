-- Solutions that others published, with what they claim of them: JSON lines, a JSON list or Parquet with a task and its
-- solution in each record (CUDA-L1: ref_code and custom_code), or the folder of a run of KernelBench
-- (level_L_problem_P_sample_S_kernel.py beside eval_results.json), whose tasks come from a suite.
--
--   solution  {name, level?, sample, task, text, claimed}
--   claimed   {correct?, compiled?, eager?, compile?, candidate_s?, others: by the record's own names}
--
-- A record without a solution is left out, named and counted (left_out.lua).

local fs = require "khost.fs"
local json = require "khost.json"
local beneath = require "lib.beneath"
local parquet = require "suites.parquet"
local records = require "suites.records"

local published = {}

local SOLUTION_FIELDS = { "custom_code", "solution", "kernel_code", "generated_code", "optimized_code", "kernel",
  "model_new" }
-- What a claim is called: CUDA-L1's first, then plain words.
local EAGER_FIELDS = { "score_default", "speedup", "speedup_eager" }
local COMPILE_FIELDS = { "score_torch_compile_default", "speedup_compile" }

local function filled(value)
  return type(value) == "string" and value:find("%S") and value or nil
end

local function number_of(record, names)
  for _, name in ipairs(names) do
    local value = tonumber(record[name])
    if value and value == value and value > 0 and value < math.huge then
      return value
    end
  end
end

local function flag_of(record, ...)
  for _, name in ipairs { ... } do
    if type(record[name]) == "boolean" then
      return record[name]
    end
  end
end

-- Numbers of a record that no other field of a claim holds, such as further baselines.
local function others_of(record)
  local list = {}
  for name, value in pairs(record) do
    if type(value) == "number" and (name:find("^score_") or name:find("^speedup")) then
      list[name] = value
    end
  end
  return list
end

-- Seconds of a run of KernelBench, which writes milliseconds and -1 where there are none.
local function seconds_of(record)
  local stats = type(record.runtime_stats) == "table" and record.runtime_stats or {}
  local milliseconds = number_of(record, { "runtime" }) or number_of(stats, { "mean" })
  return milliseconds and milliseconds / 1000
end

local function claimed_of(record)
  local eager, compile = number_of(record, EAGER_FIELDS), number_of(record, COMPILE_FIELDS)
  local correct = flag_of(record, "correct", "correctness")
  if correct == nil and (eager or compile) then
    correct = true  -- nobody publishes the speed-up of what is wrong
  end
  return { correct = correct, compiled = flag_of(record, "compiled"), eager = eager, compile = compile,
    candidate_s = seconds_of(record), others = others_of(record) }
end

local function solution_text(record)
  for _, name in ipairs(SOLUTION_FIELDS) do
    if filled(record[name]) then
      return record[name]
    end
  end
end

-- Solutions of records that bring their tasks.
local function from_records(path, left)
  local text, message, code
  if path:match("%.parquet$") then
    text, message, code = parquet.rows(path)
  else
    text, message, code = fs.read(path)
  end
  if not text then
    return nil, message, code
  end
  local part = { text = text, name = path, unit = path:match("%.parquet$") and "row" or "line" }
  local list, problem = records.list(part)
  if not list then
    return nil, problem, "bad_input"
  end
  local found = {}
  for _, one in ipairs(list) do
    if not one.record then
      return nil, one.place .. " is no JSON object", "bad_input"
    end
    local task, why = records.task(one.record)
    local solution = solution_text(one.record)
    if not task then
      left:add(one.place, "it " .. why)
    elseif not solution then
      left:add(("%s (%s)"):format(one.place, task.id or "without a name"),
        ("nothing is published: none of %s holds a text"):format(table.concat(SOLUTION_FIELDS, ", ")))
    else
      task.id = task.id or ("record-%d"):format(#found + 1)
      task.name = task.name or task.id
      found[#found + 1] = { name = task.id, level = task.level, sample = 0, task = task, text = solution,
        claimed = claimed_of(one.record) }
    end
  end
  return found
end

-- What a run says of its samples, by "LEVEL PROBLEM SAMPLE". Newer runs have a list a problem, older ones one object.
local function results_of(folder, level_of_run)
  local text = beneath.read(folder, "eval_results.json")
  local value = text and json.decode(text)
  local claims = {}
  for problem, entry in pairs(type(value) == "table" and value or {}) do
    local list = type(entry) == "table" and (entry[1] and entry or { entry }) or {}
    for _, result in ipairs(list) do
      local level = tonumber(type(result) == "table" and result.level) or level_of_run
      if type(result) == "table" then
        claims[("%s %s %d"):format(level, problem, tonumber(result.sample_id) or 0)] = claimed_of(result)
      end
    end
  end
  return claims
end

-- The task of a problem: by the number that its name begins with, or that its record gives.
local function task_of(tasks, level, problem)
  for _, task in ipairs(tasks) do
    local number = tonumber(task.id:match("([^/]+)$"):match("^(%d+)")) or tonumber(task.name:match("^(%d+)"))
    local given = task.origin and tonumber(task.origin.problem_id)
    if task.level == level and (given or number) == problem then
      return task
    end
  end
end

local FORM = "^level_(%d+)_problem_(%d+)_sample_(%d+)_kernel%.py$"

local function from_run(folder, tasks, left)
  local paths, message, code = beneath.files(folder, { depth = 0, keep = function(path)
    return path:match(FORM) ~= nil
  end, refused = function(path, why) left:add(folder .. "/" .. path, "it is " .. why) end })
  if not paths then
    return nil, message, code
  elseif #paths == 0 then
    return nil, ("%s: no file level_L_problem_P_sample_S_kernel.py there, as a run of KernelBench has them")
      :format(folder), "bad_input"
  elseif not tasks then
    return nil, ("%s: a run of KernelBench holds no tasks; name the suite with --suite"):format(folder), "bad_input"
  end
  local level_of_run = paths[1]:match(FORM)
  local claims, found = results_of(folder, level_of_run), {}
  for _, path in ipairs(paths) do
    local level, problem, sample = path:match(FORM)
    local task = task_of(tasks, tonumber(level), tonumber(problem))
    if not task then
      left:add(folder .. "/" .. path, ("the suite has no task %s of level %s"):format(problem, level))
    else
      found[#found + 1] = { name = task.id, level = tonumber(level), sample = tonumber(sample), task = task,
        text = beneath.read(folder, path), claimed = claims[("%s %s %s"):format(level, problem, sample)] or {} }
    end
  end
  table.sort(found, function(a, b)
    if a.level ~= b.level then return a.level < b.level end
    return a.name == b.name and a.sample < b.sample or a.name < b.name
  end)
  return found
end

--- The solutions that a file or a folder holds.
---@async
---@param path string
---@param tasks SuiteTask[]|nil   of a suite, for runs of KernelBench
---@param left table              suites/left_out.lua
---@return table[]|nil, string? message, string? code
function published.read(path, tasks, left)
  local kind = fs.exists(path)
  if kind == "folder" then
    return from_run(path, tasks, left)
  elseif kind ~= "file" then
    return nil, ("%s: no such file or folder"):format(path), "bad_input"
  end
  return from_records(path, left)
end

return published
