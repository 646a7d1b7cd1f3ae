-- What the script side costs: `khost tests/manual/bench/lua.lua`. An idle episode is a task with three messages, a workspace
-- and a call that waits; targets: 10,000 of them under 20 MB, a resume under 20 µs.
local log = require "khost.log"
local sandbox = require "khost.sandbox"
local sched = require "khost.sched"

local EPISODES = 10000
local ROUNDS = 20
local WORKSPACES = 1000  -- real ones, by which a handle is measured: ten thousand would be as many mounts and users

local function episode(gate, id)
  local state = {
    id = id,
    messages = {
      { role = "system", content = "You write kernels." },
      { role = "user", content = "Task " .. id },
      { role = "assistant", content = "I look at model.py first." },
    },
  }
  gate()
  return state
end

-- Bytes of scripts, and of the whole process: the difference is what C++ holds for them.
local function memory()
  sched.collect_garbage()
  sched.collect_garbage()
  local stats = sched.stats()
  return stats.memory_bytes, stats.heap_bytes
end

-- What one workspace handle takes in this process, its object in C++ included.
local function handle_bytes()
  local function opened() return assert(sandbox.workspace(nil, { files = { ["model.py"] = "" } })) end
  opened():close()  -- what is made once
  local list, _, before = {}, memory()
  for i = 1, WORKSPACES do
    list[i] = opened()
  end
  local _, after = memory()
  for _, workspace in ipairs(list) do workspace:close() end
  return math.max(0, after - before) / WORKSPACES
end

local function idle_memory()
  local function pending() sched.sleep(3600) end
  local handle = handle_bytes()
  local tasks, scripts, heap = {}, memory()
  for i = 1, EPISODES do
    tasks[i] = sched.spawn(episode, pending, i)
  end
  sched.sleep(0)
  while sched.stats().ready > 1 do sched.sleep(0) end
  local scripts_after, heap_after = memory()
  for _, task in ipairs(tasks) do task:cancel() end
  for _, task in ipairs(tasks) do task:wait() end
  local function line(what, bytes)
    log.print(("%-18s %5.1f MB (%.0f bytes each)"):format(what, bytes / 1e6, bytes / EPISODES))
  end
  log.print(("idle episodes      %d"):format(EPISODES))
  line("  in Lua", scripts_after - scripts)
  line("  in the process", heap_after - heap)
  line("  with workspaces", heap_after - heap + EPISODES * handle)
end

local function waiting_calls(name, call)
  local began = sched.now()
  local before = sched.stats().resumes
  sched.map({ 1, 2, 3, 4, 5, 6, 7, 8 }, function()
    for _ = 1, EPISODES * ROUNDS / 8 do call() end
  end)
  local seconds, resumes = sched.now() - began, sched.stats().resumes - before
  log.print(("%-18s %.0f resumes/s, %.2f us each"):format(name, resumes / seconds, seconds / resumes * 1e6))
end

local function hand_over()
  local there, back = sched.channel(1), sched.channel(1)
  local echo = sched.spawn(function()
    while true do
      local value = there:take()
      if value == nil then return end
      back:put(value)
    end
  end)
  local began, n = sched.now(), 20000
  for i = 1, n do
    there:put(i)
    back:take()
  end
  local seconds = sched.now() - began
  there:close()
  echo:wait()
  log.print(("channel round trip %.2f us"):format(seconds / n * 1e6))
end

return {
  name = "bench lua",
  summary = "memory of idle episodes and the cost of waiting calls",
  run = function()
    idle_memory()
    waiting_calls("timer (sleep 0)", function() sched.sleep(0) end)
    hand_over()
  end,
}
