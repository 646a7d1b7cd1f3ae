-- Published solutions judged again: small made-up files in the forms that others publish.
local fs = require "khost.fs"
local json = require "khost.json"
local left_out = require "suites.left_out"
local published = require "suites.published"
local rejudged = require "suites.rejudged"
local t = require "tests.lua.harness"
local workspace = require "suites.workspace"

local ROOT = ("%s/khost-rejudge-test"):format(fs.env "TMPDIR" or "/tmp")
local GOOD = fs.root() .. "/tests/data/kernels/cpu/good/multi_kernel"

local function write(path, text)
  path = ROOT .. "/" .. path
  assert(fs.mkdirs(path:match("^(.*)/")))
  assert(fs.write(path, text))
  return path
end

local function source() return assert(fs.read(GOOD .. "/model.py")) end

-- A solution in one file, with a text of a file replaced.
local function single(path, from, to)
  local files = { ["model.py"] = source() }
  for _, name in ipairs { "model_new.py", "kernels/linear_relu.cpp", "kernels/rows.cpp" } do
    files[name] = assert(fs.read(GOOD .. "/" .. name))
  end
  if path then
    local changed
    files[path], changed = files[path]:gsub(from, to)
    assert(changed > 0, "nothing was replaced")
  end
  return assert(workspace.fold(files))
end

local function lines(list)
  local parts = {}
  for index, record in ipairs(list) do parts[index] = json.encode(record) .. "\n" end
  return table.concat(parts)
end

-- In CUDA-L1's form.
local function cuda_l1()
  local function record(task, code, score)
    return { level_id = 1, task_id = task, ref_code = source(), custom_code = code or json.null,
      score_default = score or json.null, score_torch_compile_default = score or json.null, score_cuda_graph = 1.5 }
  end
  return lines { record(1, single(), 2), record(2),
    record(3, single("model_new.py", "return out, total", "return torch.relu(out), total"), 3),
    record(4, single("kernels/rows.cpp", "#include", "no such line\n#include"), 4),
    record(5, single("kernels/rows.cpp", "sum %+= x", "sum += 2 * x"), 5),
    { level_id = 2, task_id = 1, ref_code = "raise ValueError('broken')", custom_code = single(), score_default = 2 } }
end

local function read(path, tasks)
  local left = left_out.new(path)
  local found, message = published.read(path, tasks, left)
  return found, message, left.items
end

local spec = {}

function spec.records_with_a_task_and_a_solution_are_read_with_their_claims()
  fs.remove_tree(ROOT)
  local found, _, left = read(write("l1.json", cuda_l1()))
  t.expect({ #found, found[1].name, found[1].level, found[1].task.source, found[1].text }, { 5, "level1/1", 1, source(), single() })
  t.expect(found[1].claimed, { correct = true, eager = 2, compile = 2, others = { score_default = 2,
    score_torch_compile_default = 2, score_cuda_graph = 1.5 } })
  t.expect(#left, 1)
  t.is_true(left[1].item:find("l1.json line 2 (level1/2)", 1, true) and left[1].reason:find("nothing is published", 1, true),
    left[1].item .. left[1].reason)
  t.is_true(select(2, read(write("bad.jsonl", "{}\nnonsense\n"))):find("bad.jsonl line 2 is no JSON object", 1, true))
  t.is_true(select(2, read(ROOT .. "/missing")):find("no such file or folder", 1, true))
  fs.remove_tree(ROOT)
end

function spec.a_run_of_kernelbench_is_read_with_the_tasks_of_a_suite()
  fs.remove_tree(ROOT)
  write("run/level_1_problem_19_sample_0_kernel.py", "class ModelNew: pass\n")
  write("run/level_1_problem_19_sample_1_kernel.py", "class ModelNew: 1\n")
  write("run/level_1_problem_7_sample_0_kernel.py", "class ModelNew: 2\n")
  write("run/eval_results.json", json.encode { ["19"] = { { sample_id = 0, compiled = true, correctness = true, runtime = 1.25 },
    { sample_id = 1, compiled = true, correctness = false, runtime = -1 } } })
  local tasks = { { id = "level1/19_ReLU", name = "19_ReLU", level = 1, source = "a" },
    { id = "level2/7_x", name = "7_x", level = 2, source = "b" } }
  local found, _, left = read(ROOT .. "/run", tasks)
  t.expect({ #found, found[1].name, found[1].claimed.correct, found[1].claimed.candidate_s, found[2].sample,
    found[2].claimed.correct, found[2].claimed.candidate_s }, { 2, "level1/19_ReLU", true, 0.00125, 1, false, nil })
  t.expect({ #left, left[1].reason }, { 1, "the suite has no task 7 of level 1" })
  -- Older runs have one object a problem; data sets number the problems themselves.
  write("run/eval_results.json", json.encode { ["19"] = { sample_id = 0, compiled = true, correctness = true, runtime = 2,
    runtime_stats = { mean = 2 } } })
  found = read(ROOT .. "/run", { { id = "relu", name = "relu", level = 1, source = "a", origin = { problem_id = 19 } } })
  t.expect({ #found, found[1].claimed.candidate_s, found[2].claimed }, { 2, 0.002, {} })
  t.is_true(select(2, read(ROOT .. "/run")):find("name the suite with --suite", 1, true))
  t.is_true(select(2, read(write("empty/x", ""):match("^(.*)/"), tasks)):find("no file level_L_problem_P", 1, true))
  fs.remove_tree(ROOT)
end

function spec.each_difference_has_a_class_and_a_reason()
  local function difference(claimed, verdict)
    verdict.stage, verdict.detail, verdict.reason = "verify", verdict.detail or "", verdict.reason or ""
    return { rejudged.difference(claimed, verdict) }
  end
  local function timed(speedup, more)
    local verdict = { status = "ok", times = { candidate_s = 0.001 }, speedup = { eager = speedup, compile = 1 } }
    for name, value in pairs(more or {}) do verdict[name] = value end
    return verdict
  end
  local right = { correct = true, eager = 2 }
  t.expect(difference(right, timed(2.1)), { "as_claimed", "2.00x of eager claimed, 2.10x here" })
  t.expect(difference(right, timed(4))[1], "faster")
  t.expect(difference(right, timed(1.2)), { "slower", "2.00x of eager claimed, 1.20x here: other machine, or inputs that are new "
    .. "in every timed call" })
  t.expect(difference({ correct = true, compile = 2 }, timed(9)), { "slower", "2.00x of torch.compile claimed, 1.00x here: "
    .. "other machine, or inputs that are new in every timed call" })
  t.expect(difference({ correct = true, candidate_s = 0.003 }, timed(2))[1], "faster")
  t.expect(difference(right, timed(4, { speed = "unresolved", speed_reason = "disturbed" }))[1], "right")
  t.expect(difference(right, { status = "ok" })[1], "right")
  t.expect(difference({ correct = false }, timed(2))[1], "right_against_claim")
  t.expect(difference({ correct = false }, { status = "wrong", reason = "mismatch", detail = "2 of 9\nmore" }),
    { "wrong_as_claimed", "mismatch: 2 of 9" })
  t.expect(difference(right, { status = "build_failed", reason = "build", detail = "In file x:\nk.cu(7): error: no f\nmore" }),
    { "not_built", "build: k.cu(7): error: no f" })
  t.expect(difference(right, { status = "violation", reason = "torch_compute", detail = "torch operator relu computes" }),
    { "rule", "torch_compute: torch operator relu computes" })
  for status, class in pairs { wrong = "wrong", suspect = "rule", crash = "failed", timeout = "failed", oom = "failed",
    bad_task = "not_judged", uninformative = "not_judged", void = "not_judged" } do
    t.expect({ status, difference(right, { status = status, reason = "x" })[1] }, { status, class })
  end
end

function spec.tables_name_the_rule_set_and_split_those_that_are_right_at_ten_percent()
  local function record(status, rules, share)
    return rejudged.record({ name = "x", sample = 0, claimed = { correct = true } },
      { status = status, stage = "verify", reason = "", detail = "", rules = rules, own_share = share })
  end
  local own = rejudged.tables { record("ok", "own") }
  t.expect({ #own, own[1].title, own[2].title },
    { 2, "claimed and measured (rules own)", "differences (rules own)" })
  local mixed = rejudged.tables { record("ok", "mixed", 0.1), record("ok", "mixed", 0.0999), record("ok", "mixed"),
    record("violation", "mixed") }
  t.expect({ mixed[1].title, mixed[3].title }, { "claimed and measured (rules mixed)", "right by the rule set mixed" })
  t.expect(mixed[3].rows, { { "own kernels take 10 % of the time or more", "1" },
    { "own kernels take less than 10 %", "1" }, { "the share was not measured", "1" } })
end

function spec.a_file_of_cuda_l1_s_form_is_judged_again_on_this_machine()
  if not fs.env "KHOST_PYTHON" then return end
  fs.remove_tree(ROOT)
  local path = write("l1.json", cuda_l1())
  t.expect(require("recipes.rejudge").run { path, "--no-measure", "--set", "machine.runs=" .. ROOT .. "/runs" }, 0)
  local text = assert(fs.read(assert(fs.glob(ROOT .. "/runs/*/rejudge.jsonl")[1])))
  local got = {}
  for line in text:gmatch("[^\n]+") do
    local one = json.decode(line)
    got[one.task] = { one.difference, one.measured.status }
    if one.task == "level1/4" then t.is_true(one.why:find("error", 1, true), one.why) end
  end
  t.expect(got["level1/1"], { "right", "ok" })
  t.expect(got["level1/3"], { "rule", "violation" })
  t.expect(got["level1/4"], { "not_built", "build_failed" })
  t.expect(got["level1/5"], { "wrong", "wrong" })
  t.expect(got["level2/1"], { "not_judged", "bad_task" })
  fs.remove_tree(ROOT)
end

return spec
