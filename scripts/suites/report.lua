-- What a check of a suite found: counts by finding, a line for each flawed task, CSV and JSON lines.

local csv = require "evaluation.csv"
local health = require "suites.health"
local json = require "khost.json"

local report = {}

local COLUMNS = { "id", "level", "healthy", "flaw", "findings", "eager_ms", "compile_ms", "compile_first_s", "input_mb",
  "state_mb", "output_mb", "peak_mb", "gflop", "operators", "measured" }

local function scaled(value, factor)
  return value and value * factor or nil
end

local function measured(facts)
  local s = facts.structure or {}
  if not facts.run then
    return "structure"
  end
  return s.shrink and ("%d/%d"):format(s.shrink[2], s.shrink[1]) or "whole"
end

--- One record a task, as the CSV has it.
---@param result TaskHealth
---@return table<string, any>
function report.record(result)
  local s, r, c = result.facts.structure or {}, result.facts.run or {}, result.facts.compile or {}
  local names = {}
  for index, finding in ipairs(result.findings) do
    names[index] = finding.detail ~= "" and ("%s: %s"):format(finding.name, finding.detail) or finding.name
  end
  return { id = result.task.id, level = result.task.level, healthy = result.healthy, flaw = result.flaw,
    findings = table.concat(names, "; "), eager_ms = scaled(r.eager_s, 1e3), compile_ms = scaled(c.compile_s, 1e3),
    compile_first_s = c.compile_first_s, input_mb = scaled(s.input_bytes, 2 ^ -20),
    state_mb = scaled(s.state_bytes, 2 ^ -20), output_mb = scaled(s.output_bytes, 2 ^ -20),
    peak_mb = scaled(s.peak_bytes, 2 ^ -20), gflop = scaled(s.flops, 1e-9), operators = s.operators,
    measured = measured(result.facts) }
end

---@param results TaskHealth[]
---@return string
function report.csv(results)
  local records = {}
  for index, result in ipairs(results) do
    records[index] = report.record(result)
  end
  return csv.text(COLUMNS, records)
end

---@param results TaskHealth[]
---@return string
function report.jsonl(results)
  local lines = {}
  for index, result in ipairs(results) do
    lines[index] = json.encode { id = result.task.id, level = result.task.level, hash = result.task.hash,
      healthy = result.healthy, flaw = result.flaw, findings = json.list(result.findings), facts = result.facts }
  end
  return table.concat(lines, "\n") .. "\n"
end

local function counts(results)
  local by_name = {}
  for _, result in ipairs(results) do
    local seen = {}
    for _, finding in ipairs(result.findings) do
      if not seen[finding.name] then
        seen[finding.name] = true
        by_name[finding.name] = (by_name[finding.name] or 0) + 1
      end
    end
  end
  return by_name
end

--- Tables for people: findings by count, flawed tasks with what was measured.
---@param results TaskHealth[]
---@return {title: string, columns: string[], rows: string[][]}[]
function report.tables(results)
  local by_name, rows, flawed = counts(results), {}, {}
  for _, list in ipairs { health.FLAWS, health.REMARKS } do
    for _, name in ipairs(list) do
      if by_name[name] then
        rows[#rows + 1] = { name, list == health.FLAWS and "flaw" or "remark", tostring(by_name[name]) }
      end
    end
  end
  for _, result in ipairs(results) do
    if not result.healthy then
      local record = report.record(result)
      flawed[#flawed + 1] = { record.id, result.flaw, record.findings:gsub("%s+", " "):sub(1, 100) }
    end
  end
  return {
    { title = "Findings", columns = { "finding", "kind", "tasks" }, rows = rows },
    { title = "Flawed tasks", columns = { "task", "flaw", "measured" }, rows = flawed } }
end

return report
