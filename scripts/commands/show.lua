-- `khost show [RUN [TRAJECTORY]]`: prints a run, or one of its trajectories, for reading.

local config = require "khost.config"
local fs = require "khost.fs"
local log = require "khost.log"
local runs = require "run.runs"
local store = require "khost.store"
local terminal = require "khost.terminal"
local transcript = require "lib.transcript"

local USAGE = [[
usage: khost show                     all runs
       khost show RUN                 the run: stages, tasks, trajectories, verdicts
       khost show RUN --config        its configuration
       khost show RUN TRAJECTORY      one trajectory: messages, calls, changed files, verdict
       khost show RUN TRAJECTORY --all   and nothing of it left out

RUN is a folder, an id, a part of one, or "latest".]]

local function rule(title)
  log.print(("\n-- %s %s"):format(title, ("-"):rep(math.max(0, 96 - #title))))
end

local function print_table(tab)
  local widths = {}
  local function widen(cells)
    for index, cell in ipairs(cells) do
      widths[index] = math.max(widths[index] or 0, #tostring(cell))
    end
  end
  widen(tab.columns)
  for _, row in ipairs(tab.rows) do
    widen(row)
  end
  local function line(cells)
    local parts = {}
    for index, cell in ipairs(cells) do
      parts[index] = ("%-" .. widths[index] .. "s"):format(tostring(cell))
    end
    return (table.concat(parts, "  "):gsub("%s+$", ""))
  end
  rule(tab.title)
  log.print(line(tab.columns))
  for _, row in ipairs(tab.rows) do
    log.print(line(row))
  end
end

local function show_all()
  local folders = store.runs(runs.root())
  if #folders == 0 then
    log.print("there are no runs in " .. runs.root())
  end
  for _, folder in ipairs(folders) do
    local run = store.open(folder, { read_only = true })
    local info = run and run:info() or {}
    log.print(("%-44s %-8s %-7s seed %s"):format(info.id or folder, info.status or "?",
      info.preset ~= "" and info.preset or "-", runs.number(info.seed)))
    if run then
      run:close()
    end
  end
end

local function show_run(run)
  local info = run:info()
  log.print(("%s: %s, recipe %s, preset %s, seed %s, %s"):format(info.id, info.status, info.recipe, info.preset,
    runs.number(info.seed), info.finished_s and runs.duration(info.finished_s - info.started_s) or "not finished"))
  for _, tab in ipairs(runs.tables(run)) do
    print_table(tab)
  end
  for _, tab in ipairs(runs.stage_tables(run)) do
    print_table(tab)
  end
end

local function show_trajectory(run, id, all)
  local episode = run:get("trajectories", id)
  if not episode then
    local last = run:query("SELECT max(id) AS id FROM trajectories")[1].id
    fs.eprint(("show: the run has no trajectory %s; the last is %s\n"):format(runs.number(id), runs.number(last)))
    return 2
  end
  terminal.page(transcript.text(episode, { colour = terminal.colour(), width = terminal.width(), all = all }))
  return 0
end

local function run(arguments)
  local names, with_config, all = {}, false, false
  for _, argument in ipairs(arguments) do
    if argument == "--help" or argument == "-h" then
      log.print(USAGE)
      return 0
    elseif argument == "--config" then
      with_config = true
    elseif argument == "--all" then
      all = true
    elseif argument:sub(1, 1) == "-" or #names == 2 then
      fs.eprint(("show: unexpected '%s'\n%s"):format(argument, USAGE) .. "\n")
      return 2
    else
      names[#names + 1] = argument
    end
  end
  if #names == 0 then
    show_all()
    return 0
  end
  local found, message = runs.open(names[1] ~= "latest" and names[1] or nil)
  if not found then
    fs.eprint("show: " .. message .. "\n")
    return 2
  end
  if with_config then
    log.print(config.show(found:info().config))
    return 0
  end
  if not names[2] then
    show_run(found)
    return 0
  end
  local id = tonumber(names[2])
  if not id then
    fs.eprint(("show: '%s' is not the number of a trajectory"):format(names[2]) .. "\n")
    return 2
  end
  return show_trajectory(found, id, all)
end

return {
  name = "show",
  summary = "print a run, or one of its trajectories, for reading",
  run = run,
}
