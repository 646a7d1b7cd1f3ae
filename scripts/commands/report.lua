-- `khost report RUN...`: one self-contained HTML page of a run, or of several side by side.

local args = require "lib.args"
local fs = require "khost.fs"
local log = require "khost.log"
local page = require "report.page"
local runs = require "run.runs"

local OPTIONS = {
  { name = "run", kind = "list", default = { "latest" }, help = "a folder, an id, a part of one, or latest; "
    .. "several are shown side by side" },
  { name = "--output", kind = "text", help = "the file; report.html in the first run's folder when absent" },
}
local ABOUT = { name = "report", summary = "write one self-contained HTML page of runs", notes = [[
The page needs no network: stages, curves, rewards, verdicts and the watch over them, reasons, kernels beside the
reference, and trajectories to read. Of large stores it holds a sample and says so. The first call fetches Chart.js
(200 kB) into khost's cache; where that fails, charts are tables. `khost watch RUN` shows a run that is going on.]] }

-- Opens the runs by name, or ends with the code of misuse.
local function open_all(names)
  local list = {}
  for index, name in ipairs(names) do
    local found, message = runs.open(name ~= "latest" and name or nil)
    if not found then
      args.misuse("report: " .. message)
    end
    list[index] = found
  end
  return list
end

local function run(arguments)
  local options = args.parse(OPTIONS, arguments, ABOUT)
  local stores = open_all(options.run)
  local output = options.output or stores[1]:folder() .. "/report.html"
  local written, why = page.write(output, stores)
  if not written then
    fs.eprint("report: " .. why .. "\n")
    return 1
  end
  log.print(output)
  return 0
end

return { name = ABOUT.name, summary = ABOUT.summary, open_all = open_all, run = run }
