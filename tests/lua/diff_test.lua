-- lib.diff: unified differences.
local diff = require "lib.diff"
local random = require "lib.random"
local t = require "tests.lua.harness"

local function numbered(first, last)
  local lines = {}
  for i = first, last do lines[#lines + 1] = tostring(i) end
  return table.concat(lines, "\n") .. "\n"
end

local spec = {}

function spec.equal_texts_have_none()
  t.expect(diff.unified("a", "x\n", "x\n"), "")
  t.expect(diff.unified("a", nil, nil), "")
end

function spec.a_changed_line_has_three_lines_around_it()
  t.expect(diff.unified("k.cpp", numbered(1, 20), (numbered(1, 20):gsub("\n10\n", "\nten\n"))),
    "--- a/k.cpp\n+++ b/k.cpp\n@@ -7,7 +7,7 @@\n 7\n 8\n 9\n-10\n+ten\n 11\n 12\n 13\n")
end

function spec.new_and_removed_files()
  t.expect(diff.unified("a", nil, "1\n2\n"), "--- /dev/null\n+++ b/a\n@@ -0,0 +1,2 @@\n+1\n+2\n")
  t.expect(diff.unified("a", "1\n", false), "--- a/a\n+++ /dev/null\n@@ -1 +0,0 @@\n-1\n")
end

function spec.sets_of_files_come_by_path()
  local text = diff.files({ b = "1\n", c = "same\n" }, { a = "2\n", b = "3\n", c = "same\n" })
  t.expect(select(2, text:gsub("%-%-%- ", "")), 2)
  t.is_true(text:find("b/a", 1, true) < text:find("b/b", 1, true))
end

-- What `patch` does, as far as hunks of ours go.
local function apply(before, text)
  local old, out, at = {}, {}, 1
  for line in before:gmatch("(.-)\n") do old[#old + 1] = line end
  local begin
  for line in text:gmatch("(.-)\n") do
    local first, count = line:match("^@@ %-(%d+),?(%d*)")
    if first then
      begin = tonumber(first) + (count == "0" and 1 or 0)
      while at < begin do
        out[#out + 1], at = old[at], at + 1
      end
    elseif begin then
      local sign, rest = line:sub(1, 1), line:sub(2)
      if sign ~= "+" then
        t.expect(old[at], rest)
        at = at + 1
      end
      if sign ~= "-" then out[#out + 1] = rest end
    end
  end
  while old[at] do
    out[#out + 1], at = old[at], at + 1
  end
  return #out > 0 and table.concat(out, "\n") .. "\n" or ""
end

function spec.applied_to_the_first_text_it_gives_the_second()
  local stream = random.stream(7)
  local function text()
    local lines = {}
    for i = 1, stream:integer(1, 40) do lines[i] = tostring(stream:integer(1, 6)) end
    return table.concat(lines, "\n") .. "\n"
  end
  for _ = 1, 300 do
    local a, b = text(), text()
    t.expect(apply(a, diff.unified("x", a, b)), b)
  end
end

return spec
