-- The figures of the paper's table 1 over a set of verdicts: pass rate, faster rate and geometric-mean speed-up against
-- eager and compile (definitions: KernelBench's score.py; a speed-up counts for correct and timed candidates only).
local verdicts = require "judge.verdict"

local score = {}

-- The geometric mean of positive numbers; nil for none.
function score.geometric_mean(values)
  if #values == 0 then return nil end
  local sum = 0
  for _, value in ipairs(values) do
    if not (value > 0 and value < math.huge) then
      error(("geometric_mean: a positive finite number expected, got %s"):format(tostring(value)), 2)
    end
    sum = sum + math.log(value)
  end
  return math.exp(sum / #values)
end

-- { tasks, pass_rate, faster = { eager, compile }, speedup = { eager, compile } }; verdicts that do not count are in no rate.
function score.table1(list)
  local tasks, passed = 0, 0
  local faster, speedups = { eager = 0, compile = 0 }, { eager = {}, compile = {} }
  for _, verdict in ipairs(list) do
    if verdicts.counts(verdict) then
      tasks = tasks + 1
      passed = passed + (verdicts.passed(verdict) and 1 or 0)
      for side, ratios in pairs(speedups) do
        if verdicts.is_faster(verdict, side) then faster[side] = faster[side] + 1 end
        ratios[#ratios + 1] = verdicts.speedup(verdict, side)
      end
    end
  end
  local function rate(n) return tasks > 0 and n / tasks or 0 end
  return {
    tasks = tasks,
    pass_rate = rate(passed),
    faster = { eager = rate(faster.eager), compile = rate(faster.compile) },
    speedup = { eager = score.geometric_mean(speedups.eager), compile = score.geometric_mean(speedups.compile) },
  }
end

local function percent(x) return ("%.1f %%"):format(100 * x) end
local function times(x) return x and ("%.2fx"):format(x) or "-" end

score.columns = { "policy", "tasks", "pass", "faster than eager", "faster than compile", "x eager", "x compile" }

function score.row(name, result)
  return { name, tostring(result.tasks), percent(result.pass_rate), percent(result.faster.eager),
    percent(result.faster.compile), times(result.speedup.eager), times(result.speedup.compile) }
end

-- Rows of texts as aligned columns.
function score.text(columns, rows)
  local widths, lines = {}, {}
  for i, name in ipairs(columns) do widths[i] = #name end
  for _, row in ipairs(rows) do
    for i, text in ipairs(row) do widths[i] = math.max(widths[i], #text) end
  end
  local function line(row)
    local parts = {}
    for i, text in ipairs(row) do parts[i] = text .. (" "):rep(widths[i] - #text) end
    return (table.concat(parts, "  "):gsub("%s+$", ""))
  end
  lines[1] = line(columns)
  local rule = {}
  for i, width in ipairs(widths) do rule[i] = ("-"):rep(width) end
  lines[2] = table.concat(rule, "  ")
  for _, row in ipairs(rows) do lines[#lines + 1] = line(row) end
  return table.concat(lines, "\n")
end

return score
