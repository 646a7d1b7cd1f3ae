-- What chat formats share: lists of token ids are put together, never encoded twice.

local tokens = {}

--- Appends ids to a list, which is returned.
---@param list integer[]
---@param more integer[]
---@return integer[]
function tokens.append(list, more)
  for _, token in ipairs(more) do
    list[#list + 1] = token
  end
  return list
end

return tokens
