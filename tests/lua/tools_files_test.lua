-- The file tools: one spec for each behaviour that agents rely on.
local fs = require "khost.fs"
local kit = require "tests.lua.toolkit"
local t = require "tests.lua.harness"

local bash, has, has_not, ok, refused, within = kit.bash, kit.has, kit.has_not, kit.ok, kit.refused, kit.within

local A = "/workspace/kernels/a.cpp"

local spec = {}

function spec.b13_a_file_must_be_read_before_it_is_changed()
  within(function(call)
    refused(call("Write", { file_path = A, content = "x" }), "not_read")
    refused(call("Edit", { file_path = A, old_string = "int a;", new_string = "x" }), "not_read")
    refused(call("MultiEdit", { file_path = A, edits = { { old_string = "int a;", new_string = "x" } } }), "not_read")
    call("Read", { file_path = A, limit = 1 })
    ok(call("Write", { file_path = A, content = "x" }))
  end)
end

function spec.b13_what_counts_is_the_content_and_not_the_time()
  within(function(call)
    call("Read", { file_path = A })
    bash(call, "touch -d 2001-01-01 kernels/a.cpp")
    ok(call("Edit", { file_path = A, old_string = "int b;", new_string = "int c;" }))
    -- The same length and the same time: only the content tells.
    bash(call, "cp -p kernels/a.cpp /tmp/a; sed -i 's/int c/int d/' kernels/a.cpp; touch -r /tmp/a kernels/a.cpp")
    refused(call("Edit", { file_path = A, old_string = "int d;", new_string = "x" }), "changed")
  end)
end

function spec.b13_an_own_write_is_known_and_a_commands_is_not()
  within(function(call)
    local new = "/workspace/kernels/new.cpp"
    ok(call("Write", { file_path = new, content = "int n;\n" }))
    ok(call("Edit", { file_path = new, old_string = "int n;", new_string = "int m;" }))
    ok(call("MultiEdit", { file_path = new, edits = { { old_string = "m", new_string = "k" } } }))
    ok(call("Write", { file_path = new, content = "int z;\n" }))
    bash(call, "echo more >> kernels/new.cpp")
    refused(call("Edit", { file_path = new, old_string = "int z;", new_string = "x" }), "changed")
    call("Read", { file_path = new })
    ok(call("Edit", { file_path = new, old_string = "int z;", new_string = "x" }))
  end)
end

function spec.b13_a_file_that_was_deleted_and_made_again_must_be_read_again()
  within(function(call)
    call("Read", { file_path = A })
    bash(call, "rm kernels/a.cpp; echo other > kernels/a.cpp")
    refused(call("Write", { file_path = A, content = "x" }), "changed")
    bash(call, "rm kernels/a.cpp")
    refused(call("Edit", { file_path = A, old_string = "other", new_string = "x" }), "not_found")
    ok(call("Write", { file_path = A, content = "x" }))
  end)
end

function spec.b14_the_four_failures_say_what_to_do()
  within(function(call)
    has(refused(call("Write", { file_path = A, content = "x" }), "not_read"),
      "has not been read in this session: Read it first")
    call("Read", { file_path = A })
    has(refused(call("Edit", { file_path = A, old_string = "nowhere", new_string = "x" }), "not_found"),
      "was not found")
    local several = refused(call("Edit", { file_path = A, old_string = "int a", new_string = "x" }), "ambiguous")
    has(several, "occurs 2 times (lines 1, 4)")
    has(several, "replace_all")
    bash(call, "echo >> kernels/a.cpp")
    has(refused(call("Edit", { file_path = A, old_string = "int b;", new_string = "x" }), "changed"),
      "has changed since it was read")
  end)
end

function spec.b15_matching_is_exact_and_the_closest_region_is_shown()
  within(function(call, context)
    context.workspace:put("kernels/f.cpp", "int f() {\n\treturn 1;  \n}\r\nint g() {\n  return 2;\n}\n")
    local path = "/workspace/kernels/f.cpp"
    call("Read", { file_path = path })
    local function why(old)
      return refused(call("Edit", { file_path = path, old_string = old, new_string = "x" }), "not_found")
    end
    has(why "int f() {\n  return 1;  \n", "line 2 is indented with tabs")
    has(why "int f() {\n\treturn 1;\n", "line 2 differs in blanks at its end")
    has(why "     2\t\treturn 1;", "line number copied from Read")
    has(why "}\nint g() {", "\\r\\n")
    local shown = why "int g() {\n  return 3;\n}"
    has(shown, "it differs first at line 5")
    has(shown, "     4\tint g() {")
    has(why "nothing like it", "no line of it is in the file")
    t.expect(context.workspace:read("kernels/f.cpp"), "int f() {\n\treturn 1;  \n}\r\nint g() {\n  return 2;\n}\n")
  end)
end

function spec.b16_bytes_that_were_not_named_stay_as_they_are()
  within(function(call, context)
    local text = "\239\187\191a\r\n\tb\n c \r\n\0\255 d"
    context.workspace:put("kernels/m.txt", (text:gsub("%z", "0")))
    local before = context.workspace:read("kernels/m.txt")
    call("Read", { file_path = "/workspace/kernels/m.txt" })
    ok(call("Edit", { file_path = "/workspace/kernels/m.txt", old_string = "b", new_string = "%1B" }))
    t.expect(context.workspace:read("kernels/m.txt"), (before:gsub("b", function() return "%1B" end)))
    ok(call("MultiEdit", { file_path = "/workspace/kernels/m.txt", edits = { { old_string = "%1B",
      new_string = "b" } } }))
    t.expect(context.workspace:read("kernels/m.txt"), before)
  end)
end

function spec.b17_several_edits_are_written_once_or_not_at_all()
  within(function(call, context)
    call("Read", { file_path = A })
    local before = context.workspace:entry("kernels/a.cpp").mtime_s
    local failed = refused(call("MultiEdit", { file_path = A, edits = { { old_string = "int b;",
      new_string = "int c;" },
      { old_string = "int c;", new_string = "int d;" }, { old_string = "int b;", new_string = "int e;" } } }),
        "not_found")
    has(failed, "edit 3 failed")
    has(failed, "is unchanged")
    t.expect(context.workspace:read("kernels/a.cpp"), kit.FILES["kernels/a.cpp"])
    t.expect(context.workspace:entry("kernels/a.cpp").mtime_s, before)
    -- A reader that has the file open sees the old text whole: the new one comes by rename.
    bash(call, "exec 9< kernels/a.cpp")
    ok(call("MultiEdit", { file_path = A, edits = { { old_string = "int b;", new_string = "int c;" } } }))
    has(bash(call, "cat <&9"), "int b;")
    has(bash(call, "ls -A kernels"), "a.cpp\n[")
  end)
end

function spec.what_is_no_notebook_is_refused()
  within(function(call, context)
    for _, text in ipairs { "", "3", "[]", "{}", '{"cells": 3}', '{"cells": {"a": {}}}',
      '{"cells": [1, null, {"id": 3}]}', "{broken" } do
      context.workspace:put("kernels/n.ipynb", text)
      call("Read", { file_path = "/workspace/kernels/n.ipynb" })
      refused(call("NotebookEdit",
        { notebook_path = "/workspace/kernels/n.ipynb", new_source = "x", cell_id = "cell-0" }), "bad_notebook")
    end
  end)
end

function spec.b18_paths_are_resolved_inside_and_links_lead_nowhere()
  within(function(call)
    bash(call, "ln -s /etc out; ln -s /etc/passwd kernels/l; ln -s ../model.py kernels/m; mkfifo kernels/p; "
      .. "ln -s /workspace kernels/loop; ln -s /tmp/khost-was-here kernels/dangling; ln model.py kernels/hard 2>/dev/null; true")
    for _, path in ipairs { "/etc/passwd", "/workspace/../etc/passwd", "/workspace/kernels/../../etc/passwd",
      "../x" } do
      refused(call("Read", { file_path = path }), "outside_workspace")
      refused(call("Write", { file_path = path, content = "x" }), "outside_workspace")
    end
    for _, path in ipairs { "/workspace/out/passwd", "/workspace/kernels/l", "/workspace/kernels/m",
      "/workspace/kernels/p",
      "/workspace/kernels/loop/model.py" } do
      local observation = call("Read", { file_path = path })
      t.is_true(observation.status == "error", path .. " was read: " .. observation.text)
      has_not(observation, "root:")
      has_not(observation, "class Model")
      for name, arguments in pairs { Write = { content = "x" }, Edit = { old_string = "a", new_string = "x" },
        MultiEdit = { edits = { { old_string = "", new_string = "x" } } } } do
        arguments.file_path = path
        t.expect({ name, path, call(name, arguments).status }, { name, path, "error" })
      end
      t.expect(call("NotebookEdit", { notebook_path = path, new_source = "x", cell_id = "a" }).status, "error")
    end
    t.expect(call("Write", { file_path = "/workspace/out/khost-was-here", content = "x" }).status, "error")
    t.expect(call("Write", { file_path = "/workspace/kernels/dangling/x", content = "x" }).status, "error")
    t.expect({ fs.exists "/etc/khost-was-here", fs.exists "/tmp/khost-was-here" }, {})
    has_not(call("Grep", { pattern = "root:", output_mode = "content" }), "root:x")
    has_not(call("Glob", { pattern = "**/passwd" }), "passwd")
    has_not(call("Glob", { pattern = "**", path = "/workspace/out" }), "passwd")
    refused(call("NotebookEdit", { notebook_path = "/workspace/out/passwd", new_source = "x" }), "bad_input")
  end)
end

function spec.b18_what_belongs_to_the_task_is_refused_by_every_tool_with_the_rule()
  within(function(call, context)
    for _, name in ipairs { "model.py", "SKILL.md", "utils/khost.h", "utils/verification.py", "binding.cpp",
      "binding_registry.h" } do
      local path = "/workspace/" .. name
      kit.ok(call("Read", { file_path = path }))
      local text = context.workspace:read(name)
      has(refused(call("Write", { file_path = path, content = "x" }), "protected"), "is protected")
      refused(call("Edit", { file_path = path, old_string = text, new_string = "x" }), "protected")
      refused(call("MultiEdit", { file_path = path, edits = { { old_string = text, new_string = "x" } } }), "protected")
      refused(call("NotebookEdit", { notebook_path = path, new_source = "x" }), "protected")
      has(bash(call, "echo x > " .. name), "Read-only file system")
      bash(call, ("rm -rf %s; mv %s /tmp/; chmod 777 %s; ln -sf /tmp/x %s"):format(name, name, name, name))
      t.expect(context.workspace:read(name), text)
    end
    refused(call("Write", { file_path = "/workspace/utils/new.py", content = "x" }), "protected")
    refused(call("Write", { file_path = "/workspace/./utils//new.py", content = "x" }), "protected")
    bash(call, "mv utils gone; mkdir utils; mount --bind kernels utils; umount utils; touch utils/x")
    t.expect(context.workspace:entry("utils/x"), nil)
    t.expect(context.workspace:entry("gone"), nil)
  end)
end

return spec
