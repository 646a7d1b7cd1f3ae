-- Suites as people have them, and folders that strangers filled.
local beneath = require "lib.beneath"
local candidate = require "lib.candidate"
local fs = require "khost.fs"
local harness = require "tests.lua.harness"
local json = require "khost.json"
local load = require "suites.load"
local machine = require "khost.machine"
local source_text = require "lib.source_text"
local workspace = require "suites.workspace"

local TASK = "class Model: pass  # %s\n"

local function folder(name)
  local path = ("%s/khost-suite-files-test-%s"):format(fs.env("TMPDIR") or "/tmp", name)
  fs.remove_tree(path)
  assert(fs.mkdirs(path))
  return path
end

local function write(path, text)
  assert(fs.mkdirs(path:match("^(.*)/")))
  assert(fs.write(path, text))
end

local function shell(command)
  local done = assert(machine.run({ "sh", "-c", command }, { timeout_s = 20 }))
  harness.expect(done.code, 0)
end

local function lines(list)
  local out = {}
  for index, record in ipairs(list) do
    out[index] = type(record) == "string" and record or json.encode(record)
  end
  return table.concat(out, "\n") .. "\n"
end

local function ids(tasks)
  local out = {}
  for index, task in ipairs(tasks) do
    out[index] = task.id
  end
  return out
end

-- What is printed on stderr by a command that is refused, and its code.
local function refused(run)
  local ok, problem = pcall(run)
  harness.is_true(not ok, "it was not refused")
  return type(problem) == "table" and tostring(problem.message or problem[1] or json.encode(problem)) or tostring(problem)
end

return {
  ids_that_stand_twice_and_numbers_are_told_apart = function()
    local tasks = assert(load.from_jsonl(lines { { id = "relu", code = "a" }, { id = "relu", code = "b" },
      { id = "relu-2", code = "c" }, { id = 7, name = "tanh", level = "level2", code = "d" },
      { problem_id = 8, level = 2, code = "e" }, { code = "f" }, { id = "task-00006", code = "g" } }))
    harness.expect(ids(tasks), { "relu", "relu-3", "relu-2", "7", "8", "task-00006", "task-00006-2" })
    harness.expect({ tasks[4].name, tasks[4].level, tasks[5].level }, { "tanh", 2, 2 })
  end,

  levels_are_read_as_text_or_said = function()
    local path = folder "levels"
    local function of(value)
      write(path .. "/a.jsonl", lines { { id = "a", level = value, code = "x" }, { id = "b", level = 1, code = "y" } })
      local tasks, message = load.suite(path .. "/a.jsonl", { levels = { 2 } })
      return tasks and ids(tasks) or message
    end
    for _, value in ipairs { "level2", "Level 2", "level_2", "2", "L2", 2, 2.0 } do
      harness.expect(of(value), { "a" })
    end
    harness.is_true(of("hard"):find("a.jsonl: the level of task 'a' is 'hard'", 1, true), of("hard"))
    harness.expect(load.from_jsonl(lines { { level = "hard", code = "x" } })[1].origin, { level = "hard" })
  end,

  numbers_that_json_does_not_have_are_no_failure = function()
    local text = '\239\187\191{"id": "a", "code": "x = NaN \\" NaN", "ms": NaN, "most": -Infinity, "l": [Infinity, NaN]}\r\n'
    local tasks = assert(load.from_jsonl(text))
    harness.expect({ tasks[1].id, tasks[1].source }, { "a", 'x = NaN " NaN' })
  end,

  a_record_that_cannot_be_read_is_named_by_file_and_line = function()
    local path = folder "named"
    write(path .. "/a.jsonl", '{"code": "x"}\n\n\nnonsense\n')
    write(path .. "/b.jsonl", '\n{"text": "x"}\n')
    write(path .. "/c.jsonl", "\n")
    harness.expect(select(2, load.suite(path .. "/a.jsonl")), path .. "/a.jsonl line 4 is no JSON object")
    harness.is_true(select(2, load.suite(path .. "/b.jsonl")):find("b.jsonl line 2 has no source", 1, true), "b")
    harness.is_true(select(2, load.suite(path .. "/c.jsonl")):find("c.jsonl: no task in it", 1, true), "c")
  end,

  a_record_with_a_field_that_cannot_be_written_again_is_left_out_by_its_place = function()
    local path, told = folder "deep", nil
    write(path .. "/a.jsonl", '{"id": "a", "code": "x"}\n{"id": "b", "code": "y", "deep": ' .. ("["):rep(100)
      .. ("]"):rep(100) .. "}\n")
    local tasks = assert(load.suite(path .. "/a.jsonl", { left_out = function(items) told = items end }))
    harness.expect({ ids(tasks), #told }, { { "a" }, 1 })
    harness.is_true(told[1].item:find("a.jsonl line 2", 1, true)
      and told[1].reason:find("a field 'deep' that is nested deeper than 32", 1, true), told[1].reason)
  end,

  a_folder_of_tables_is_read_at_any_depth = function()
    local path = folder "snapshot"
    write(path .. "/README.md", "x")
    write(path .. "/data/part/level_2-00000-of-00001.jsonl", lines { { name = "b", code = "b" } })
    write(path .. "/data/part/level_1-00000-of-00001.jsonl", lines { { name = "a", code = "a" }, { name = "b", code = "c" } })
    local tasks = assert(load.suite(path))
    harness.expect(ids(tasks), { "a", "b", "b-2" })
    harness.expect({ tasks[1].level, tasks[3].level }, { 1, 2 })
    harness.expect(#assert(load.suite(path, { levels = { 2 } })), 1)
    write(path .. "/src/deep/er/one.py", TASK)
    harness.expect(#assert(load.suite(path)), 3)
    fs.remove_tree(path .. "/data")
    harness.expect(ids(assert(load.suite(path))), { "src/deep/er/one" })
    fs.remove_tree(path .. "/src")
    harness.is_true(select(2, load.suite(path)):find("no Python, JSONL or Parquet file", 1, true), "empty")
  end,

  numeric_ids_keep_all_their_digits = function()
    local text = '{"id": 1, "code": "a"}\n{"id": 123456789012345, "code": "b"}\n{"id": 123456789012346, "code": "c"}\n'
      .. '{"id": 1.0, "code": "d"}\n{"id": 2.5, "code": "e"}\n{"id": "1", "code": "f"}\n{"id": true, "code": "g"}\n'
    harness.expect(ids(assert(load.from_jsonl(text))),
      { "1", "123456789012345", "123456789012346", "1-2", "2.5", "1-3", "task-00007" })
    -- As CUDA-L1 numbers them: level by level.
    local tasks = assert(load.from_jsonl(lines { { level_id = 1, task_id = 3, ref_code = "a" }, { level_id = 2, task_id = 3,
      ref_code = "b" } }))
    harness.expect({ ids(tasks), tasks[2].level, tasks[2].source }, { { "level1/3", "level2/3" }, 2, "b" })
  end,

  what_is_left_out_is_named_with_the_reason_and_counted = function()
    local path = folder "left"
    local function left_of(place, options)
      local list, all = {}, {}
      function all.left_out(items)
        for index, one in ipairs(items) do list[index] = one.item:sub(#path + 2) .. ": " .. one.reason end
      end
      for name, value in pairs(options or {}) do all[name] = value end
      local tasks, message = load.suite(place, all)
      table.sort(list)
      return tasks and ids(tasks) or message, list
    end
    write(path .. "/rows/a.jsonl", lines { { id = "a", level = 1, code = "x" }, { id = "b", text = "no program" },
      { id = "c", level = 1, code = json.null }, { id = "d", code = "y" }, { id = "e", code = " " } })
    local tasks, list = left_of(path .. "/rows/a.jsonl", { levels = { 1 } })
    harness.expect({ tasks, #list, list[1] }, { { "a" }, 4, "rows/a.jsonl line 2: it has no source: one of source, code, "
      .. "pytorch_code, python_code, program, reference, ref_code expected, fields are id, text" })
    harness.expect(list[4], "rows/a.jsonl: task 'd': it has no level")
    -- Python files at any depth; what is none is named.
    write(path .. "/deep/level1/1_A.py", TASK)
    write(path .. "/deep/level2/more/still/2_B.py", TASK)
    write(path .. "/deep/tools/score.py", "x = 1\n")
    write(path .. "/deep/level1/3_binary.py", "x = '\228'\n")
    write(path .. "/deep/health.jsonl", lines { { code = "x" } })
    write(path .. "/deep/old.csv", "x")
    tasks, list = left_of(path .. "/deep")
    harness.expect(tasks, { "level1/1_A", "level2/more/still/2_B" })
    harness.expect({ list[1], list[3], list[4], #list }, {
      "deep/health.jsonl: the folder's Python files are its tasks; to read this file, name it",
      "deep/old.csv: files of this form are not read", "deep/tools/score.py: it defines no class Model, so it is no task", 4 })
    harness.is_true(list[2]:find("3_binary.py: .* line 1 is no UTF%-8"), list[2])
    harness.expect(#left_of(path .. "/deep", { levels = { 2 } }), 1)
    -- A data set with the script that once loaded it.
    write(path .. "/set/set.py", "import datasets\n")
    write(path .. "/set/data/level_1.jsonl", lines { { name = "a", code = "x" } })
    write(path .. "/set/data/more.jsonl.gz", "x")
    tasks, list = left_of(path .. "/set")
    harness.expect({ tasks, list }, { { "a" }, { "set/data/more.jsonl.gz: files of this form are not read",
      "set/set.py: it defines no class Model, so it is no task" } })
    write(path .. "/none/a.py", "x = 1\n")
    harness.is_true(left_of(path .. "/none"):find("a.py: it defines no class Model", 1, true), "none")
  end,

  lines_of_windows_and_lists_are_read_and_other_codings_are_said = function()
    local path = folder "codings"
    write(path .. "/a.jsonl", '\239\187\191{"id": "a", "code": "x\\r\\ny"}\r\n\r\n{"id": "b", "code": "z"}')
    harness.expect(ids(assert(load.suite(path .. "/a.jsonl"))), { "a", "b" })
    harness.expect(assert(load.suite(path .. "/a.jsonl"))[1].source, "x\r\ny")
    write(path .. "/b.json", '\239\187\191 [\n {"id": "a", "code": "x", "ms": NaN},\n {"id": "b", "code": "y"}\n]\n')
    harness.expect(ids(assert(load.suite(path .. "/b.json"))), { "a", "b" })
    write(path .. "/c.jsonl", "\255\254{\0}\0")
    harness.is_true(select(2, load.suite(path .. "/c.jsonl")):find("c.jsonl is in UTF-16: save it as UTF-8", 1, true), "c")
  end,

  parquet_of_any_column_is_read = function()
    local path, python = folder "parquet", fs.env "KHOST_PYTHON" or "python3"
    write(path .. "/make.py", [[
import sys
sys.path += sys.argv[2:]
import datetime, decimal
import pyarrow as pa
import pyarrow.parquet as pq
rows = {"code": ["a", "b", None, "d"], "name": ["x", "x", "y", "z"], "level": ["level 1", "L2", None, "2"],
        "ms": [1.5, float("nan"), float("inf"), None], "id": [7, 7, 8, 9], "blob": [b"\xff", b"", None, b"x"],
        "when": [datetime.datetime(2026, 1, 1)] * 4, "price": [decimal.Decimal("1.5")] * 4,
        "nested": [{"k": [float("nan")]}, None, {"k": []}, {"k": None}]}
pq.write_table(pa.table(rows), sys.argv[1])
]])
    -- Reading once installs pyarrow where it is missing.
    write(path .. "/bad.parquet", "PAR1")
    load.suite(path .. "/bad.parquet")
    local made = assert(machine.run({ python, path .. "/make.py", path .. "/some.parquet", require "lib.cache".folder "pyarrow" },
      { timeout_s = 60 }))
    harness.expect({ made.code, made.code == 0 and "" or made.output }, { 0, "" })
    local items
    local tasks = assert(load.suite(path .. "/some.parquet", { left_out = function(list) items = list end }))
    harness.expect({ ids(tasks), tasks[1].level, tasks[2].level, tasks[3].level }, { { "7", "7-2", "9" }, 1, 2, 2 })
    harness.expect({ tasks[1].name, tasks[1].origin.ms, #items }, { "x", 1.5, 1 })
    harness.is_true(items[1].item:find("some.parquet row 3", 1, true), items[1].item)
    local text, message, code = require "suites.parquet".rows(path .. "/some.parquet", 20)
    harness.expect({ text, code }, { nil, "limit" })
    harness.is_true(message:find("some.parquet: its rows take more than", 1, true), message)
  end,

  links_pipes_and_devices_of_a_suite_are_not_followed = function()
    local path, outside = folder "linked", folder "outside"
    write(outside .. "/secret.py", "SECRET")
    write(path .. "/level1/1_A.py", TASK)
    shell(("ln -s %s/secret.py %s/level1/2_B.py; ln -s %s %s/level2; mkfifo %s/level1/3_C.py"):format(outside, path, outside,
      path, path))
    harness.expect(ids(assert(load.suite(path))), { "level1/1_A" })
    shell(("ln -s %s/level1/1_A.py %s/mine.py"):format(path, outside))
    harness.expect(ids(assert(load.suite(outside .. "/mine.py"))), { "mine" })  -- which the user named
    shell(("rm %s/level1/1_A.py; echo '{\"code\": 1}' > %s/x.jsonl; ln -s %s/x.jsonl %s/tasks.jsonl"):format(path, outside,
      outside, path))
    harness.is_true(select(2, load.suite(path)):find("no Python, JSONL or Parquet file", 1, true), "nothing is left")
  end,

  files_of_a_data_set_that_its_own_cache_links_are_read = function()
    local home = folder "datasets--a--b"  -- the folder's name counts
    local whole = home:gsub("[^/]+$", "datasets--khost-test")
    fs.remove_tree(whole)
    write(whole .. "/blobs/abc", lines { { name = "a", code = "a" } })
    write(whole .. "/secret", lines { { name = "s", code = "s" } })
    shell(("mkdir -p %s/snapshots/r/data && ln -s ../../../blobs/abc %s/snapshots/r/data/level_3.jsonl && "
      .. "ln -s ../../../secret %s/snapshots/r/data/level_4.jsonl"):format(whole, whole, whole))
    local tasks = assert(load.suite(whole .. "/snapshots/r"))
    harness.expect({ ids(tasks), tasks[1].level }, { { "a" }, 3 })
    -- The folder of the data set stands for the snapshot of its main branch, also with Python files in it.
    harness.expect(ids(assert(load.suite(whole))), { "a" })
    write(whole .. "/blobs/py", TASK)
    shell(("mkdir -p %s/snapshots/s/level2 %s/refs && ln -s ../../../blobs/py %s/snapshots/s/level2/1_A.py && printf s > "
      .. "%s/refs/main"):format(whole, whole, whole, whole))
    tasks = assert(load.suite(whole))
    harness.expect({ ids(tasks), tasks[1].level }, { { "level2/1_A" }, 2 })
    fs.remove_tree(whole)
  end,

  no_link_out_of_a_workspace_is_followed = function()
    local path, outside = folder "workspace", folder "elsewhere"
    write(outside .. "/secret", "SECRET")
    write(path .. "/kernels/a.cpp", "int a;")
    write(path .. "/kernels/deep/b.h", "int b;")
    write(path .. "/model_new.py", "x")
    harness.expect(candidate.files(path, "cpu"), { ["kernels/a.cpp"] = "int a;", ["kernels/deep/b.h"] = "int b;",
      ["model_new.py"] = "x" })
    for _, change in ipairs { "ln -s %s/secret %s/kernels/secret.h", "ln -s %s %s/kernels/folder",
      "ln -s a.cpp %2$s/kernels/inside.cpp", "mkfifo %2$s/kernels/pipe.h", "ln -sf %s/secret %s/model_new.py" } do
      local name = change:match("[%w_]+[%.%w]*$")
      local command = change:gsub("%%2%$s", path):format(outside, path)
      shell(command)
      local said = refused(function() candidate.files(path, "cpu") end)
      harness.is_true(said:find("symbolic link", 1, true) or said:find("neither a file", 1, true), said)
      harness.is_true(said:find(name:match("[%w_%.]+$"), 1, true), said)
      if name ~= "model_new.py" then
        shell(("rm %s/kernels/%s"):format(path, name))
      end
    end
    local files, message = workspace.read(path)
    harness.expect(files, nil)
    harness.is_true(message:find("model_new.py: symbolic links are not followed", 1, true), message)
    shell(("mv %s/kernels %s/kept; ln -s %s/kept %s/kernels"):format(path, outside, outside, path))
    harness.is_true(refused(function() candidate.files(path, "cpu") end):find("kernels is a link", 1, true), "kernels")
    local whole = path .. "-link"
    shell(("rm -f %s %s/kernels %s/model_new.py; mv %s/kept %s/kernels; ln -s %s %s"):format(whole, path, path, outside, path,
      path, whole))
    harness.expect(candidate.files(whole, "cpu")["kernels/a.cpp"], "int a;")  -- the user named the link
    shell("rm " .. whole)
  end,

  files_that_are_too_large_are_named = function()
    local path = folder "large"
    write(path .. "/kernels/a.cpp", "x")
    shell(("truncate -s 70M %s/kernels/a.cpp"):format(path))
    local said = refused(function() candidate.files(path, "cpu") end)
    harness.is_true(said:find("a.cpp", 1, true) and said:find("larger than", 1, true), said)
    harness.expect({ fs.read_beneath(path, "../x", 10) }, { nil, path .. "/../x: lies outside the workspace", "bad_input" })
    harness.expect(beneath.kind(path, "kernels"), "folder")
  end,

  python_files_are_read_as_python_reads_them = function()
    local text = "# -*- coding: latin-1 -*-\nS = '\228'\n"
    harness.expect(source_text.decode(text, "a.py"), "# -*- coding: utf-8 -*-\nS = '\195\164'\n")
    harness.expect(source_text.decode("\239\187\191x = 'ä'\r\n", "a.py"), "\239\187\191x = 'ä'\r\n")
    local _, message = source_text.decode("x = 1\ny = '\228'\n", "a.py")
    harness.is_true(message:find("a.py: line 2 is no UTF-8 and the file names no coding", 1, true), message)
    _, message = source_text.decode("# coding: koi8_r\ny = '\228'\n", "a.py")
    harness.is_true(message:find("files in 'koi8_r' are not read", 1, true), message)
  end,
}
