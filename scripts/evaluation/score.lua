-- Prints the rows of the paper's table 1, which evaluation.metrics computes.

local score = {}

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
