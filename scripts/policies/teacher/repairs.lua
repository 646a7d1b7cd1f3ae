-- How the teacher mends a file: from a wrong and a right text of as many lines to the call that makes one of the other.

local repairs = {}

local MOST_EDITS = 3

local function lines_of(text)
  local list = {}
  for line in (text:sub(-1) == "\n" and text or text .. "\n"):gmatch("(.-)\n") do
    list[#list + 1] = line
  end
  return list
end

local function bare(line)
  return (line:gsub("^%s+", ""):gsub("%s+$", ""))
end

-- Pairs of lines that differ; nil where the texts have other numbers of lines.
local function differences(wrong, right)
  local before, after, list = lines_of(wrong), lines_of(right), {}
  if #before ~= #after then
    return nil
  end
  for at, line in ipairs(before) do
    if line ~= after[at] then
      list[#list + 1] = { line = at, old = bare(line), new = bare(after[at]) }
    end
  end
  return list
end

local function occurs_once(text, part)
  local at, stop = text:find(part, 1, true)
  return at ~= nil and not text:find(part, stop + 1, true)
end

---@class (exact) Repair
---@field call {name: string, arguments: table}
---@field line? integer    the first line that is wrong
---@field old? string      that line
---@field new? string

--- The call that mends a file: Edit for one line, MultiEdit for a few, else Write.
---@param path string
---@param wrong string
---@param right string
---@return Repair
function repairs.of(path, wrong, right)
  local list = differences(wrong, right)
  local first, small = list and list[1] or {}, list ~= nil and #list > 0 and #list <= MOST_EDITS
  for _, pair in ipairs(small and list or {}) do
    -- An edit must find one place, and the edits after it too.
    small = small and pair.old ~= "" and pair.old ~= pair.new and occurs_once(wrong, pair.old)
      and not occurs_once(right, pair.old)
  end
  local call
  if small and #list == 1 then
    call = { name = "Edit", arguments = { file_path = path, old_string = first.old, new_string = first.new } }
  elseif small then
    local edits = {}
    for index, pair in ipairs(list) do
      edits[index] = { old_string = pair.old, new_string = pair.new }
    end
    call = { name = "MultiEdit", arguments = { file_path = path, edits = edits } }
  else
    call = { name = "Write", arguments = { file_path = path, content = (right:gsub("\n$", "")) } }
  end
  return { call = call, line = first.line, old = first.old, new = first.new }
end

--- Calls that show the place of a compiler's error.
---@param path string
---@param repair Repair
---@return table[]
function repairs.look(path, repair)
  local from = math.max((repair.line or 1) - 2, 1)
  return { { name = "Read", arguments = { file_path = path, offset = from, limit = 5 } } }
end

--- Calls that find the statement which computes a value.
---@param path string
---@param repair Repair
---@return table[]
function repairs.search(path, repair)
  local name = (repair.old or ""):match("([%a_][%w_]*)%s*[-+*/]?=[^=]")
  return { { name = "Grep", arguments = { pattern = name and name .. " [-+*/]?=" or "out", path = path,
    output_mode = "content" } } }
end

--- What is thought before mending.
---@param repair Repair
---@param syntax boolean   whether it was a mistake that does not compile
---@return string
function repairs.thought(repair, syntax)
  if repair.call.name == "Edit" then
    return ("%s `%s` must be `%s`."):format(syntax and "The compiler is right:" or "This is wrong:", repair.old,
      repair.new)
  elseif repair.call.name == "MultiEdit" then
    return "Several statements are wrong. I mend all of them."
  end
  return "I write the file again, each statement as forward has it."
end

return repairs
