-- khost optimize: one operator in; the best verified kernel, its difference, verdict and trajectory out.
local args = require "lib.args"
local candidate = require "lib.candidate"
local diff = require "lib.diff"
local formats = require "chat.formats"
local fs = require "khost.fs"
local json = require "khost.json"
local client = require "judge.client"
local config = require "khost.config"
local log = require "khost.log"
local named = require "policies.named"
local runs = require "run.runs"
local search = require "agent.search"
local store = require "khost.store"
local tools = require "agent.tools"

local OPTIONS = {
  { name = "task", help = "the operator's Python file: Model, get_inputs, get_init_inputs" },
  { name = "--policy", kind = "text", default = "expert", help = named.FORMS },
  { name = "--minutes", kind = "number", default = 10, help = "of all episodes together" },
  { name = "--episodes", kind = "number", help = "at most so many; as many as there is time for when absent" },
  { name = "--turns", kind = "number", default = 200, help = "of an episode" },
  { name = "--model", kind = "text", help = "of an endpoint; the first that it lists when absent" },
  { name = "--format", kind = "text", help = "how answers name calls, one of " .. formats.NAMES },
  { name = "--stream", kind = "flag", help = "ask an endpoint for streams" },
  { name = "--temperature", kind = "number", help = "the server's own when absent" },
  { name = "--context", kind = "number", default = 131072, help = "tokens of an episode" },
  { name = "--target", kind = "text", default = "cpu", help = "cpu or cuda" },
  { name = "--tolerance", kind = "text", default = "calibrated", help = "calibrated, strict or paper" },
  { name = "--threads", kind = "number", default = 1, help = "threads of the kernel and of its baselines" },
  { name = "--seed", kind = "number", default = 0, help = "of the policy's draws" },
  { name = "--out", kind = "text", help = "folder for the result; the run's own when absent" },
  { name = "--resume", kind = "text", optional_value = "latest", help = "go on with a search that was stopped" },
}
local ABOUT = { name = "optimize", summary = "searches the fastest verified kernel for one operator" }
-- What a resumed search takes from the run instead of from the command line.
local KEPT = { "policy", "turns", "model", "format", "stream", "temperature", "context", "target", "tolerance",
  "threads", "seed" }

local function say(text)
  fs.eprint("khost: " .. text .. "\n")
end

-- What a search is of, from the command line.
local function settings_of(options)
  if not options.task then args.misuse("task is missing: the operator's Python file (--help says more)") end
  local source = candidate.task(options.task)
  local settings = { task = options.task:match("([^/]*)%.py$") or options.task:match("[^/]*$"), source = source }
  for _, key in ipairs(KEPT) do settings[key] = options[key] end
  return settings
end

local function new_run(options, settings)
  local run, why = store.create(runs.root(), { name = "optimize-" .. settings.task:gsub("[^%w_-]", "-"),
    recipe = "optimize", seed = options.seed, config = { policy = options.policy, minutes = options.minutes } })
  if not run then args.misuse(why) end
  assert(run:put("state", "optimize", settings))
  return run
end

-- The newest run of this command.
local function newest()
  local folders = store.runs(runs.root())
  for index = #folders, 1, -1 do
    if folders[index]:match("[^/]*$"):find("-optimize-", 1, true) then return folders[index] end
  end
  return nil, "there is no run of optimize in " .. runs.root()
end

local function old_run(options)
  local folder, message
  if options.resume == "latest" then
    folder, message = newest()
  else
    folder, message = store.find(runs.root(), options.resume)
  end
  if not folder then args.misuse("--resume: " .. message) end
  local run, why = store.open(folder)
  if not run then args.misuse("--resume: " .. why) end
  local settings = run:get("state", "optimize")
  if not settings then args.misuse(("--resume: %s is no run of optimize"):format(folder)) end
  return run, settings
end

local function write(folder, path, text)
  local target = folder .. "/" .. path
  assert(fs.mkdirs(target:match("^(.*)/")))
  assert(fs.write(target, text))
end

-- The kernel, what it changed, why it is believed, and how it came about.
local function deliver(folder, run, best)
  for path, text in pairs(best.files) do write(folder, path, text) end
  write(folder, "best.diff", diff.files(best.start, best.files))
  write(folder, "verdict.json", json.encode(best.verdict, true) .. "\n")
  write(folder, "trajectory.json", json.encode(run:get("trajectories", best.trajectory), true) .. "\n")
end

local function milliseconds(seconds) return seconds and ("%.3f ms"):format(seconds * 1e3) or "-" end

local function tell(best, folder, run, episodes)
  local verdict = best.verdict
  local times, speedup, faster = verdict.times, verdict.speedup, verdict.faster or {}
  log.print(("OK  candidate %s"):format(milliseconds(times.candidate_s)))
  for _, side in ipairs { "eager", "compile" } do
    if speedup[side] then
      log.print(("  %-8s %s  %.2fx  %s"):format(side, milliseconds(times[side .. "_s"]), speedup[side],
        faster[side] and "faster by more than 5 %" or "not faster by more than 5 %"))
    end
  end
  log.print(("  %d episodes, trajectory %d of %s"):format(episodes, best.trajectory, run:info().id))
  log.print(("  %s: kernels, best.diff, verdict.json, trajectory.json"):format(folder))
end

local function task_of(judge, settings)
  local task = { id = fs.sha256(settings.source), name = settings.task, source = settings.source }
  local graph, message, code = judge:trace(task)
  if not graph and code == "bad_task" then args.misuse(("%s: %s"):format(settings.task, message)) end
  task.graph = graph
  if not graph and settings.policy == "expert" then
    args.misuse(("%s cannot be traced, which the expert needs: %s"):format(settings.task, message))
  end
  return task
end

local function run(list)
  local options = args.parse(OPTIONS, list, ABOUT)
  candidate.check_target(options.target)
  if options.resume == "latest" and options.task and not options.task:find("%.py$") then
    options.resume, options.task = options.task, nil  -- `--resume RUN` as well as `--resume=RUN`
  end
  if options.resume and options.task then
    args.misuse("--resume takes the operator from the run: leave the file out")
  end
  local kept, settings
  if options.resume then
    kept, settings = old_run(options)
  else
    settings = settings_of(options)
  end
  local machine, problem = config.load {}
  if not machine then args.misuse(problem) end
  local judge, unavailable = client.open(config.plain(machine), { jobs = 1, tolerance = settings.tolerance,
    threads = settings.threads, target = settings.target })
  if not judge then args.misuse(unavailable) end
  local policy, message, code = named.open(settings.policy, { toolset = tools.load(), target = settings.target,
    machine = config.plain(machine).machine, model = settings.model, format = settings.format,
    stream = settings.stream, temperature = settings.temperature, context = settings.context })
  if not policy then
    judge:close()
    args.misuse((code == "bad_input" and "--policy: " or "") .. message)
  end
  local task = task_of(judge, settings)
  kept = kept or new_run(options, settings)  -- what cannot begin leaves no run
  say(("%s with %s, run %s"):format(settings.task, policy.name, kept:info().id))
  local best, episodes, trouble = search.run { run = kept, judge = judge, policy = policy, task = task,
    target = settings.target, limits = config.plain(machine).limits, seconds = options.minutes * 60,
    turns = settings.turns, episodes = options.episodes, seed = settings.seed, say = say }
  judge:close()
  if trouble then say("the policy failed: " .. trouble) end
  kept:finish((trouble or not best) and "failed" or "done")
  if not best then
    say(("no correct kernel in %d episodes; `khost show %s` shows why"):format(episodes, kept:info().id))
    kept:close()
    return 1
  end
  local folder = options.out or kept:folder() .. "/best"
  deliver(folder, kept, best)
  tell(best, folder, kept, episodes)
  kept:close()
  return 0
end

return { name = "optimize", summary = ABOUT.summary, options = OPTIONS, run = run }
