-- `khost optimize` as users run it, in processes of its own and with the real judge: a policy behind a server writes,
-- compiles, verifies, times and tunes a kernel; the search is killed in its second episode and goes on with --resume; a
-- model of our own plays one; what was kept is shown and exported.
--
--   ./khost tests/manual/long/optimize.lua          some minutes
local export = require "agent.export.init"
local fs = require "khost.fs"
local json = require "khost.json"
local http = require "khost.http"
local machine = require "khost.machine"
local sched = require "khost.sched"
local server_kit = require "tests.lua.server_kit"
local store = require "khost.store"
local t = require "tests.lua.harness"

local TASK = fs.root() .. "/tests/data/kernels/cpu/good/broadcast_bias/model.py"
local TIMEOUT_S = 1200

local function has(text, part)
  t.is_true(text:find(part, 1, true) ~= nil, ("%q is missing in:\n%s"):format(part, text))
end

local function khost(words)
  local argv = { "/usr/bin/env", "KHOST_ROOT=" .. fs.root(), fs.build_dir() .. "/khost" }
  for _, word in ipairs(words) do argv[#argv + 1] = word end
  local ended, message = machine.run(argv, { timeout_s = TIMEOUT_S, output_bytes = 4e6 })
  if not ended then error(message, 0) end
  return ended.code, ended.output
end

local function run_of(text)
  return text:match(", run (%S+)") or error("no run was named in:\n" .. text, 0)
end

local function trajectories(folder)
  local run = assert(store.open(folder, { read_only = true }))
  local list = {}
  for id in run:each("trajectories", { columns = { "status" } }) do list[#list + 1] = run:get("trajectories", id) end
  run:close()
  return list
end

local function requests(server)
  return json.decode(assert(http.request { url = server.base .. "/kernel/seen" }).body).requests
end

-- Starts a search, kills its process with signal 9 in the second episode, and takes it up again.
local function killed_and_resumed(server, folder)
  local out = folder .. "/out"
  local url = ("endpoint:%s/kernel/v1"):format(server.base)
  local line = ("echo $$ >'%s/pid'; KHOST_ROOT='%s' exec '%s/khost' optimize '%s' --policy '%s' --stream --minutes 60 >'%s/first' 2>&1")
    :format(folder, fs.root(), fs.build_dir(), TASK, url, folder)
  local first = sched.spawn(function() return machine.run({ "/bin/sh", "-c", line }, { timeout_s = TIMEOUT_S }) end)
  local function started() return fs.read(folder .. "/first") or "" end
  t.eventually(function() return requests(server) >= 4 or first:status() ~= "waiting" and first:status() ~= "ready" end,
    TIMEOUT_S)
  t.is_true(requests(server) >= 4, "the search ended before it was killed:\n" .. started())
  machine.run({ "/bin/kill", "-9", (fs.read(folder .. "/pid"):gsub("%s", "")) }, {})
  first:wait()
  local run = run_of(started())
  local path = assert(store.find(fs.root() .. "/runs", run))
  t.expect(#trajectories(path), 1)
  local code, text = khost { "optimize", "--resume", run, "--episodes", "2", "--minutes", "30", "--out", out }
  has(text, "episode 2: ok")
  t.is_true(not text:find("episode 1:", 1, true), "the first episode was played again")
  t.expect(code, 0)
  has(text, "2 episodes, trajectory")
  for _, file in ipairs { "kernels/broadcast_bias.cpp", "best.diff", "verdict.json", "trajectory.json" } do
    t.expect({ file, fs.exists(out .. "/" .. file) }, { file, "file" })
  end
  t.expect(json.decode(fs.read(out .. "/verdict.json")).correct, true)
  has(fs.read(out .. "/best.diff"), "+constexpr int kUnused = 1;")
  local again, last = khost { "optimize", "--resume", run, "--episodes", "2" }
  t.expect(again, 0)
  t.is_true(not last:find("judging", 1, true), "a search that was done played once more")
  return path
end

local function kept(path)
  local list = trajectories(path)
  t.expect(#list, 2)
  for _, trajectory in ipairs(list) do
    t.expect({ trajectory.status, #trajectory.turns, trajectory.verdict.status }, { "final_answer", 3, "ok" })
    local seen = trajectory.turns[2].calls[1].observation
    for _, part in ipairs { "compiled\n", "kUnused = 1", "fastest: kUnused = " } do has(seen, part) end
    t.expect({ #trajectory.head.tools_hash, #trajectory.head.skill_hash, trajectory.usage.prompt_tokens },
      { 64, 64, 300 })
  end
end

local function shown_and_exported(path, folder)
  local code, text = khost { "show", path, "1" }
  t.expect(code, 0)
  for _, part in ipairs { "turn 1", "> Write", "+KHOST_EXPORT(broadcast_bias)", "> Bash", "ok at time" } do
    has(text, part)
  end
  for _, name in ipairs(export.NAMES) do
    local into = folder .. "/" .. name
    code, text = khost { "export", path, "--format", name, "--correct", "--out", into }
    t.expect(code, 0)
    has(text, "2 trajectories, " .. name)
    local format = export.FORMATS[name]
    local files = fs.list(into)
    local body = fs.read(into .. "/" .. files[1])
    t.expect(#files, format.file and 2 or 1)
    local back = format.read(format.file and body or body:match("^[^\n]+"))
    t.expect({ name, #back, back[3].calls[2].name }, { name, 8, "Write" })
  end
end

local function by_own_model()
  local code, text = khost { "optimize", TASK, "--policy", "local:" .. fs.root() .. "/scripts/policies/tiny",
    "--episodes", "1", "--turns", "3" }
  local path = assert(store.find(fs.root() .. "/runs", run_of(text)))
  local trajectory = trajectories(path)[1]
  fs.remove_tree(path)
  t.is_true(trajectory.status ~= "env_error", trajectory.error)
  t.is_true(trajectory.verdict.status ~= "void", trajectory.verdict.detail)
  t.expect(code, trajectory.verdict.correct and 0 or 1)
  local sampled = 0
  for i, bit in ipairs(trajectory.mask) do
    sampled = sampled + bit
    t.is_true(bit == 0 or trajectory.logprobs[i] <= 0, "a log-probability above 0")
  end
  t.expect({ #trajectory.mask, #trajectory.logprobs }, { #trajectory.tokens, #trajectory.tokens })
  t.is_true(sampled > 0, "nothing was sampled")
  print(("local: %s after %d turns, %d tokens, %d of them sampled, verdict %s"):format(trajectory.status,
    #trajectory.turns, #trajectory.tokens, sampled, trajectory.verdict.status))
end

local function what_cannot_begin_leaves_no_run()
  local before = #store.runs(fs.root() .. "/runs")
  t.expect((khost { "optimize", TASK, "--policy", "nonsense" }), 2)
  t.expect((khost { "optimize", fs.root() .. "/tests/data/tasks/planted/syntax_error.py" }), 2)
  t.expect(#store.runs(fs.root() .. "/runs"), before)
end

local function run()
  what_cannot_begin_leaves_no_run()
  local folder = "/tmp/khost-optimize-" .. fs.sha256(tostring(sched.wall_clock())):sub(1, 12)
  assert(fs.mkdirs(folder))
  local path
  server_kit.with(function(server) path = killed_and_resumed(server, folder) end)
  kept(path)
  print "endpoint: killed in the second episode, resumed, delivered"
  shown_and_exported(path, folder)
  print "show and four exports: as kept"
  fs.remove_tree(path)
  by_own_model()
  fs.remove_tree(folder)
  return 0
end

return { name = "tests/manual/long/optimize.lua", summary = "optimize as users run it", run = run }
