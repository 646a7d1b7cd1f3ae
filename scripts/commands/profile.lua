-- khost profile: where one workspace's kernels spend their time. No reward and no verdict comes of it.
local args = require "lib.args"
local candidate = require "lib.candidate"
local config = require "khost.config"
local fs = require "khost.fs"
local json = require "khost.json"
local judge = require "khost.judge"
local log = require "khost.log"
local profiler = require "khost.profiler"

local OPTIONS = candidate.options("cuda", "cuda: kernel tables by CUPTI; cpu: times only", {
  { name = "--eager-only", kind = "flag", help = "leave torch.compile out, which takes most of a new task's seconds" },
  { name = "--json", kind = "flag", help = "print the whole record" },
})
local ABOUT = { name = "profile", summary = "kernel table, bandwidth and FLOP rate of a workspace's kernels" }

local function run(list)
  local options = args.parse(OPTIONS, list, ABOUT)
  local machine, problem = config.load {}
  if not machine then args.misuse(problem) end
  candidate.check_target(options.target)
  local source = candidate.task(options.task)
  local files = candidate.files(options.workspace, options.target)

  local process, unavailable = judge.open { jobs = 1, limits = machine.limits }
  if not process then args.misuse(unavailable) end
  fs.eprint("khost: starting Python, building, verifying and profiling (a first profile takes about a minute)\n")
  local profile, why = profiler.measure(process, { task = { source = source, name = options.task }, files = files,
    target = options.target, tolerance = options.tolerance or machine.judge.tolerance,
    threads = options.threads or machine.judge.threads, against = options.eager_only and "eager" or nil })
  process:close()
  if not profile then error(("%s: %s"):format(options.task, why), 0) end
  if options.json then
    log.print(json.encode(profile, true))
  else
    log.print((profile.text:gsub("\n$", "")))
    if not profile.available then log.print(("no kernel table: %s"):format(profile.why)) end
  end
  return profile.ok and 0 or 1
end

return { name = "profile", summary = ABOUT.summary, options = OPTIONS, run = run }
