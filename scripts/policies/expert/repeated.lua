-- A kernel that computes its rows several times over: any time above that of the expert's best can be had, which is how
-- a milestone that lies between two times is shown to be within reach.

local emit = require "policies.expert.emit"

local repeated = {}

-- The body of a variant as a function of its own, which the compiler may neither merge nor leave out.
local function once(lines)
  local texts = {}
  for _, line in ipairs(lines) do
    if not line.text:find("^#include") and not line.text:find("^KHOST_EXPORT") then
      texts[#texts + 1] = line.text
    end
  end
  return (table.concat(texts, "\n"):gsub('^extern "C" int k%(', "__attribute__((noipa)) static int once("))
end

--- The text of the kernel file.
---@param program Program
---@param form {fused: boolean, fast: boolean}
---@param times number    how often each row is computed, at least 1: 2.5 is twice, and half of the rows a third time
---@return string
function repeated.text(program, form, times)
  local body = once(emit.lines(program, form))
  local header = body:match("static int once(%b())")
  local names = {}
  for argument in header:sub(2, -2):gmatch("[^,]+") do
    names[#names + 1] = argument:match("([%w_]+)%s*$")
  end
  local size = header:find("long rows", 1, true) and "rows" or "n"
  local call = "once(" .. table.concat(names, ", ") .. ");"
  local whole = math.floor(times)
  return table.concat({
    form.fast and '#include "fast.h"' or '#include <cmath>\n#include "khost.h"', body,
    'extern "C" int k' .. header .. " {",
    ("  for (int i = 0; i < %d; i++) %s"):format(whole, call),
    ("  %s = static_cast<long>(%.4f * static_cast<double>(%s));"):format(size, times - whole, size),
    "  return " .. call,
    "}", "KHOST_EXPORT(k)", "",
  }, "\n")
end

return repeated
