-- agent.parse and chat.tiny: files in what a model wrote, with a label for everything that is wrong with it.
local parse = require "agent.parse"
local sched = require "khost.sched"
local t = require "tests.lua.harness"
local tiny = require "chat.tiny"

local function label(text, options)
  local files, why = parse.files(text, options)
  t.expect(files, nil)
  return why
end

local GOOD = "```cpp kernels/k.cpp\nint a;\n```\n"

local spec = {}

function spec.files_come_with_their_paths()
  local files, prose = parse.files("First a plan.\n" .. GOOD .. "```python model_new.py\nimport torch\n```\nDone.\n")
  t.expect(files, { ["kernels/k.cpp"] = "int a;\n", ["model_new.py"] = "import torch\n" })
  t.expect(prose, "First a plan.\nDone.")
end

function spec.windows_line_ends_are_accepted()
  t.expect(parse.files((GOOD:gsub("\n", "\r\n"))), { ["kernels/k.cpp"] = "int a;\n" })
end

function spec.a_longer_fence_holds_shorter_ones()
  local files = parse.files("````cpp kernels/k.cpp\n// ```\n```\nint a;\n````\n")
  t.expect(files["kernels/k.cpp"], "// ```\n```\nint a;\n")
end

function spec.nested_fences_have_a_label()
  t.expect(label "```cpp kernels/k.cpp\nint a;\n```cpp kernels/l.cpp\nint b;\n```\n```\n", "nested_fence")
end

function spec.cut_answers_have_a_label()
  t.expect(label("```cpp kernels/k.cpp\nint a", { cut = true }), "cut")
  t.expect(label "```cpp kernels/k.cpp\nint a;\n", "unclosed")
end

function spec.two_blocks_for_one_path_have_a_label()
  t.expect(label(GOOD .. GOOD), "duplicate_path")
end

function spec.paths_that_escape_have_a_label()
  for _, path in ipairs { "../k.cpp", "/etc/passwd", "kernels/../model.py", "kernels/.hidden", "kernels//k.cpp",
    "utils/khost.h", "model.py", "kernels/a\\b.cpp" } do
    t.expect(label("```cpp " .. path .. "\nint a;\n```\n"), "bad_path")
  end
end

function spec.the_rest_has_labels_too()
  t.expect(label "no code at all", "no_block")
  t.expect(label "```cpp\nint a;\n```\n", "no_path")
  t.expect(label "```cpp kernels/k.cpp\n```\n", "empty_file")
end

function spec.blanks_around_a_path_do_not_count_and_cost_little()
  t.expect(parse.files "``` \tcpp kernels/k.cpp \t\nint a;\n```  \n", { ["kernels/k.cpp"] = "int a;\n" })
  for _, line in ipairs { "```" .. (" "):rep(505) .. "\n", "``` x" .. (" "):rep(502) .. "x\n" } do
    local begin = sched.now()
    parse.files("````cpp kernels/k.cpp\n" .. line:rep(4000))
    t.is_true(sched.now() - begin < 1, ("%.1f s for an answer of 2 MB"):format(sched.now() - begin))
  end
end

function spec.rendered_files_are_parsed_back()
  local files = { ["kernels/k.cpp"] = "// ```` deep\n````\nint a;\n", ["model_new.py"] = "x = 1\n" }
  t.expect(parse.files(parse.render(files)), files)
end

function spec.answers_mean_an_act_an_end_or_nothing()
  t.expect(tiny.action(GOOD).kind, "act")
  t.expect(tiny.action(tiny.DONE).kind, "final")
  t.expect(tiny.action("hm"), { kind = "invalid", label = "no_block" })
end

function spec.feedback_is_a_word_or_the_first_error()
  t.expect(tiny.feedback { status = "ok" }, "ok")
  t.expect(tiny.feedback { status = "wrong" }, "wrong")
  t.expect(tiny.feedback { status = "build_failed",
    detail = "kernels/k.cpp:3:5: error: 't9' was not declared\n more\n" }, "build error: 't9' was not declared")
end

return spec
