-- `suite check` on tasks with planted flaws (tests/data/tasks/planted): each is found by measurement and costs only itself.
local checking = require "suites.checking"
local fs = require "khost.fs"
local harness = require "tests.lua.harness"
local health = require "suites.health"
local judge = require "judge.client"
local json = require "khost.json"
local load = require "suites.load"
local machine = require "khost.machine"
local report = require "suites.report"

local OPTIONS = { memory_mb = 1024, budget_mb = 256, flops = 2e9, elements = 2e7, timeout_s = 20, jobs = 2 }

-- Who may use a device when, with processes that use none.
local TURNS = [[
import fcntl, os, sys, tempfile, time, types
sys.modules["torch"] = types.ModuleType("torch")
sys.path.insert(0, sys.argv[1])
from khost.check import check_device as device
device.FOLDER = tempfile.mkdtemp()
record = device.FOLDER + "/record"
out = os.open(record, os.O_CREAT | os.O_WRONLY | os.O_APPEND)

def note(text):
    os.write(out, (text + "\n").encode())

def noted():
    return open(record).read().split()

def until(condition):
    while not condition():
        time.sleep(0.01)

def process(work):
    pid = os.fork()
    if pid == 0:
        work()
        os._exit(0)
    return pid

def at_work():
    with device.together():
        note("begin")
        until(lambda: os.path.exists(device.FOLDER + "/end"))
        note("end")

def times():
    with device.alone() as got:
        note("time" if got else "disturbed")
        time.sleep(0.05)
        note("timed")

def comes():
    with device.together():
        note("new")

def wished():
    with open(device.FOLDER + "/device.wish", "a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False

pids = [process(at_work)]
until(lambda: "begin" in noted())
pids += [process(times), process(times)]
until(wished)
pids.append(process(comes))
time.sleep(0.3)
early = noted()
open(device.FOLDER + "/end", "w").close()
for pid in pids:
    os.waitpid(pid, 0)
print(" ".join(early), "|", " ".join(noted()[1:]))
]]

local function expectation(source)
  local name, detail = assert(source:match("^# expect: ([^\n]+)")):match("^([%w_]+):? ?(.*)$")
  return name, detail
end

local function found(result, name, detail)
  if name == "sound" then
    return #result.findings == 0
  end
  for _, finding in ipairs(result.findings) do
    -- Null candidates are findings of one name; fixtures may ask for the candidate alone.
    if (finding.name == name or finding.name == "null" and finding.detail:find(name, 1, true))
      and finding.detail:find(detail, 1, true) then
      return true
    end
  end
  return false
end

local function names(result)
  local list = {}
  for index, finding in ipairs(result.findings) do
    list[index] = ("%s(%s)"):format(finding.name, finding.detail:sub(1, 60))
  end
  return table.concat(list, " ")
end

local function temporary(name)
  local path = ("%s/khost-check-test-%s"):format(fs.env("TMPDIR") or "/tmp", name)
  fs.remove_tree(path)
  return path
end

return {
  every_planted_flaw_is_found_and_costs_only_itself = function()
    local tasks = assert(load.suite(fs.root() .. "/tests/data/tasks/planted"))
    local folder, process = temporary "planted", assert(judge.open(nil, { jobs = OPTIONS.jobs }))
    local results = checking.run(process, tasks, OPTIONS, folder)
    process:close()
    local missed = {}
    for _, result in ipairs(results) do
      local name, detail = expectation(result.task.source)
      if not found(result, name, detail) then
        missed[#missed + 1] = ("%s: %s expected, found %s"):format(result.task.id, name, names(result))
      end
    end
    harness.is_true(#missed == 0, table.concat(missed, "\n"))
    harness.is_true(#results >= 30, "the fixtures are there")
    -- Nothing of the machine came out.
    harness.is_true(not report.jsonl(results):find("root:", 1, true), "a secret was printed")

    -- Again without a judge: every answer was kept.
    local again = checking.run(setmetatable({}, { __index = function() error("asked again") end }), tasks, OPTIONS,
      folder)
    harness.expect(report.csv(again), report.csv(results))
  end,

  flaws_planted_by_others_are_found_and_sound_tasks_are_left_alone = function()
    local place = fs.root() .. "/tests/data/tasks/independent"
    local expected = json.decode(assert(fs.read(place .. "/expected.json")))
    local process = assert(judge.open(nil, { jobs = OPTIONS.jobs }))
    local results = checking.run(process, assert(load.suite(place)), OPTIONS)
    process:close()
    local wrong = {}
    for _, result in ipairs(results) do
      local plan = expected[result.task.id .. ".py"]
      if plan.healthy ~= result.healthy then
        wrong[#wrong + 1] = ("%s: %s, found %s"):format(result.task.id, plan.healthy and "sound" or plan.flaw,
          names(result))
      end
    end
    harness.is_true(#wrong == 0, table.concat(wrong, "\n"))
    harness.expect(#results, 26)
  end,

  a_task_that_another_process_answers_otherwise_differs = function()
    local function flaw(here, there)
      return health.findings { structure = {}, run = {
        null_candidates = {}, sketch = { here } }, again = { sketch = { there } } }
    end
    harness.expect(flaw({ 1, 2 }, { 1, 2.0001 }), {})
    harness.expect(flaw({ 1, 2 }, { 2, 1 })[1].name, "differs_between_processes")
    harness.expect(flaw({ 1, 2 }, { 1 })[1].name, "differs_between_processes")
  end,

  findings_are_read_from_facts_flaws_before_remarks = function()
    local findings = health.findings { structure = { too_large = true, shrink = { 128, 4 }, unused_parameters = { "w" },
      unused_inputs = {}, dead_operators = {} }, run = {
      changes_inputs = true, null_candidates = { "zeros", "constant" }, no_operators = { "relu", "relu" }, idle_modules = {},
      uniform_axes = {} } }
    local list = {}
    for index, finding in ipairs(findings) do
      list[index] = finding.name .. "=" .. finding.detail
    end
    harness.expect(table.concat(list, "; "), "changes_inputs=; null=zeros, constant; no_op_operators=relu; "
      .. "sliced=measured with 4 of 128 along the leading dimension; unused_parameters=w")
    harness.expect({ health.verdict(findings) }, { false, "changes_inputs" })
  end,

  a_fault_of_the_task_is_said_in_the_judges_words = function()
    local findings = health.findings { structure = { unused_inputs = { "y" } },
      run = { runs = true, fault = "hidden_state", text = "Model depends on what is drawn" } }
    harness.expect(findings[1], { name = "hidden_state", detail = "Model depends on what is drawn" })
    harness.expect(findings[2].name, "unused_inputs")
    harness.expect({ health.verdict(findings) }, { false, "hidden_state" })
  end,

  a_lost_judge_is_asked_again_and_a_task_that_always_loses_it_dies = function()
    local asked = 0
    local fake = { request = function()
      asked = asked + 1
      if asked < 3 then
        return nil, "the judge died", "gone"
      end
      return { structure = {} }
    end }
    harness.expect(checking.facts(fake, "x", OPTIONS), { structure = {} })
    local gone = { request = function() return nil, "the judge died", "gone" end }
    harness.expect(checking.facts(gone, "x", OPTIONS).failure.code, "died")
  end,

  on_a_device_nobody_begins_while_somebody_wishes_to_time_and_those_who_time_are_alone = function()
    local path = (fs.env("TMPDIR") or "/tmp") .. "/khost-check-turns.py"
    assert(fs.write(path, TURNS))
    local done = assert(machine.run({ fs.env("KHOST_PYTHON") or "python3", "-I", path,
      fs.root() .. "/sandbox/python" }, { timeout_s = 60 }))
    harness.expect((done.output:gsub("%s+$", "")), "begin | end time timed time timed new")
  end,

  a_question_names_stages_and_limits = function()
    local question = checking.question("s", { memory_mb = 1, budget_mb = 2, flops = 3, elements = 4, timeout_s = 5,
      compile = true })
    harness.expect(question.stages, { "structure", "run", "again", "compile" })
    harness.expect(question.limits, { memory_bytes = 2 ^ 20, most_bytes = 2 ^ 21, most_flops = 3, most_elements = 4 })
    harness.expect(json.decode(json.encode(checking.question("s", { memory_mb = 1, budget_mb = 1, structure_only = true,
      stages = nil }).stages)), { "structure" })
  end,
}
