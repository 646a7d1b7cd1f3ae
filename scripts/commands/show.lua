-- `khost show [RUN [TRAJECTORY]]`: prints a run, or one of its trajectories, for reading.

local config = require "khost.config"
local fs = require "khost.fs"
local json = require "khost.json"
local log = require "khost.log"
local runs = require "lib.runs"
local store = require "khost.store"

local USAGE = [[
usage: khost show                     all runs
       khost show RUN                 the run: stages, tasks, trajectories, verdicts
       khost show RUN --config        its configuration
       khost show RUN TRAJECTORY      one trajectory: messages, turns, verdict

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

-- Content may be text or parts of the chat format.
local function content_text(content)
  if type(content) == "string" then
    return content
  end
  return content == nil and "" or json.encode(content)
end

local function show_turns(turns)
  for _, turn in ipairs(turns) do
    rule(("turn %d, %s%s"):format(turn.index, turn.role or "assistant", turn.tool and ", " .. turn.tool or ""))
    if turn.text then
      log.print(turn.text)
    end
    if turn.arguments then
      log.print("> " .. json.encode(turn.arguments))
    end
    if turn.observation then
      log.print(turn.observation)
    end
  end
end

local function show_verdict(verdict)
  rule("verdict")
  local times, speedup = verdict.times or {}, verdict.speedup or {}
  log.print(("%s%s%s"):format(verdict.status, verdict.stage and " at " .. verdict.stage or "",
    verdict.reason and verdict.reason ~= "" and ": " .. verdict.reason or ""))
  if times.candidate_s then
    log.print(("candidate %s, eager %s (%sx), compile %s (%sx)"):format(runs.duration(times.candidate_s),
      runs.duration(times.eager_s), runs.number(speedup.eager), runs.duration(times.compile_s),
      runs.number(speedup.compile)))
  end
  if verdict.detail and verdict.detail ~= "" then
    log.print(verdict.detail)
  end
  local files = type(verdict.files) == "table" and verdict.files or {}
  for path, text in pairs(files) do
    rule(path)
    log.print(text)
  end
end

local function show_trajectory(run, id)
  local episode = run:get("trajectories", id)
  if not episode then
    local last = run:query("SELECT max(id) AS id FROM trajectories")[1].id
    fs.eprint(("show: the run has no trajectory %s; the last is %s\n"):format(runs.number(id), runs.number(last)))
    return 2
  end
  log.print(("trajectory %d: %s step %s index %s, task %s, %s, reward %s, %s tokens, script %s"):format(id,
    episode.stage, runs.number(episode.step), runs.number(episode.index), episode.task or "-",
    episode.status or "-", runs.number(episode.reward), runs.number(episode.token_count),
    (episode.script_hash or "-"):sub(1, 12)))
  if type(episode.messages) == "table" and #episode.messages > 0 then
    for _, message in ipairs(episode.messages) do
      rule(message.role or "message")
      log.print(content_text(message.content))
      if message.tool_calls then
        log.print("> " .. json.encode(message.tool_calls))
      end
    end
  else
    show_turns(episode.turns)
  end
  if episode.verdict then
    show_verdict(episode.verdict)
  end
  return 0
end

local function run(arguments)
  local names, with_config = {}, false
  for _, argument in ipairs(arguments) do
    if argument == "--help" or argument == "-h" then
      log.print(USAGE)
      return 0
    elseif argument == "--config" then
      with_config = true
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
  return show_trajectory(found, id)
end

return {
  name = "show",
  summary = "print a run, or one of its trajectories, for reading",
  run = run,
}
