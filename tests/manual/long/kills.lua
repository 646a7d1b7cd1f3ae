-- Verdicts of known candidates, one after the other and side by side, while somebody kills the judge's processes
-- (kills.py): each must be the right one, or void. Prints a line a verdict and ends with the counts; exit code 1 when a
-- verdict was neither, or when none was right.
local args = require "lib.args"
local fixtures = require "tests.manual.bench.fixtures"
local judge = require "judge.client"
local log = require "khost.log"
local sched = require "khost.sched"

local OPTIONS = {
  { name = "--seconds", kind = "number", default = 600, help = "for how long" },
  { name = "--jobs", kind = "number", default = 2, help = "verdicts at a time" },
}
local ABOUT = { name = "kills", summary = "verdicts while the judge's processes are killed" }
local NAMES = { "cpu/good/row_softmax", "cpu/good/multi_kernel", "cpu/wrong/off_by_one", "cpu/crash/segfault", "cpu/good/relu_plus_one" }

local function run(list)
  local options = args.parse(OPTIONS, list, ABOUT)
  local names, deadline = NAMES, sched.now() + options.seconds
  local process = assert(judge.open(nil, { jobs = options.jobs }))
  local counts, number = { right = 0, void = 0, bad = 0 }, 0
  local started = sched.wall_clock() * 1e3  -- each run builds anew
  local function work()
    while sched.now() < deadline do
      number = number + 1
      local name = names[number % #names + 1]
      local body, expected = fixtures.request(name, ("kill %d of %d"):format(number, started)), fixtures.expected(name)
      local verdict = process:verdict({ id = name, source = body.task.source, name = name }, body.files,
        { measure = number % 4 == 0 })
      local outcome = fixtures.meets(expected.status, verdict.status) and "right" or verdict.status == "void" and "void"
        or "bad"
      counts[outcome] = counts[outcome] + 1
      log.print(("%-24s %-12s %-16s %s"):format(name, verdict.status, verdict.reason, outcome))
    end
  end
  local workers = {}
  for index = 1, options.jobs do
    workers[index] = index
  end
  sched.map(workers, work, { limit = options.jobs, on_failure = "raise" })
  process:close()
  log.print(("%d right, %d void, %d neither"):format(counts.right, counts.void, counts.bad))
  return counts.bad == 0 and counts.right > 0 and 0 or 1
end

return { name = ABOUT.name, summary = ABOUT.summary, options = OPTIONS, run = run }
