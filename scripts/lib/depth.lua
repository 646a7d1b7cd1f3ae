-- How deep a value is nested that somebody else's JSON was. The decoder takes 200 levels, the encoder 64.

local depth = {}

--- Whether tables are nested deeper than so many levels.
---@param value any
---@param levels integer
---@return boolean
function depth.is_deeper(value, levels)
  if type(value) ~= "table" then
    return false
  elseif levels == 0 then
    return true
  end
  for _, item in pairs(value) do
    if depth.is_deeper(item, levels - 1) then
      return true
    end
  end
  return false
end

return depth
