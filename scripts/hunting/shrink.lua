-- Makes what was found smaller: fewer mutations, then fewer lines, as long as it stays a find.

local shrink = {}

--- A list without the elements that are not needed: parts of it are left out, halves first.
---@generic T
---@param list T[]
---@param holds fun(list: T[]): boolean   whether a shorter list will do
---@param budget integer                  calls of `holds` at most
---@return T[] list, integer left         of the budget
function shrink.list(list, holds, budget)
  local size = math.ceil(#list / 2)
  while size >= 1 and #list > 1 do
    local from, removed = 1, false
    while from <= #list and budget > 0 do
      local shorter = {}
      for index, one in ipairs(list) do
        if index < from or index >= from + size then
          shorter[#shorter + 1] = one
        end
      end
      budget = budget - 1
      if #shorter > 0 and holds(shorter) then
        list, removed = shorter, true
      else
        from = from + size
      end
    end
    if budget <= 0 then
      break
    end
    size = (size == 1 and not removed) and 0 or math.max(1, math.floor(size / 2))
  end
  return list, budget
end

--- A text without the lines that are not needed.
---@param text string
---@param holds fun(text: string): boolean
---@param budget integer
---@return string text, integer left
function shrink.text(text, holds, budget)
  local lines = {}
  for line in (text .. "\n"):gmatch("(.-)\n") do
    lines[#lines + 1] = line
  end
  local kept, left = shrink.list(lines, function(shorter) return holds(table.concat(shorter, "\n")) end, budget)
  return table.concat(kept, "\n"), left
end

return shrink
