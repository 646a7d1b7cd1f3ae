-- khost evaluate: one verdict on one workspace.
local args = require "lib.args"
local candidate = require "lib.candidate"
local config = require "khost.config"
local fs = require "khost.fs"
local json = require "khost.json"
local judge = require "khost.judge"
local log = require "khost.log"

local OPTIONS = candidate.options("cpu", "cpu, or cuda on a machine with an NVIDIA GPU", {
  { name = "--no-measure", kind = "flag", help = "verify only" },
  { name = "--require", kind = "text", help = "exit 1 unless reached: compile:1.05 or eager:2" },
  { name = "--json", kind = "flag", help = "print the whole record" },
})
local ABOUT = { name = "evaluate", summary = "builds, verifies and times a workspace's kernels" }
local TOLERANCES = { calibrated = true, strict = true, paper = true }

local function parse_require(text)
  if not text then return nil end
  local side, least = text:match("^(%a+):([%d%.]+)$")
  if (side ~= "compile" and side ~= "eager") or not tonumber(least) then
    args.misuse(("--require %s: compile:FACTOR or eager:FACTOR expected, for example compile:1.05"):format(text))
  end
  return side, tonumber(least)
end

local function milliseconds(seconds) return seconds and ("%.3f ms"):format(seconds * 1e3) or "not timed" end

local function print_verdict(verdict)
  log.print(("%s  (%s%s)"):format(verdict.status:upper(), verdict.stage,
    verdict.reason ~= "" and ": " .. verdict.reason or ""))
  if verdict.detail ~= "" then log.print("  " .. verdict.detail:gsub("\n", "\n  ")) end
  if verdict.times.candidate_s then
    log.print(("  candidate  %s"):format(milliseconds(verdict.times.candidate_s)))
    for _, side in ipairs { "eager", "compile" } do
      if verdict.speedup[side] then
        log.print(("  %-9s  %s  %.2fx  %s"):format(side, milliseconds(verdict.times[side .. "_s"]), verdict.speedup[side],
          verdict.faster[side] and "faster by more than 5 %" or "not faster by more than 5 %"))
      end
    end
    log.print(("  slack %.0f us, tolerance %s"):format(verdict.slack_s * 1e6, tostring(verdict.evidence.tolerance)))
  elseif verdict.correct then
    log.print(("  correct, not timed; tolerance %s"):format(tostring(verdict.evidence.tolerance)))
  end
end

local function run(list)
  local options = args.parse(OPTIONS, list, ABOUT)
  local machine, problem = config.load {}
  if not machine then args.misuse(problem) end
  options.tolerance = options.tolerance or machine.judge.tolerance
  options.threads = options.threads or machine.judge.threads
  candidate.check_target(options.target)
  if not TOLERANCES[options.tolerance] then
    args.misuse(("--tolerance %s: calibrated, strict or paper expected"):format(options.tolerance))
  end
  local side, least = parse_require(options.require)
  local source = candidate.task(options.task)
  local files = candidate.files(options.workspace, options.target)

  local process, unavailable = judge.open { jobs = 1, limits = machine.limits }
  if not process then args.misuse(unavailable) end
  fs.eprint("khost: starting Python, building and verifying (a first verdict takes about 20 s)\n")
  local verdict, why = process:request("evaluate", {
    task = { source = source, name = options.task },
    target = options.target, files = files, tolerance = options.tolerance, threads = options.threads,
    measure = not options.no_measure,
  })
  process:close()
  if not verdict then error(("%s: %s"):format(options.task, why), 0) end
  if options.json then log.print(json.encode(verdict, true)) else print_verdict(verdict) end
  if side then
    local reached = verdict.status == "ok" and verdict.speedup[side] or 0
    if reached < least then
      fs.eprint(("khost: %s:%g was required, %.3f was reached\n"):format(side, least, reached))
      return 1
    end
  end
  return 0
end

return { name = "evaluate", summary = ABOUT.summary, options = OPTIONS, run = run }
