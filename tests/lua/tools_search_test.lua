-- Glob and Grep: the same answer on every machine, in the same order.
local kit = require "tests.lua.toolkit"
local t = require "tests.lua.harness"

local bash, has, has_not, within = kit.bash, kit.has, kit.has_not, kit.within

local spec = {}

function spec.b19_answers_are_sorted_by_path_and_need_no_other_program()
  within(function(call, context)
    for _, name in ipairs { "z", "b", "m", "a/1", "a/0" } do
      context.workspace:put("kernels/" .. name .. ".cu", "needle\nhay\nneedle\n")
    end
    local wanted = {}
    for i, name in ipairs { "a/0", "a/1", "b", "m", "z" } do wanted[i] = "/workspace/kernels/" .. name .. ".cu" end
    t.expect(call("Grep", { pattern = "needle" }).text, table.concat(wanted, "\n"))
    t.expect(call("Grep", { pattern = "needle", output_mode = "count", glob = "kernels/a/*" }).text,
      wanted[1] .. ":2\n" .. wanted[2] .. ":2")
    t.expect(call("Grep", { pattern = "needle", output_mode = "content", path = wanted[3] }).text,
      wanted[3] .. ":1:needle\n" .. wanted[3] .. ":3:needle")
    has(call("Grep", { pattern = "needle", head_limit = 2 }), "[2 of 5 lines]")
  end)
end

function spec.b10_long_lines_and_many_of_them_do_not_flood_the_context()
  within(function(call, context)
    local line = ("needle "):rep(1000)
    context.workspace:put("kernels/long.cu", (line .. "\n"):rep(200))
    local one = call("Grep", { pattern = "needle", output_mode = "content", head_limit = 1 })
    has(one, "[5000 more bytes]")
    t.is_true(#one.text < 2200, #one.text)
    local all = call("Grep", { pattern = "needle", output_mode = "content", head_limit = 1e9 })
    t.is_true(#all.text < 32000, #all.text)
    local path = all.text:match "%[all of it: /workspace/([^%]]+)%]"
    t.is_true(#context.workspace:read(path) > 200 * 2000)
  end)
end

function spec.b19_what_gitignore_names_is_left_out()
  within(function(call, context)
    local function put(path) context.workspace:put(path, "needle\n") end
    context.workspace:put("kernels/.gitignore", "# built\n*.o\n/only_here.cpp\nbuild/\n!keep.o\n\\#odd\n")
    for _, name in ipairs { "x.o", "deep/y.o", "keep.o", "only_here.cpp", "deep/only_here.cpp", "build/z.cpp",
      "deep/build/z.cpp",
      "#odd", "seen.cpp", ".hidden" } do
      put("kernels/" .. name)
    end
    context.workspace:put("kernels/deep/.gitignore", "!y.o\n")
    t.expect(call("Grep", { pattern = "needle" }).text, "/workspace/kernels/deep/only_here.cpp\n"
      .. "/workspace/kernels/deep/y.o\n/workspace/kernels/keep.o\n/workspace/kernels/seen.cpp")
    has_not(call("Glob", { pattern = "**/*.o" }), "/x.o")
    has(call("Glob", { pattern = "**/*.o" }), "/keep.o")
    -- A file that is named is searched.
    has(call("Grep", { pattern = "needle", path = "/workspace/kernels/x.o" }), "x.o")
  end)
end

function spec.b19_the_same_matches_as_ripgrep_where_that_is_installed()
  within(function(call, context)
    for i = 1, 40 do
      context.workspace:put(("kernels/d%d/f%d.cpp"):format(i % 5, i), ("int f%d();\n%s"):format(i, i % 3 == 0
        and "hit\n" or ""))
    end
    context.workspace:put("kernels/d1/.gitignore", "f1*\n")
    local theirs = bash(call,
      "command -v rg >/dev/null && rg --no-require-git --sort path -l hit kernels | sed 's,^,/workspace/,'")
    local found = theirs:match("^(.-)\n%[exit")
    if found and found ~= "" then
      t.expect(call("Grep", { pattern = "hit", path = "/workspace/kernels" }).text, found)
    end
    has(call("Grep", { pattern = "hit", path = "/workspace/kernels" }), "/workspace/kernels/d0/f15.cpp")
  end)
end

function spec.b20_newest_first_and_equal_times_by_path()
  within(function(call)
    bash(call, "cd kernels; rm a.cpp; touch -d '2020-01-01 10:00' c.cu a.cu b.cu; touch -d '2021-01-01 10:00' old.cu; "
      .. "touch -d '2022-01-01 10:00' new.cu")
    t.expect(call("Glob", { pattern = "kernels/*.cu" }).text, "/workspace/kernels/new.cu\n/workspace/kernels/old.cu\n"
      .. "/workspace/kernels/a.cu\n/workspace/kernels/b.cu\n/workspace/kernels/c.cu")
    bash(call, "for i in $(seq 120); do touch -d '2019-01-01 10:00' many$i.h; done")
    has(call("Glob", { pattern = "**/*.h", path = "/workspace/kernels" }), "[100 of 120 files]")
  end)
end

function spec.a_pattern_from_the_agent_cannot_stop_the_host()
  within(function(call, context)
    context.workspace:put("kernels/evil", ("a"):rep(5000) .. "!\n")
    kit.refused(call("Grep", { pattern = "(a+)+$" }), "limit")
    kit.refused(call("Grep", { pattern = "[" }), "bad_pattern")
    call("Bash", { command = "head -c 30000 /dev/zero | tr '\\0' a; sleep 60", run_in_background = true })
    t.eventually(function()
      local seen = call("BashOutput", { bash_id = "bash_1", filter = "^(a+)+b$" })
      return seen.status ~= "ok" or seen.text:find("[running", 1, true)
    end)
    call("Glob", { pattern = ("{a,b}"):rep(40) })
    call("Glob", { pattern = ("**/"):rep(30) .. "x" })
  end)
end

return spec
