-- khost.machine: facts, and programs of this machine.
local fs = require "khost.fs"
local machine = require "khost.machine"
local sched = require "khost.sched"
local t = require "tests.lua.harness"

local spec = {}

function spec.facts_name_cores_and_memory()
  local facts = machine.facts()
  t.is_true(facts.cores >= 1)
  t.is_true(facts.memory_bytes > 1e8)
  t.is_true(machine.facts("/tmp").disk_free_bytes > 0)
end

function spec.run_returns_code_and_output()
  local result = assert(machine.run { "sh", "-c", "echo hello; exit 3" })
  t.expect(result.code, 3)
  t.expect(result.output, "hello\n")
end

function spec.a_missing_program_is_a_failure()
  local result, message, code = machine.run { "no-such-program-here" }
  t.expect(result, nil)
  t.expect(code, "io")
  t.is_true(message:find("no-such-program-here", 1, true))
end

function spec.a_cancelled_run_ends_its_program()
  local begin = sched.now()
  local result, _, code = sched.timeout(0.2, machine.run, { "sleep", "30" })
  t.expect(result, nil)
  t.expect(code, "timeout")
  t.is_true(sched.now() - begin < 5)
end

function spec.a_cancelled_run_returns_when_its_program_is_dead()
  local path = ("/tmp/khost-machine-spec-%d"):format(math.floor(sched.now() * 1e6))
  local running = sched.spawn(machine.run, { "sh", "-c", ('echo $$ > "%s"; exec sleep 30'):format(path) })
  t.eventually(function() return (fs.read(path) or ""):find "\n" end, 10)
  local pid = fs.read(path):match "%d+"
  running:cancel()
  running:wait()
  local state = (fs.read("/proc/" .. pid .. "/stat") or "Z"):match "%u" -- gone, or dead and not reaped yet
  assert(fs.remove_tree(path))
  t.expect(state, "Z")
end

return spec
