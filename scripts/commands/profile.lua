-- khost profile: where one workspace's kernels spend their time. No reward and no verdict comes of it.
local args = require "lib.args"
local candidate = require "lib.candidate"
local fs = require "khost.fs"
local json = require "khost.json"
local log = require "khost.log"
local profiler = require "khost.profiler"

local OPTIONS = candidate.options("cuda", "cuda: kernel tables by CUPTI; cpu: times only", {
  { name = "--eager-only", kind = "flag", help = "leave torch.compile out, which takes most of a new task's seconds" },
  { name = "--json", kind = "flag", help = "print the whole record" },
})
local ABOUT = { name = "profile", summary = "kernel table, bandwidth and FLOP rate of a workspace's kernels" }

local function run(list)
  local options = args.parse(OPTIONS, list, ABOUT)
  local judge, body = candidate.open(options)
  fs.eprint("khost: starting Python, building, verifying and profiling (a first profile takes about a minute)\n")
  body.against = options.eager_only and "eager" or nil
  local profile, why = profiler.measure(judge, body)
  judge:close()
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
