-- One self-contained HTML page of the run, and where its time went.

local ledger = require "training.ledger"
local page = require "report.page"
local pipeline = require "run.pipeline"
local runs = require "run.runs"

local stage = { name = "report", summary = "the run as one page" }

local function times(run)
  local rows, total, planned = {}, { wall = 0 }, run.store:get("state", "plan") or { stages = {} }
  local columns = { "stage", "time", "planned" }
  for index, part in ipairs(ledger.ORDER) do
    columns[index + 3] = ledger.NAMES[part]
  end
  local function add(name, spent, plan_s)
    local row = { name, runs.duration(spent.wall), runs.duration(plan_s) }
    for _, part in ipairs(ledger.ORDER) do
      row[#row + 1] = spent[part] and runs.duration(spent[part]) or "-"
    end
    rows[#rows + 1] = row
  end
  for _, row in ipairs(assert(run.store:list("stages"))) do
    if row.status == "done" and row.result and row.result.seconds then
      local spent = row.result.spent or { wall = row.result.seconds }
      add(row.name, spent, planned.stages[row.name])
      for part, seconds in pairs(spent) do
        total[part] = (total[part] or 0) + seconds
      end
    end
  end
  add("sum", total, planned.seconds)
  return { title = "Where time went", columns = columns, rows = rows }
end

function stage.execute(run)
  local counts = run.judging:counts()
  local spent = times(run)
  local judged = { title = "Verdicts of this process", columns = { "asked", "reused", "seconds each" },
    rows = { { tostring(counts.asked), tostring(counts.reused),
      counts.asked > 0 and ("%.2f"):format(counts.seconds / counts.asked) or "-" } } }
  local path = run.folder .. "/report.html"
  assert(page.write(path, { run.store }))
  return { page = path, tables = { spent, judged } }
end

return pipeline.standalone(stage)
