---@meta khost.json
-- Text to plain data and back. An empty table is a map, unless marked as a list.

local json = {}

--- Stands for null inside lists.
---@type lightuserdata
json.null = nil

--- A value. What is nested deeper than 200 levels is refused, and where `most_parts` is given, what has more lists,
--- objects and fields of objects than that: for texts of strangers, which may be made of nothing else.
---@param text string
---@param most_parts? number
---@return any value, string? message, string? code
function json.decode(text, most_parts) end

--- Bytes that are not UTF-8 become U+FFFD.
---@param value any
---@param pretty? boolean
---@return string
function json.encode(value, pretty) end

--- Marks a table as a list, also when it is empty.
---@param items? any[]
---@return any[]
function json.list(items) end

return json
