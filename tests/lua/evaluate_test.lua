-- `khost evaluate`: what a verdict means for who called it, by the exit code.
local evaluate = require "commands.evaluate"
local fs = require "khost.fs"
local t = require "tests.lua.harness"

local ROOT = "/tmp/khost-evaluate-spec"
local GOOD = fs.root() .. "/tests/data/kernels/cpu/good/row_softmax"
local WRONG = fs.root() .. "/tests/data/kernels/cpu/wrong/off_by_one"

local spec = {}

local function code_of(task, workspace, ...)
  return evaluate.run { "--task", task, "--workspace", workspace, ... }
end

-- The exit code of a misuse, which leaves by an error.
local function misuse(...)
  local ok, problem = pcall(evaluate.run, { ... })
  t.is_true(not ok, "expected a misuse")
  return type(problem) == "table" and problem.exit
end

function spec.a_correct_kernel_ends_with_0_and_a_wrong_one_with_1()
  if not fs.env("KHOST_PYTHON") then return end
  t.expect(code_of(GOOD .. "/model.py", GOOD, "--no-measure"), 0)
  t.expect(code_of(WRONG .. "/model.py", WRONG, "--no-measure"), 1)
end

function spec.a_task_that_cannot_be_judged_ends_with_3()
  if not fs.env("KHOST_PYTHON") then return end
  fs.remove_tree(ROOT)
  assert(fs.mkdirs(ROOT))
  assert(fs.write(ROOT .. "/op.py", "raise RuntimeError('this task is broken')\n"))
  t.expect(code_of(ROOT .. "/op.py", GOOD, "--no-measure"), 3)
  fs.remove_tree(ROOT)
end

function spec.misuse_ends_with_2()
  t.expect(misuse("--task", GOOD .. "/model.py", "--workspace", GOOD, "--tolerance", "loose"), 2)
  t.expect(misuse("--task", GOOD .. "/model.py", "--workspace", GOOD, "--require", "numpy:2"), 2)
  t.expect(misuse("--task", GOOD .. "/model.py", "--workspace", GOOD, "--require", "eager:2", "--no-measure"), 2)
  t.expect(misuse("--task", "/no/such/file.py", "--workspace", GOOD), 2)
  t.expect(misuse("--workspace", GOOD), 2)
end

function spec.help_says_what_the_codes_mean()
  local text = require("lib.args").usage(evaluate.options, evaluate.about)
  for _, part in ipairs { "exit codes: 0 correct", "1 not correct", "2 misuse", "3 no verdict on the kernel" } do
    t.is_true(text:find(part, 1, true), part)
  end
end

return spec
