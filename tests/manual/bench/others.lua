-- The judge beside the evaluators of others on the same machine, with the same candidate and task: KernelBench's own
-- eval_kernel_against_ref, and the released scripts of CUDA-Agent (compile, verification, profiling). For judge.lua.
--
--   a new candidate  neither side has seen it; on the judge's side a process that starts then ("from nothing": with an
--                    empty cache of builds too), or one that stands, as it does in a run
--   the same again   builds are cached where a side caches them
--   as one .cu       the same kernel by the direct ABI, as an agent of this host writes it
local fixtures = require "tests.manual.bench.fixtures"
local fs = require "khost.fs"
local json = require "khost.json"
local judge = require "judge.client"
local log = require "khost.log"
local machine = require "khost.machine"
local sched = require "khost.sched"

local others = {}

local TIMEOUT_S = 300
local SIDES = {
  kernelbench = { name = "python/good/inline", label = "KernelBench" },
  cuda_agent = { name = "python/good/workspace", label = "CUDA-Agent" },
}

local function marked(name, mark)
  local body = fixtures.request(name)
  body.against = "eager"  -- theirs compare with eager, or time the compiler in the same process
  for path, text in pairs(body.files) do
    -- A build of its own: the mark stands inside what is compiled.
    body.files[path] = path:find("%.cu$") and text .. ("// %s\n"):format(mark)
      or text:gsub('#include <torch/extension.h>\n', ('#include <torch/extension.h>\n// %s\n'):format(mark), 1)
  end
  return body
end

local function as_plan(mark)
  local body = fixtures.request("cuda/good/plain", mark)
  body.against = "eager"
  return body
end

local function written(folder, body)
  for path, text in pairs(body.files) do
    fs.mkdirs((folder .. "/" .. path):match("^(.*)/"))
    assert(fs.write(folder .. "/" .. path, text))
  end
  assert(fs.write(folder .. "/model.py", body.task.source))
end

local function ask_other(which, checkout, folder)
  local argv = { assert(fs.env "KHOST_PYTHON", "KHOST_PYTHON names a Python with torch"),
    fs.root() .. "/tests/manual/bench/other_judges.py", which, checkout, folder .. "/model.py" }
  if which == "kernelbench" then
    argv[#argv + 1], argv[#argv + 2] = folder .. "/model_new.py", folder .. "/build"
    fs.mkdirs(folder .. "/build")
  else
    argv[#argv + 1], argv[#argv + 2] = folder, folder .. "-scratch"
  end
  local begin = sched.now()
  local done = assert(machine.run(argv, { timeout_s = TIMEOUT_S, output_bytes = 100000 }))
  local answer = json.decode(done.output:match("({[^\n]*})%s*$") or "null")
  return sched.now() - begin, answer or { ok = false, said = done.output:sub(-600) }
end

local function ask_ours(process, body)
  local begin = sched.now()
  local verdict = assert(process:request("evaluate", body))
  return sched.now() - begin, verdict
end

local function line(label, what, theirs, ours)
  log.print(("%-12s %-38s %7.2f s, judge %6.2f s: %.0f times"):format(label, what, theirs, ours, theirs / ours))
end

--- Prints the comparison with one evaluator. False when one side did not accept the candidate:
--- then nothing is compared.
---@param which "kernelbench"|"cuda_agent"
---@param checkout string folder of its repository
---@return boolean
function others.compare(which, checkout)
  local marks = 0
  local function fresh(name)  -- seen by nobody, not in another run either
    marks = marks + 1
    return ("%s %d, %d"):format(name, marks, sched.now() * 1e6)
  end
  local side = SIDES[which]
  local folder = ("%s/khost-others-%d"):format(fs.env "TMPDIR" or "/tmp", math.floor(sched.now() * 1e3))
  local body = marked(side.name, fresh "new")
  written(folder, body)
  local new_theirs, first = ask_other(which, checkout, folder)
  local again_theirs, second = ask_other(which, checkout, folder)
  local begin = sched.now()
  local process = assert(judge.open(nil, { jobs = 4 }))
  local _, verdict = ask_ours(process, body)
  local started = sched.now() - begin
  ask_ours(process, marked(side.name, fresh "new"))
  local new_ours, new = ask_ours(process, marked(side.name, fresh "new"))
  local again_ours, again = ask_ours(process, body)
  ask_ours(process, as_plan(fresh "plan"))
  local plan_ours, plan = ask_ours(process, as_plan(fresh "plan"))
  process:close()
  local accepted = first.ok and second.ok and verdict.status == "ok" and again.status == "ok" and plan.status == "ok"
  if accepted then
    log.print(("%-12s on one %s"):format(side.label, verdict.evidence.device and verdict.evidence.device.name or "GPU"))
    line(side.label, "a new candidate, all started then", new_theirs, started)
    line(side.label, "a new candidate, the judge stands", new_theirs, new_ours)
    line(side.label, "as one .cu, the judge stands", new_theirs, plan_ours)
    line(side.label, "the same again, the judge stands", again_theirs, again_ours)
  else
    log.print(("%-12s nothing to compare: it said %s, then %s; the judge %s (%s), then %s"):format(side.label,
      first.ok and "right" or first.said, second.ok and "right" or second.said, verdict.status, verdict.detail,
      again.status))
  end
  log.print(("%-12s theirs in parts: %s"):format("", json.encode(first)))
  for what, one in pairs { started = verdict, new = new, again = again, plan = plan } do
    log.print(("%-12s ours in parts, %s: %s"):format("", what, json.encode(one.wall_s)))
  end
  fs.remove_tree(folder)
  fs.remove_tree(folder .. "-scratch")
  return accepted
end

return others
