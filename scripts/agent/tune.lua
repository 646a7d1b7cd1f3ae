-- Sweeps an integer constant of a candidate: the files with each of its values, each timed on visible inputs.

local verdicts = require "judge.verdict"

local tune = {}

local MOST_VALUES = 16

-- Where a constant is defined, as patterns around its number.
local function forms(name)
  return { "(#define[ \t]+" .. name .. "[ \t]+)(%-?%d+)()", "(constexpr%s+[%w_:]+%s+" .. name .. "%s*=%s*)(%-?%d+)()",
    "(const%s+[%w_:]+%s+" .. name .. "%s*=%s*)(%-?%d+)()" }
end

-- The one definition: its file, and the text in front of and behind its number.
local function definition(files, name)
  local found
  for path, text in pairs(files) do
    local patterns = path == "model_new.py" and { "(%f[%w_]" .. name .. "[ \t]*=[ \t]*)(%-?%d+)()" } or forms(name)
    for _, pattern in ipairs(patterns) do
      local from = 1
      while true do
        local begin, _, before, number, behind = text:find(pattern, from)
        if not begin then
          break
        elseif found then
          return nil, ("%s is defined in %s and in %s: one definition is needed"):format(name, found.path, path)
        end
        found = { path = path, head = text:sub(1, begin - 1) .. before, value = tonumber(number),
          tail = text:sub(behind) }
        from = behind
      end
    end
  end
  if not found then
    return nil, ("no file defines %s: write `#define %s 0` or `constexpr int %s = 0;` in kernels/, "
      .. "or `%s = 0` in model_new.py")
      :format(name, name, name, name)
  end
  return found
end

--- What is wrong with a request {name, values}; nil for nothing.
---@param request table
---@return string|nil
function tune.wrong(request)
  local name, values = request.name, request.values
  if type(name) ~= "string" or not name:find("^[%a_][%w_]*$") or #name > 64 then
    return "tune: a name and its values are needed"
  elseif type(values) ~= "table" or #values == 0 or #values > MOST_VALUES then
    return ("tune: 1 to %d values are needed"):format(MOST_VALUES)
  end
  for _, value in ipairs(values) do
    if type(value) ~= "number" or value ~= math.floor(value) or math.abs(value) > 2 ^ 31 then
      return "tune: the values must be whole numbers"
    end
  end
end

--- Answers a request {name, values}: a table of times. nil where the judge said nothing about one of the values, which
--- says nothing about the candidate.
---@async
---@param request table
---@param files table<string, string>
---@param profile fun(files: table<string, string>): table|nil, string?, string?   {times, status, reason}
---@return {ok: boolean, text: string}|nil answer, string? message, string? code
function tune.answer(request, files, profile)
  local wrong = tune.wrong(request)
  if wrong then
    return { ok = false, text = wrong }
  end
  local place, why = definition(files, request.name)
  if not place then
    return { ok = false, text = "tune: " .. why }
  end
  local lines, best = {}, nil
  for index, value in ipairs(request.values) do
    local changed = {}
    for path, text in pairs(files) do
      changed[path] = text
    end
    changed[place.path] = ("%s%d%s"):format(place.head, value, place.tail)
    local answer, message, code = profile(changed)
    if not answer then
      return nil, message, code
    elseif answer.status and verdicts.is_void(answer) then
      return nil, ("%s %s"):format(answer.reason or "", answer.detail or ""), "void"
    end
    local time = verdicts.passed(answer) and answer.times and answer.times.candidate_s
    lines[index] = ("%s = %-6d %s"):format(request.name, value, time and ("%.4f ms"):format(time * 1e3)
      or ("%s %s"):format(answer.status, answer.reason or ""))
    if time and (not best or time < best.time) then
      best = { time = time, value = value }
    end
  end
  lines[#lines + 1] = best and ("fastest: %s = %d; %s still says %d"):format(request.name, best.value, place.path,
    place.value)
    or "no value gave a correct result"
  return { ok = best ~= nil, text = table.concat(lines, "\n") }
end

return tune
