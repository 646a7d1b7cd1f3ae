-- Many episodes at once, each with a real shell, background commands and files: no output may be lost, and afterwards
-- no process, mount, descriptor or folder may be left.
--
--   ./khost tests/manual/long/episodes.lua [--episodes 256] [--turns 6]
--
-- Prints what it saw; ends with 1 when something was lost or left.
local args = require "lib.args"
local environment = require "agent.environment"
local fs = require "khost.fs"
local loop = require "agent.loop"
local openai = require "chat.openai"
local random = require "lib.random"
local sandbox = require "khost.sandbox"
local sched = require "khost.sched"
local tools = require "agent.tools"

local OPTIONS = {
  { name = "--episodes", kind = "number", default = 256, help = "at the same time" },
  { name = "--turns", kind = "number", default = 6, help = "of each" },
}
local ABOUT = { name = "tests/manual/long/episodes.lua", summary = "many agents at once: nothing lost, nothing left" }
local LINES = 500

local function own_pid() return fs.read("/proc/self/stat"):match("^%d+") end

-- How long daemons of these episodes sleep: a number that no other process has in its command line.
local SLEEP = "3600." .. own_pid()

-- Processes below this one, by the parents that /proc names, and those that got away but say where they are from.
local function processes()
  local parent_of, count = {}, 0
  for _, path in ipairs(fs.glob("/proc/[0-9]*/stat")) do
    local pid, parent = (fs.read(path) or ""):match("^(%d+) %(.-%) %S (%d+)")
    if pid then parent_of[pid] = parent end
  end
  local own = own_pid()
  for pid in pairs(parent_of) do
    local at, steps = pid, 0
    while at and at ~= own and steps < 64 do at, steps = parent_of[at], steps + 1 end
    if pid ~= own and (at == own or (fs.read(("/proc/%s/cmdline"):format(pid)) or ""):find(SLEEP, 1, true)) then
      count = count + 1
    end
  end
  return count
end

local function census()
  local own = own_pid()
  local mounts = fs.read("/proc/self/mounts")
  local folders = 0
  for _, name in ipairs(fs.glob(("/tmp/khost-*-workspaces/%s-*/*"):format(own))) do
    folders = folders + (name ~= "" and 1 or 0)
  end
  return { processes = processes(), mounts = select(2, mounts:gsub("khost%-workspace [^\n]*/" .. own .. "%-", "")),
    descriptors = #fs.glob("/proc/self/fd/*"), folders = folders }
end

-- What an agent says in each turn; the marks show whose output is whose.
local function scripted(number, turns)
  local mark = ("mark-%d"):format(number)
  local function calls(turn)
    local id = ("%d_%d"):format(number, turn)
    if turn == 1 then
      return { { id = id .. "a", name = "Write", arguments = { file_path = "/workspace/kernels/k.cpp",
        content = mark .. "\n" } },
        { id = id .. "b", name = "Bash",
          arguments = { command = ("export MARK=%s; cd kernels; (setsid sleep %s &)"):format(mark, SLEEP) } },
        { id = id .. "c", name = "Bash", arguments = { command = ("seq -f '%s %%g' %d; sleep %s"):format(mark, LINES,
          SLEEP),
          run_in_background = true } } }
    elseif turn == 2 then
      return { { id = id, name = "Bash",
        arguments = { command = ("for i in $(seq %d); do echo $MARK $i; done; exit %d"):format(LINES,
        number % 200) } } }
    elseif turn == 3 then
      return { { id = id .. "a", name = "Read", arguments = { file_path = "/workspace/kernels/k.cpp" } },
        { id = id .. "b", name = "Grep", arguments = { pattern = "mark-", output_mode = "content" } } }
    elseif turn < turns then
      return { { id = id, name = "Bash", arguments = { command = "cat k.cpp; echo $MARK | tee -a k.cpp" } } }
    end
  end
  return { name = "scripted", format = openai, begin = function()
    local turn = 0
    return { draw = function()
      turn = turn + 1
      return { text = "turn " .. turn, calls = calls(turn), cut = false, tokens = 0 }
    end, observe = function() return true end, record = function() return {} end }
  end }
end

local function lines_of(mark)
  local lines = {}
  for i = 1, LINES do lines[i] = mark .. " " .. i end
  return table.concat(lines, "\n") .. "\n"
end

-- What is wrong with what an episode saw.
local function complaint(number, turns, episode, job)
  local mark = ("mark-%d"):format(number)
  local function seen(turn, call) return ((episode.turns[turn].calls or {})[call] or {}).observation or "" end
  if episode.ending ~= "final_answer" then return "ended by " .. episode.ending .. " " .. tostring(episode.error) end
  if seen(2, 1):sub(1, #lines_of(mark)) ~= lines_of(mark) then return "lines of a command are lost" end
  if not seen(2, 1):find(("[exit code %d, "):format(number % 200), 1, true) then return "an exit code is lost" end
  if job ~= lines_of(mark) then
    return ("a background command's output is lost: %d of %d bytes (%s)"):format(#job, #lines_of(mark), seen(1, 3))
  end
  if seen(3, 1) ~= "     1\t" .. mark then return "a file holds something else: " .. seen(3, 1) end
  if seen(3, 2) ~= "/workspace/kernels/k.cpp:1:" .. mark then return "a search found something else: " .. seen(3, 2) end
  for turn = 4, turns - 1 do
    for other in seen(turn, 1):gmatch("mark%-%d+") do
      if other ~= mark then return "output of another episode" end
    end
  end
end

local function play(number, turns)
  local ok, episode, job = pcall(sandbox.within, nil, function(workspace)
    local world = environment.tools(workspace, tools.load(), { respond = openai.respond })
    local episode = loop.run({ policy = scripted(number, turns), environment = world }, {}, random.stream(number))
    local output, deadline = "", sched.now() + 60
    local wanted = #lines_of("mark-" .. number)
    while #output < wanted and sched.now() < deadline do
      local more = world.context.shell and world.context.shell:output("bash_1")
      output = output .. (more and more.output or "")
      sched.sleep(0.05)
    end
    world.close()
    return episode, output
  end, { files = { ["model.py"] = "x\n", ["kernels/.keep"] = "" }, })
  if not ok then return "raised: " .. tostring(episode) end
  if not episode then return "no workspace: " .. tostring(job) end
  return complaint(number, turns, episode, job)
end

local function run(list)
  local options = args.parse(OPTIONS, list, ABOUT)
  play(0, options.turns)  -- what is made once is made now
  sched.sleep(0.5)
  sched.collect_garbage()
  local before, begin, most = census(), sched.now(), { processes = 0, mounts = 0, descriptors = 0, folders = 0 }
  local watcher = sched.every(1, function()
    for name, count in pairs(census()) do most[name] = math.max(most[name], count) end
  end)
  local numbers, wrong = {}, 0
  for i = 1, options.episodes do numbers[i] = i end
  sched.map(numbers, function(number)
    local problem = play(number, options.turns)
    if problem then
      wrong = wrong + 1
      print(("episode %d: %s"):format(number, problem))
    end
  end, { limit = options.episodes })
  watcher:cancel()
  local seconds = sched.now() - begin
  print(("%d episodes of %d turns at once: %.1f s, %d wrong"):format(options.episodes, options.turns, seconds, wrong))
  local deadline, left = sched.now() + 30
  repeat
    sched.collect_garbage()
    sched.sleep(0.25)
    left = census()
    local same = left.processes <= before.processes and left.mounts <= before.mounts and left.folders <= before.folders
      and left.descriptors <= before.descriptors
  until same or sched.now() > deadline
  local leaked = false
  for _, name in ipairs { "processes", "mounts", "folders", "descriptors" } do
    print(("  %-11s before %d, most %d, after %d"):format(name, before[name], most[name], left[name]))
    leaked = leaked or left[name] > before[name]
  end
  return (wrong > 0 or leaked) and 1 or 0
end

return { name = ABOUT.name, summary = ABOUT.summary, options = OPTIONS, run = run }
