-- One self-contained HTML page of the run, and where its time went.

local page = require "report.page"
local pipeline = require "lib.pipeline"
local runs = require "lib.runs"

local stage = { name = "report", summary = "the run as one page" }

local function times(run)
  local rows, total = {}, 0
  for _, row in ipairs(assert(run.store:list("stages"))) do
    if row.status == "done" and row.result and row.result.seconds then
      rows[#rows + 1] = { row.name, runs.duration(row.result.seconds) }
      total = total + row.result.seconds
    end
  end
  rows[#rows + 1] = { "sum", runs.duration(total) }
  return { title = "Time by stage", columns = { "stage", "time" }, rows = rows }
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
