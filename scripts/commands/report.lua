-- `khost report [RUN] [--output FILE]`: one self-contained HTML page of a run: its tables and, as inline SVG, the
-- curve of every metric.

local config = require "khost.config"
local fs = require "khost.fs"
local log = require "khost.log"
local runs = require "lib.runs"
local svg = require "lib.svg"

local USAGE = [[
usage: khost report [RUN] [--output FILE]

Writes RUN's report (the newest run's without a name) to FILE, else to report.html in the run's folder.]]

local STYLE = [[
body { font: 15px/1.5 system-ui, sans-serif; max-width: 1080px; margin: 2em auto; padding: 0 1em; color: #222; }
h1 { font-size: 1.5em; } h2 { font-size: 1.15em; margin-top: 2em; border-bottom: 1px solid #ddd; }
table { border-collapse: collapse; font-size: 0.9em; }
th, td { padding: 0.2em 0.9em 0.2em 0; text-align: left; white-space: nowrap; } th { color: #666; font-weight: 600; }
tr + tr td { border-top: 1px solid #eee; }
.curves { display: grid; grid-template-columns: repeat(auto-fill, minmax(320px, 1fr)); gap: 1em; }
pre { background: #f6f6f6; padding: 0.8em; overflow-x: auto; font-size: 0.85em; }
.facts { color: #666; }
]]

local escape = svg.escape

local function html_table(tab)
  local out = { "<h2>" .. escape(tab.title) .. "</h2>\n<table><tr>" }
  for _, column in ipairs(tab.columns) do
    out[#out + 1] = "<th>" .. escape(tostring(column)) .. "</th>"
  end
  out[#out + 1] = "</tr>\n"
  for _, row in ipairs(tab.rows) do
    out[#out + 1] = "<tr>"
    for _, cell in ipairs(row) do
      out[#out + 1] = "<td>" .. escape(tostring(cell)) .. "</td>"
    end
    out[#out + 1] = "</tr>\n"
  end
  out[#out + 1] = "</table>\n"
  return table.concat(out)
end

-- The points of every metric of a stage: { {name, points = { {step, value}, … }}, … } in order of first appearance.
local function metric_curves(run, stage)
  local curves, by_name = {}, {}
  local rows = assert(run:query(
    "SELECT name, step, value FROM metrics WHERE stage IS ? AND value IS NOT NULL ORDER BY step, id", { stage }))
  for _, row in ipairs(rows) do
    local curve = by_name[row.name]
    if not curve then
      curve = { name = row.name, points = {} }
      by_name[row.name] = curve
      curves[#curves + 1] = curve
    end
    curve.points[#curve.points + 1] = { row.step or #curve.points, row.value }
  end
  table.sort(curves, function(a, b) return a.name < b.name end)
  return curves
end

local function sections(run)
  local out = {}
  local query = "SELECT stage, min(id) AS first FROM metrics GROUP BY stage ORDER BY first"
  for _, row in ipairs(assert(run:query(query))) do
    out[#out + 1] = "<h2>" .. escape(row.stage or "metrics") .. "</h2>\n<div class=\"curves\">\n"
    for _, curve in ipairs(metric_curves(run, row.stage)) do
      out[#out + 1] = svg.curve(curve.name, curve.points)
    end
    out[#out + 1] = "</div>\n"
  end
  return table.concat(out)
end

--- The page of a run as text.
---@param run khost.Store
---@return string
local function page(run)
  local info = run:info()
  local out = {
    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>", escape(info.id), "</title><style>",
    STYLE, "</style></head><body>\n<h1>", escape(info.id), "</h1>\n<p class=\"facts\">", escape(
      ("recipe %s, preset %s, seed %s, %s%s"):format(info.recipe, info.preset, runs.number(info.seed), info.status,
        info.finished_s and " after " .. runs.duration(info.finished_s - info.started_s) or "")), "</p>\n",
  }
  for _, tab in ipairs(runs.stage_tables(run)) do
    out[#out + 1] = html_table(tab)
  end
  for _, tab in ipairs(runs.tables(run)) do
    out[#out + 1] = html_table(tab)
  end
  out[#out + 1] = sections(run)
  out[#out + 1] = "<h2>Configuration</h2>\n<pre>" .. escape(config.show(info.config)) .. "</pre>\n</body></html>\n"
  return table.concat(out)
end

local function run(arguments)
  local name, output
  local index = 1
  while index <= #arguments do
    local argument = arguments[index]
    if argument == "--help" or argument == "-h" then
      log.print(USAGE)
      return 0
    elseif argument == "--output" and arguments[index + 1] then
      output = arguments[index + 1]
      index = index + 1
    elseif argument:sub(1, 1) == "-" or name then
      fs.eprint(("report: unexpected '%s'\n%s"):format(argument, USAGE) .. "\n")
      return 2
    else
      name = argument
    end
    index = index + 1
  end
  local found, message = runs.open(name ~= "latest" and name or nil)
  if not found then
    fs.eprint("report: " .. message .. "\n")
    return 2
  end
  output = output or found:folder() .. "/report.html"
  local written, why = fs.write(output, page(found))
  if not written then
    fs.eprint("report: " .. why .. "\n")
    return 1
  end
  log.print(output)
  return 0
end

return {
  name = "report",
  summary = "write one self-contained HTML page of a run",
  page = page,
  run = run,
}
