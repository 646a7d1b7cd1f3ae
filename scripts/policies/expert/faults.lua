-- Mistakes as people and models make them, one in a statement: the teacher of a base model is unreliable on purpose.

local faults = {}

local FUNCTIONS = { "exp", "tanh", "log1p", "abs", "erf", "sqrt", "log" }

-- Each takes a statement and a stream and returns another statement, or nil where it does not apply.
local KINDS = {
  { name = "number", apply = function(text, random)
    local count = select(2, text:gsub("%d+%.?%d*f", "%0"))
    local at, seen = count > 0 and random:integer(1, count) or 0, 0
    local changed = text:gsub("%d+%.?%d*f", function(number)
      seen = seen + 1
      local value = tonumber(number:sub(1, -2))
      local other = random:pick { value * 2, value / 2, value + 1 }
      return seen == at and (("%.4g"):format(other):gsub("^%d+$", "%0.0")) .. "f" or nil
    end)
    return changed
  end },
  { name = "function", apply = function(text, random)
    local changed = text:gsub("(%a+::)(%w+)%(", function(space, name)
      local other = random:pick(FUNCTIONS)
      return other ~= name and ("%s%s("):format(space == "fast::" and (other == "abs" or other == "sqrt") and "std::"
        or space, other) or nil
    end, 1)
    return changed
  end },
  { name = "sign", apply = function(text)
    local swapped = { [" + "] = " - ", [" - "] = " + " }
    local changed, count = text:gsub(" [+-] ", swapped, 1)
    if count == 0 then
      changed = text:gsub("%(%-", "(", 1)
    end
    return changed
  end },
  { name = "comparison", apply = function(text)
    return (text:gsub(" ([<>]) ", { ["<"] = " > ", [">"] = " < " }, 1))
  end },
  { name = "operator", apply = function(text, random)
    local other = random:pick { "+", "-", "*" }
    return (text:gsub(" [*/] ", " " .. other .. " ", 1))
  end },
  { name = "stale", apply = function(text)
    local head, tail = text:match("^(.-=)(.*)$")
    if not tail then
      return text
    end
    return head .. (tail:gsub("%f[%w]t(%d)", function(digit)
      return digit == "1" and "x[i]" or "t" .. tostring(tonumber(digit) - 1)
    end))
  end },
  { name = "index", apply = function(text)
    local changed, count = text:gsub("%[c%]", "[r]", 1)
    return count > 0 and changed or (text:gsub("=(.-)%[i%]", "=%1[i + 1]", 1))
  end },
  { name = "name", syntax = true, apply = function(text)
    return (text:gsub("= (.-)%f[%w]t(%d)", function(before, digit)
      return "= " .. before .. "t" .. tostring(tonumber(digit) + 5)
    end, 1))
  end },
  { name = "bracket", syntax = true, apply = function(text)
    return (text:gsub("%);", ";", 1))
  end },
}

--- The names of all kinds of mistakes.
faults.KINDS = {}
local by_name = {}
for index, kind in ipairs(KINDS) do
  faults.KINDS[index], by_name[kind.name] = kind.name, kind
end

--- A wrong form of a statement.
---@param text string
---@param random lib.Random
---@param only? string   the name of the one kind that may be planted; any when absent
---@return string|nil text, string? kind, boolean? syntax   nil where no mistake fits
function faults.plant(text, random, only)
  local named = only and (by_name[only] or error("unknown kind of mistake " .. only, 2))
  for _ = 1, 12 do
    local kind = named or random:pick(KINDS)
    local changed = kind.apply(text, random)
    if changed and changed ~= text then
      return changed, kind.name, kind.syntax or false
    end
  end
end

return faults
