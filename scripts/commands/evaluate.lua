-- khost evaluate: one verdict on one workspace.
local args = require "lib.args"
local candidate = require "lib.candidate"
local fs = require "khost.fs"
local json = require "khost.json"
local log = require "khost.log"
local verdicts = require "judge.verdict"

local OPTIONS = candidate.options("cpu", "cpu, or cuda on a machine with an NVIDIA GPU", {
  { name = "--no-measure", kind = "flag", help = "verify only" },
  { name = "--require", kind = "text", help = "compile:1.05 or eager:2; without it exit 1,"
    .. " and 3 if the speed is unresolved" },
  { name = "--json", kind = "flag", help = "print the whole record" },
})
local ABOUT = { name = "evaluate", summary = "builds, verifies and times a workspace's kernels", notes = [[
exit codes: 0 correct, and --require reached; 1 not correct, or --require missed; 2 misuse;
  3 no verdict on the kernel: the judge failed, the task cannot be judged, or --require with an unresolved speed]] }

local function parse_require(text)
  if not text then return nil end
  local side, least = text:match("^(%a+):([%d%.]+)$")
  if (side ~= "compile" and side ~= "eager") or not tonumber(least) then
    args.misuse(("--require %s: compile:FACTOR or eager:FACTOR expected, for example compile:1.05"):format(text))
  end
  return { side = side, least = tonumber(least) }
end

local UNRESOLVED = {
  short_baseline = "a baseline is shorter than 20 times the clock's slack, so nothing is said about speed",
  no_baseline = "no baseline could be measured",
  disturbed = "other programs had the kernel's core while it or a baseline was timed;"
    .. " ask again when the machine is quiet",
  constant_task = "the task's inputs and weights contain nothing random, or take few values, so an answer can be replayed",
}

local function milliseconds(seconds) return seconds and ("%.3f ms"):format(seconds * 1e3) or "not timed" end

local function print_verdict(verdict)
  log.print(("%s  (%s%s)"):format(verdict.status:upper(), verdict.stage,
    verdict.reason ~= "" and ": " .. verdict.reason or ""))
  log.print(("  rules %s%s"):format(verdict.rules or "own", verdict.own_share
    and (", %.0f %% of the time in its own kernels"):format(100 * verdict.own_share) or ""))
  if verdict.detail ~= "" then log.print("  " .. verdict.detail:gsub("\n", "\n  ")) end
  if verdict.times.candidate_s then
    log.print(("  candidate  %s"):format(milliseconds(verdict.times.candidate_s)))
    for _, side in ipairs { "eager", "compile" } do
      if verdict.speedup[side] then
        log.print(("  %-9s  %s  %.2fx  %s"):format(side, milliseconds(verdict.times[side .. "_s"]),
          verdict.speedup[side], verdict.speed == "unresolved" and "unresolved"
            or verdicts.is_faster(verdict, side) and "faster by more than 5 %"
            or "not faster by more than 5 %"))
      end
    end
    if verdict.speed == "unresolved" then
      log.print(("  the speed is unresolved: %s"):format(UNRESOLVED[verdict.speed_reason] or verdict.speed_reason))
    end
    log.print(("  slack %.0f us, tolerance %s"):format(verdict.slack_s * 1e6, tostring(verdict.evidence.tolerance)))
  elseif verdicts.passed(verdict) then
    log.print(("  correct, not timed; tolerance %s"):format(tostring(verdict.evidence.tolerance)))
  end
end

local function run(list)
  local options = args.parse(OPTIONS, list, ABOUT)
  local required = parse_require(options.require)
  if required and options.no_measure then args.misuse("--require needs times, which --no-measure leaves out") end
  local judge, body = candidate.open(options)
  fs.eprint("khost: starting Python, building and verifying (a first verdict takes about 20 s)\n")
  body.measure = not options.no_measure
  local verdict, why, code = judge:request("evaluate", body)
  judge:close()
  if not verdict and code == "bad_input" then args.misuse(why) end
  if not verdict then
    fs.eprint(("khost: no verdict on %s: %s\n"):format(options.task, why))
    return 3
  end
  if options.json then log.print(json.encode(verdict, true)) else print_verdict(verdict) end
  local exit, missed = verdicts.exit_code(verdict, required)
  if missed then fs.eprint(("khost: %s\n"):format(missed)) end
  return exit
end

return { name = "evaluate", summary = ABOUT.summary, about = ABOUT, options = OPTIONS, run = run }
