-- Tables for people: rows of texts as aligned columns.

local score = require "evaluation.score"

local tables = {}

tables.text = score.text

--- A number as tables show it.
---@param value any
---@return string
function tables.number(value)
  if type(value) ~= "number" or value ~= value then
    return value == nil and "-" or tostring(value)
  end
  if value == math.floor(value) and math.abs(value) < 1e9 then
    return ("%d"):format(value)
  end
  return ("%.3f"):format(value)
end

--- Counts by name, most frequent first.
---@param title string
---@param what string
---@param counts table<string, integer>
---@return {title: string, columns: string[], rows: string[][]}
function tables.counts(title, what, counts)
  local rows = {}
  for name, count in pairs(counts) do
    rows[#rows + 1] = { name, tostring(count), count }
  end
  table.sort(rows, function(a, b)
    return a[3] > b[3] or a[3] == b[3] and a[1] < b[1]
  end)
  for _, row in ipairs(rows) do
    row[3] = nil
  end
  return { title = title, columns = { what, "count" }, rows = rows }
end

--- Records under named columns.
---@param title string
---@param columns string[]
---@param records table[]
---@return {title: string, columns: string[], rows: string[][]}
function tables.of(title, columns, records)
  local rows = {}
  for index, record in ipairs(records) do
    rows[index] = {}
    for place, column in ipairs(columns) do
      rows[index][place] = tables.number(record[column])
    end
  end
  return { title = title, columns = columns, rows = rows }
end

return tables
