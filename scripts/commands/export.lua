-- khost export: the trajectories of a run in forms that other programs read.
local args = require "lib.args"
local export = require "agent.export.init"
local fs = require "khost.fs"
local log = require "khost.log"
local runs = require "run.runs"
local verdicts = require "judge.verdict"

local OPTIONS = {
  { name = "run", required = true, help = "a folder, an id, a part of one, or latest" },
  { name = "--format", kind = "text", default = "openai", help = table.concat(export.NAMES, ", ") },
  { name = "--stage", kind = "text", help = "of this stage only" },
  { name = "--trajectory", kind = "number", help = "this one only" },
  { name = "--correct", kind = "flag", help = "those whose kernel was correct only" },
  { name = "--out", kind = "text", help = "folder; the run's own folder export/ when absent" },
}
local ABOUT = { name = "export", summary = "writes a run's trajectories in forms that other programs read" }

local function wanted(run, options)
  local ids = {}
  for id, trajectory in run:each("trajectories", { columns = { "stage", "status" },
    where = options.stage and { stage = options.stage } or nil }) do
    if not options.trajectory or options.trajectory == id then ids[#ids + 1] = trajectory.id or id end
  end
  return ids
end

local function run(list)
  local options = args.parse(OPTIONS, list, ABOUT)
  local format = export.FORMATS[options.format]
  if not format then
    args.misuse(("--format %s: %s expected"):format(options.format, table.concat(export.NAMES, ", ")))
  end
  local opened, message = runs.open(options.run ~= "latest" and options.run or nil)
  if not opened then args.misuse(message) end
  local folder = options.out or opened:folder() .. "/export"
  assert(fs.mkdirs(folder))
  local lines, count = {}, 0
  for _, id in ipairs(wanted(opened, options)) do
    local trajectory = opened:get("trajectories", id)
    if not options.correct or (trajectory.verdict and verdicts.passed(trajectory.verdict)) then
      count = count + 1
      local text = format.write(trajectory)
      if format.file then
        assert(fs.write(("%s/%s"):format(folder, format.file:format(id)), text .. "\n"))
      else
        lines[#lines + 1] = text
      end
    end
  end
  if not format.file then
    assert(fs.write(folder .. "/trajectories.jsonl", table.concat(lines, "\n") .. (#lines > 0 and "\n" or "")))
  end
  log.print(("%d trajectories, %s, in %s"):format(count, options.format, folder))
  opened:close()
  return count > 0 and 0 or 1
end

return { name = "export", summary = ABOUT.summary, options = OPTIONS, run = run }
