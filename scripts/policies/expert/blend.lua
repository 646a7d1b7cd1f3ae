-- A kernel whose first rows go a slow way and the rest a fast one: any time between two variants of the expert can be
-- had, which is how a milestone that lies between them is shown to be within reach.

local emit = require "policies.expert.emit"

local blend = {}

-- The body of a variant as a function of another name, without its includes and its export.
local function part(rows, form, name)
  local texts = {}
  for _, line in ipairs(emit.lines(rows, form)) do
    if not line.text:find("^#include") and not line.text:find("^KHOST_EXPORT") then
      texts[#texts + 1] = line.text
    end
  end
  local text = table.concat(texts, "\n")
  return (text:gsub('^extern "C" int k%(', "static int " .. name .. "("))
end

-- How the arguments of a part differ from the kernel's: pointers to full tensors move on by elements, row results by rows.
local function arguments(program, rows, offset, count)
  local list = {}
  for _, input in ipairs(program.inputs) do
    local moves = input.kind == "full" and (rows and " + %s * cols" or " + %s") or input.kind == "row" and " + %s" or ""
    list[#list + 1] = input.name .. moves:format(offset)
  end
  local full = program.result.kind == "full"
  list[#list + 1] = "out" .. (full and rows and " + %s * cols" or " + %s"):format(offset)
  list[#list + 1] = rows and count .. ", cols" or count
  return table.concat(list, ", ")
end

-- Definitions in an order that compiles: fast.h turns on other flags for all that follows it.
local function definitions(slow, first, fast, second)
  local parts = { "#include <cmath>", '#include "khost.h"' }
  if not slow.fast then
    parts[#parts + 1] = first
  end
  if not fast.fast then
    parts[#parts + 1] = second
  end
  parts[#parts + 1] = '#include "fast.h"'
  if slow.fast then
    parts[#parts + 1] = first
  end
  if fast.fast then
    parts[#parts + 1] = second
  end
  return parts
end

--- The text of the kernel file; nil where a variant needs scratch memory.
---@param program Program
---@param slow {fused: boolean, fast: boolean}
---@param fast {fused: boolean, fast: boolean}
---@param share number    of the rows (or elements) that go the slow way, 0 to 1
---@return string|nil
function blend.text(program, slow, fast, share)
  local first, second = part(program, slow, "first_rows"), part(program, fast, "other_rows")
  local header = first:match("^static int first_rows(%b())")
  if header:find("khost::workspace", 1, true) then
    return nil
  end
  local rows = header:find("long rows", 1, true) ~= nil
  local all = rows and "rows" or "n"
  local parts = definitions(slow, first, fast, second)
  for _, line in ipairs {
    'extern "C" int k' .. header .. " {",
    ("  const long cut = static_cast<long>(%.4f * static_cast<double>(%s));"):format(share, all),
    ("  first_rows(%s);"):format(arguments(program, rows, "0", "cut")),
    ("  return other_rows(%s);"):format(arguments(program, rows, "cut", all .. " - cut")),
    "}", "KHOST_EXPORT(k)", "",
  } do
    parts[#parts + 1] = line
  end
  return table.concat(parts, "\n")
end

return blend
