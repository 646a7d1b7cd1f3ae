-- Suites: reading, writing, folding and unfolding.
local checking = require "suites.checking"
local fs = require "khost.fs"
local export = require "suites.export"
local harness = require "tests.lua.harness"
local json = require "khost.json"
local judge = require "judge.client"
local load = require "suites.load"
local machine = require "khost.machine"
local pack = require "suites.pack"
local report = require "suites.report"
local workspace = require "suites.workspace"

local TASK = "import torch\n\n\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return x * %d\n"

local function folder(name)
  local path = ("%s/khost-suite-test-%s"):format(fs.env("TMPDIR") or "/tmp", name)
  fs.remove_tree(path)
  assert(fs.mkdirs(path))
  return path
end

local function write(path, text)
  assert(fs.mkdirs(path:match("^(.*)/")))
  assert(fs.write(path, text))
end

local function checkout()
  local path = folder "checkout"
  for level, names in ipairs { { "10_B.py", "2_A.py" }, { "1_C.py" } } do
    for index, name in ipairs(names) do
      write(("%s/KernelBench/level%d/%s"):format(path, level, name), TASK:format(level * 10 + index))
    end
  end
  write(path .. "/src/score.py", "x = 1\n")
  return path
end

local function multi_kernel()
  local root, files = fs.root() .. "/tests/data/kernels/cpu/good/multi_kernel", {}
  for _, path in ipairs { "model.py", "model_new.py", "kernels/linear_relu.cpp", "kernels/rows.cpp" } do
    files[path] = assert(fs.read(root .. "/" .. path))
  end
  return files
end

return {
  a_checkout_of_kernelbench_is_read_by_level_in_the_order_of_its_numbers = function()
    local tasks = assert(load.suite(checkout()))
    harness.expect({ tasks[1].id, tasks[2].id, tasks[3].id }, { "level1/2_A", "level1/10_B", "level2/1_C" })
    harness.expect({ tasks[1].level, tasks[3].level }, { 1, 2 })
    harness.expect(tasks[1].hash, fs.sha256(tasks[1].source))
    harness.expect(#assert(load.suite(checkout(), { levels = { 2 } })), 1)
  end,

  json_lines_keep_what_else_they_say = function()
    local lines = json.encode { code = "a = 1", ops = json.list { "relu", "add" }, data_source = "torch#2" } .. "\n"
      .. json.encode { name = "n", level = 3, source = "b = 2" } .. "\n"
    local tasks = assert(load.from_jsonl(lines))
    harness.expect(tasks[1].source, "a = 1")
    harness.expect(tasks[1].origin.ops, { "relu", "add" })
    harness.expect({ tasks[2].id, tasks[2].level, tasks[2].source }, { "n", 3, "b = 2" })
  end,

  a_suite_written_and_read_again_is_the_same = function()
    local tasks, path = assert(load.suite(checkout())), folder "again"
    assert(export.suite(tasks, path .. "/folder"))
    assert(export.suite(tasks, path .. "/tasks.jsonl"))
    for _, form in ipairs { "/folder", "/tasks.jsonl" } do
      local again = assert(load.suite(path .. form))
      for index, task in ipairs(tasks) do
        harness.expect({ again[index].id, again[index].level, again[index].source },
          { task.id, task.level, task.source })
      end
    end
  end,

  what_is_no_suite_is_refused_with_the_reason = function()
    local path = folder "bad"
    write(path .. "/a.jsonl", '{"code": "x"}\nnonsense\n')
    write(path .. "/b.jsonl", '{"text": "x", "ops": 1}\n')
    write(path .. "/c.parquet", "PAR1")
    local function reason(name)
      local tasks, message = load.suite(path .. "/" .. name)
      harness.expect(tasks, nil)
      return message
    end
    harness.is_true(reason("a.jsonl"):find("line 2 is no JSON object", 1, true), "line")
    harness.is_true(reason("b.jsonl"):find("fields are ops, text", 1, true), "fields")
    harness.is_true(reason("missing"):find("no such file or folder", 1, true), "missing")
    harness.is_true(reason("c.parquet"):find("c.parquet: ", 1, true), "parquet")
  end,

  names_that_would_overwrite_each_other_are_refused = function()
    local ok, message = export.folder({ { id = "a", name = "x", source = "1" },
      { id = "b", name = "x", source = "2" } }, folder "twice")
    harness.expect(ok, nil)
    harness.is_true(message:find("a and b", 1, true), message)
  end,

  a_folded_workspace_unfolds_to_the_same_bytes = function()
    local files = multi_kernel()
    files["kernels/odd.h"] = 'const char* a = "\\n\\t\'\'\' \\\\ \195\188";\n\n// "quoted"\r\n\tno end of line'
    files["kernels/empty.h"] = ""
    files["utils/khost.h"] = "#pragma once\n"
    harness.expect(workspace.unfold(assert(workspace.fold(files))), files)
  end,

  a_task_unfolds_into_a_workspace_with_the_skill = function()
    local files = workspace.unfold(TASK:format(1), workspace.template("cpp-kernel"))
    harness.expect(files["model.py"], TASK:format(1))
    harness.is_true(files["SKILL.md"] and files["utils/khost.h"] and files["utils/compile.sh"], "the template")
  end,

  a_single_file_of_somebody_else_s_goes_into_a_workspace_and_back = function()
    local text = assert(fs.read(fs.root() .. "/tests/data/kernels/python/good/inline/model_new.py"))
    local files = workspace.unfold(text, workspace.template("cuda-kernel"))
    harness.expect({ files["model_new.py"], files["model.py"] }, { text })
    harness.expect(workspace.fold(files), text)
    -- As commands, the task beside it.
    local path = folder "foreign"
    write(path .. "/solution.py", text)
    write(path .. "/task.py", TASK:format(3))
    local suite = require "commands.suite"
    harness.expect(suite.run { "workspace", path .. "/solution.py", path .. "/ws", "--task", path .. "/task.py" }, 0)
    harness.expect(fs.read(path .. "/ws/model.py"), TASK:format(3))
    harness.expect(suite.run { "single", path .. "/ws", path .. "/back.py" }, 0)
    harness.expect(fs.read(path .. "/back.py"), text)
  end,

  a_workspace_that_cannot_become_one_file_says_why = function()
    local files = multi_kernel()
    files["model_new.py"] = nil
    harness.is_true(select(2, workspace.fold(files)):find("model_new.py", 1, true), "no ModelNew")
    harness.is_true(select(2, workspace.fold { ["model_new.py"] = "" }):find("kernels/", 1, true), "no kernel")
  end,

  a_folded_workspace_computes_what_the_task_does = function()
    local files, path = multi_kernel(), folder "single"
    write(path .. "/solution.py", assert(workspace.fold(files)))
    write(path .. "/model.py", files["model.py"])
    write(path .. "/try.py", [[
import sys
sys.path.insert(0, sys.argv[1])
import torch
import model, solution
init, inputs = model.get_init_inputs(), model.get_inputs()
torch.manual_seed(0)
ours = model.Model(*init).eval()
torch.manual_seed(0)
theirs = solution.ModelNew(*init).eval()
theirs.load_state_dict(ours.state_dict())
with torch.no_grad():
    torch.testing.assert_close(theirs(*inputs), ours(*inputs), rtol=1e-3, atol=1e-3)
print("same")
]])
    local done = assert(machine.run({ fs.env("KHOST_PYTHON") or "python3", "-I", path .. "/try.py", path },
      { timeout_s = 300 }))
    harness.is_true(done.code == 0 and done.output:find("same", 1, true), done.output)
  end,

  a_pack_holds_sound_tasks_and_their_times = function()
    local path = folder "pack"
    local function health(id, source, flaw)
      return json.encode { id = id, hash = fs.sha256(source), healthy = flaw == nil, flaw = flaw,
        facts = { run = { eager_s = 0.5, torch = "2.0" }, structure = {} } } .. "\n"
    end
    write(path .. "/in/tasks.jsonl", export.jsonl { { id = "a", name = "a", source = "1" },
      { id = "b", name = "b", source = "2" } })
    write(path .. "/in/health.jsonl", health("a", "1") .. health("b", "2", "null"))
    write(("%s/in/caches/%s.b64"):format(path, fs.sha256("1")), "Y2FjaGU=")
    write(("%s/in/caches/%s.b64"):format(path, fs.sha256("2")), "of a flawed one")
    harness.expect(assert(pack.write(path .. "/in", path .. "/out")),
      { tasks = 1, left_out = 1, times = 1, caches = 1 })
    -- The pack is a suite, and on the same machine its tasks know their caches.
    local packed = assert(load.suite(path .. "/out"))
    harness.expect({ #packed, packed[1].id }, { 1, "a" })
    harness.expect(fs.read(packed[1].compile_cache), "Y2FjaGU=")
    harness.is_true(packed[1].compile_cache:find("/out/caches/", 1, true), packed[1].compile_cache)
    harness.expect(assert(load.suite(path .. "/out/tasks.jsonl"))[1].compile_cache, nil)
    local times = json.decode(assert(fs.read(fs.glob(path .. "/out/baselines/*torch-2.0.json")[1]))).times
    harness.expect(times[fs.sha256("1")].eager_s, 0.5)
    harness.expect(pack.write(path .. "/missing", path .. "/out"), nil)
  end,

  a_packed_cache_spares_the_baseline_its_compiling_and_a_broken_one_costs_nothing_else = function()
    local files, path = multi_kernel(), folder "caches"
    local source = files["model.py"]
    files["model.py"] = nil
    write(path .. "/suite/task.py", source)
    local process = assert(judge.open(nil, { jobs = 1 }))
    local results = checking.run(process, assert(load.suite(path .. "/suite")), { memory_mb = 2048, budget_mb = 256,
      flops = 2e9, elements = 2e7, timeout_s = 300, compile = true, cache = true, jobs = 1 }, path .. "/checked")
    write(path .. "/checked/health.jsonl", report.jsonl(results))
    write(path .. "/checked/tasks.jsonl", export.jsonl { results[1].task })
    harness.expect(assert(pack.write(path .. "/checked", path .. "/out", { flawed = true })).caches, 1)
    process:close()

    -- Another judge, whose compiler has seen nothing.
    process = assert(judge.open(nil, { jobs = 1 }))
    local task = assert(load.suite(path .. "/out"))[1]
    local function evaluated(cache)
      return assert(process:request("evaluate", { task = { source = source, compile_cache = cache }, files = files }))
    end
    local verdict = evaluated(assert(fs.read(task.compile_cache)))
    process:close()
    harness.is_true(verdict.correct and verdict.evidence.compile_cache_hits >= 1, json.encode(verdict.evidence))
    process = assert(judge.open(nil, { jobs = 1 }))
    local broken = evaluated "bm8gY2FjaGU="
    process:close()
    harness.is_true(broken.correct and broken.times.compile_s > 0, broken.detail)
    harness.expect(broken.evidence.compile_cache_hits, 0)
  end,
}
