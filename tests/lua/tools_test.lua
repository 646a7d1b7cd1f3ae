-- The agent's tools and the sandbox below them, with real workspaces and shells.
local fs = require "khost.fs"
local json = require "khost.json"
local machine = require "khost.machine"
local sandbox = require "khost.sandbox"
local sched = require "khost.sched"
local t = require "tests.lua.harness"
local tools = require "agent.tools"

local FILES = {
  ["model.py"] = "class Model:\n  pass\n",
  ["SKILL.md"] = "skill\n",
  ["kernels/a.cpp"] = "int a;\nint b;\n\tint tab;\nint a2;\n",
  ["model_new.py"] = "",
}

local function with_tools(fn)
  return sandbox.within(nil, function(workspace)
    local set = tools.load()
    local context = { workspace = workspace }
    return fn(function(name, arguments) return set:call(context, name, arguments) end, context, set)
  end, { files = FILES })
end

local function has(observation, part)
  t.is_true(observation.text:find(part, 1, true) ~= nil,
    ("expected %q in: %s"):format(part, observation.text))
end

local function refused(observation, label)
  t.is_true(observation.status ~= "ok", "expected a refusal, got: " .. observation.text)
  t.expect(observation.label, label)
end

local spec = {}

function spec.calls_are_checked_against_the_schema_and_labelled()
  with_tools(function(call)
    refused(call("Nope", {}), "unknown_tool")
    refused(call("Read", {}), "missing_field")
    refused(call("Read", { file_path = "/workspace/model.py", extra = 1 }), "extra_field")
    refused(call("Read", { file_path = 3 }), "wrong_type")
    refused(call("Read", { "list" }), "bad_arguments")
    refused(call("Grep", { pattern = "x", output_mode = "all" }), "wrong_enum")
    refused(call("TodoWrite", { todos = { { content = "x", status = "open", activeForm = "x" } } }), "wrong_enum")
    local read = call("Read", { file_path = "/workspace/model.py", limit = "1" })
    t.expect(read.status, "ok")
    t.expect(read.coerced, { "limit" })
    t.is_true(read.seconds >= 0)
  end)
end

function spec.bash_keeps_state_and_reports_exit_time_and_timeout()
  with_tools(function(call)
    t.expect(call("Bash", { command = "cd kernels; export X=1" }).status, "ok")
    local seen = call("Bash", { command = "pwd; echo $X; exit 3" })
    has(seen, "/workspace/kernels\n1\n[exit code 3, ")
    local slow = call("Bash", { command = "sleep 20", timeout = 200 })
    refused(slow, "timeout")
    has(slow, "killed after the timeout of 0.2 s")
    has(call("Bash", { command = "echo $X" }), "1\n[exit code 0")
    has(call("Bash", { command = "seq 100000" }), "the middle of the output was left out")
  end)
end

function spec.background_commands_are_shown_filtered_and_killed()
  with_tools(function(call, context)
    has(call("Bash", { command = "echo one; echo two; sleep 30", run_in_background = true }), "bash_1")
    local seen = ""
    t.eventually(function()
      seen = seen .. call("BashOutput", { bash_id = "bash_1", filter = "^t" }).text
      return seen:find("two", 1, true) ~= nil
    end)
    t.is_true(not seen:find("one", 1, true))
    has(call("KillBash", { shell_id = "bash_1" }), "killed")
    has(call("BashOutput", { bash_id = "bash_1" }), "[killed")
    refused(call("BashOutput", { bash_id = "bash_9" }), "unknown_job")
    t.expect(context.shell:jobs(), { "bash_1" })
  end)
end

function spec.read_numbers_lines_and_refuses_binaries_and_outside_paths()
  with_tools(function(call, context)
    t.expect(call("Read", { file_path = "/workspace/kernels/a.cpp", offset = 2, limit = 1 }).text,
      "     2\tint b;\n[lines 2 to 2 of 4; go on with offset 3]")
    t.expect(call("Read", { file_path = "/workspace/model_new.py" }).text, "[the file is empty]")
    refused(call("Read", { file_path = "/etc/passwd" }), "outside_workspace")
    refused(call("Read", { file_path = "/workspace/../etc/passwd" }), "outside_workspace")
    refused(call("Read", { file_path = "/workspace/none" }), "not_found")
    refused(call("Read", { file_path = "/workspace/kernels" }), "is_folder")
    refused(call("Read", { file_path = "/workspace/kernels/a.cpp", offset = -5 }), "bad_offset")
    refused(call("Read", { file_path = "/workspace/kernels/a.cpp", limit = 0 }), "bad_limit")
    refused(call("Read", { file_path = "/workspace/kernels/a.cpp", offset = -5, limit = -1 }), "bad_offset")
    context.workspace:put("kernels/x.o", "\127ELF\0\0")
    refused(call("Read", { file_path = "/workspace/kernels/x.o" }), "binary")
    call("Bash", { command = "ln -s /etc/passwd kernels/link" })
    refused(call("Read", { file_path = "/workspace/kernels/link" }), "bad_input")
  end)
end

function spec.write_demands_a_read_and_an_unchanged_file_and_keeps_the_task()
  with_tools(function(call)
    has(call("Write", { file_path = "/workspace/kernels/new.cpp", content = "1\n" }), "created")
    has(call("Write", { file_path = "/workspace/kernels/new.cpp", content = "2\n" }), "overwrote")
    refused(call("Write", { file_path = "/workspace/kernels/a.cpp", content = "x" }), "not_read")
    call("Read", { file_path = "/workspace/kernels/a.cpp" })
    call("Bash", { command = "touch kernels/a.cpp" })
    t.expect(call("Edit", { file_path = "/workspace/kernels/a.cpp", old_string = "int b", new_string = "int c" })
      .status, "ok")
    call("Bash", { command = "echo x >> kernels/a.cpp" })
    refused(call("Write", { file_path = "/workspace/kernels/a.cpp", content = "x" }), "changed")
    refused(call("Write", { file_path = "/workspace/model.py", content = "x" }), "protected")
    refused(call("Write", { file_path = "/workspace/SKILL.md", content = "x" }), "protected")
    has(call("Bash", { command = "echo x > model.py" }), "Read-only file system")
  end)
end

function spec.edit_is_exact_and_its_failures_help()
  with_tools(function(call, context)
    local path = "/workspace/kernels/a.cpp"
    local function edit(old, new, all)
      return call("Edit", { file_path = path, old_string = old, new_string = new, replace_all = all })
    end
    refused(edit("int a", "x"), "not_read")
    call("Read", { file_path = path })
    local several = edit("int a", "long a")
    refused(several, "ambiguous")
    has(several, "2 times (lines 1, 4)")
    local blanks = edit("  int tab;\nint a2;", "x")
    refused(blanks, "not_found")
    has(blanks, "line 3 is indented with tabs")
    has(edit("     2\tint b;", "x"), "line number copied from Read")
    refused(edit("int a;", "int a;"), "no_change")
    has(edit("int a", "long a", true), "     1\tlong a;")
    t.expect(context.workspace:read("kernels/a.cpp"), "long a;\nint b;\n\tint tab;\nlong a2;\n")
  end)
end

function spec.edit_keeps_line_ends_and_a_missing_final_newline()
  with_tools(function(call, context)
    context.workspace:put("kernels/crlf.cpp", "a\r\nb\r\nc")
    call("Read", { file_path = "/workspace/kernels/crlf.cpp" })
    has(call("Edit", { file_path = "/workspace/kernels/crlf.cpp", old_string = "a\nb", new_string = "x" }), "\\r\\n")
    call("Edit", { file_path = "/workspace/kernels/crlf.cpp", old_string = "b", new_string = "B%1" })
    t.expect(context.workspace:read("kernels/crlf.cpp"), "a\r\nB%1\r\nc")
  end)
end

function spec.multi_edit_is_all_or_nothing()
  with_tools(function(call, context)
    local path = "/workspace/kernels/a.cpp"
    call("Read", { file_path = path })
    local failed = call("MultiEdit", { file_path = path, edits = {
      { old_string = "int b", new_string = "int c" }, { old_string = "int b", new_string = "int d" } } })
    refused(failed, "not_found")
    has(failed, "edit 2 failed")
    t.expect(context.workspace:read("kernels/a.cpp"), FILES["kernels/a.cpp"])
    t.expect(call("MultiEdit", { file_path = path, edits = {
      { old_string = "int b", new_string = "int c" }, { old_string = "int c", new_string = "int d" } } }).status, "ok")
    t.is_true(context.workspace:read("kernels/a.cpp"):find("int d;", 1, true) ~= nil)
    call("MultiEdit", { file_path = "/workspace/kernels/new.cpp", edits = {
      { old_string = "", new_string = "one two" }, { old_string = "two", new_string = "three" } } })
    t.expect(context.workspace:read("kernels/new.cpp"), "one three")
  end)
end

function spec.glob_and_grep_are_ordered_and_bounded()
  with_tools(function(call, context)
    context.workspace:put("kernels/deep/b.cu", "__global__ void k();\nint B;\n")
    t.expect(call("Glob", { pattern = "**/*.{cu,py}", path = "/workspace/kernels" }).text,
      "/workspace/kernels/deep/b.cu")
    t.expect(call("Glob", { pattern = "kernels/*.cu" }).text, "[no files]")
    t.expect(call("Grep", { pattern = "int [ab]\\b", ["-i"] = true }).text,
      "/workspace/kernels/a.cpp\n/workspace/kernels/deep/b.cu")
    t.expect(call("Grep", { pattern = "^int b", output_mode = "content", ["-C"] = 1 }).text,
      "/workspace/kernels/a.cpp-1-int a;\n/workspace/kernels/a.cpp:2:int b;\n/workspace/kernels/a.cpp-3-\tint tab;")
    t.expect(call("Grep", { pattern = "int", type = "cuda", output_mode = "count" }).text,
      "/workspace/kernels/deep/b.cu:1")
    t.expect(call("Grep", { pattern = "void.*int", multiline = true }).text, "/workspace/kernels/deep/b.cu")
    refused(call("Grep", { pattern = "(" }), "bad_pattern")
    context.workspace:put("kernels/evil", ("a"):rep(40) .. "!\n")
    refused(call("Grep", { pattern = "^(a+)+$" }), "limit")
  end)
end

function spec.notebook_cells_are_edited()
  with_tools(function(call, context)
    local path = "/workspace/kernels/n.ipynb"
    context.workspace:put("kernels/n.ipynb", json.encode { nbformat = 4, metadata = {}, cells = {
      { id = "c1", cell_type = "code", metadata = {}, source = "1", outputs = { { text = "old" } },
        execution_count = 3 } } })
    refused(call("NotebookEdit", { notebook_path = path, new_source = "2", cell_id = "c1" }), "not_read")
    call("Read", { file_path = path })
    t.expect(call("NotebookEdit", { notebook_path = path, new_source = "2", cell_id = "c1" }).status, "ok")
    refused(call("NotebookEdit", { notebook_path = path, new_source = "x", edit_mode = "insert" }), "missing_field")
    t.expect(call("NotebookEdit", { notebook_path = path, new_source = "# t", edit_mode = "insert",
      cell_type = "markdown" }).status, "ok")
    local text = context.workspace:read("kernels/n.ipynb")
    local notebook = json.decode(text)
    t.expect(notebook.cells[1].source, "# t")
    t.expect(notebook.cells[2].source, "2")
    t.is_true(text:find('"outputs":[]', 1, true) ~= nil)
    t.is_true(text:find('"execution_count":null', 1, true) ~= nil)
  end)
end

function spec.todos_have_one_step_in_progress()
  with_tools(function(call)
    local step = { content = "write", status = "in_progress", activeForm = "writing" }
    t.expect(call("TodoWrite", { todos = { step } }).text, "[>] writing")
    refused(call("TodoWrite", { todos = { step, step } }), "several_in_progress")
    t.expect(call("TodoWrite", { todos = {} }).text, "[the list is empty]")
  end)
end

function spec.every_call_gives_one_observation_also_when_a_tool_raises()
  with_tools(function(_, context, set)
    set.by_name.Broken = tools.define { name = "Broken", summary = "", parameters = {},
      run = function() error("inside") end }
    local observation = set:call(context, "Broken", {})
    refused(observation, "tool_failed")
    has(observation, "inside")
    t.raises("unknown key", tools.define, { name = "x", summary = "", parameters = {}, run = print, more = 1 })
    t.is_true(set:describe():find("Bash: ", 1, true) ~= nil)
    t.expect(set:schemas()[4]["function"].parameters.required, { "file_path" })
  end)
end

-- A khost whose tools/ holds one file more.
function spec.a_new_tool_is_one_file_in_the_folder()
  local root = "/tmp/khost-tools-" .. fs.sha256(tostring(sched.wall_clock())):sub(1, 12)
  assert(fs.mkdirs(root .. "/tools"))
  local function put(path, text) assert(fs.write(root .. "/" .. path, text)) end
  for _, name in ipairs(tools.ALL) do
    put(("tools/%s.lua"):format(name), assert(fs.read(("%s/tools/%s.lua"):format(fs.root(), name))))
  end
  put("tools/Count.lua", [[return require("agent.tools").define { name = "Count", summary = "Counts lines.", read_only = true,
    parameters = { { name = "file_path", type = "string", required = true, summary = "path" } },
    run = function(context, arguments)
      return tostring(select(2, context.workspace:read(arguments.file_path):gsub("\n", "")))
    end }]])
  put("probe.lua", [[return { name = "probe", run = function()
    local sandbox, tools = require "khost.sandbox", require "agent.tools"
    local set = tools.load()
    print(#set.list, set.list[12].name, set:schemas()[12]["function"].parameters.required[1], set:describe():match "Counts lines")
    sandbox.within(nil, function(workspace)
      print(set:call({ workspace = workspace }, "Count", { file_path = "kernels/a.cpp" }).text)
    end, { files = { ["kernels/a.cpp"] = "a\nb\n" } })
  end }]])
  local function probe()
    return machine.run({ "/usr/bin/env", "KHOST_ROOT=" .. root, "sh", "-c",
      ("ln -sfn '%s/scripts' '%s/scripts'; ln -sfn '%s/host' '%s/host'; '%s/khost' '%s/probe.lua' 2>&1"):format(fs.root(), root,
      fs.root(), root, fs.build_dir(), root) }, { timeout_s = 30 })
  end
  local seen = probe()
  t.expect(seen.output, "12\tCount\tfile_path\tCounts lines\n2\n")
  put("tools/Count.lua", "return { name = 'Other' }")
  has({ text = probe().output }, "tools/Count.lua must return tools.define")
  fs.remove_tree(root)
end

function spec.requests_of_programs_inside_are_answered()
  with_tools(function(call, context)
    local server = sched.spawn(function()
      local asked = context.workspace:take_request(10)
      context.workspace:answer(asked.id, json.encode { echo = asked.request.kind })
    end)
    local seen = call("Bash",
      { command = "echo '{\"kind\": \"verify\"}' > .khost/d; mv .khost/d .khost/request-5.json; "
      .. "until [ -e .khost/response-5.json ]; do sleep 0.05; done; cat .khost/response-5.json", timeout = 10000 })
    has(seen, '{"echo":"verify"}')
    server:wait()
    local none, _, code = context.workspace:take_request(0.05)
    t.expect(none, nil)
    t.expect(code, "timeout")
  end)
end

function spec.a_workspace_is_restored_and_closed()
  local kept
  sandbox.within(nil, function(workspace)
    kept = workspace
    local before = workspace:snapshot()
    t.expect(before, { ["kernels/a.cpp"] = FILES["kernels/a.cpp"], ["model_new.py"] = "" })
    workspace:write("kernels/b.cpp", "b")
    t.expect(workspace:restore(before), true)
    t.expect(workspace:snapshot(), before)
    local ok, _, code = workspace:write("model.py", "x")
    t.expect({ ok, code }, { nil, "protected" })
  end, { files = FILES })
  t.raises("closed", kept.read, kept, "model.py")
end

function spec.cancelling_a_task_ends_its_command()
  with_tools(function(call)
    local begin = sched.now()
    local task = sched.spawn(function() call("Bash", { command = "sleep 30" }) end)
    sched.sleep(0.3)
    task:cancel()
    task:wait()
    t.is_true(sched.now() - begin < 3)
    has(call("Bash", { command = "echo on" }), "on\n")
  end)
end

return spec
