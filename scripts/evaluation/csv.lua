-- Comma-separated values (RFC 4180).

local csv = {}

local function cell(value)
  if value == nil then
    return ""
  end
  local text = type(value) == "number" and ("%.9g"):format(value) or tostring(value)
  if text:find('[,"\r\n]') then
    return '"' .. text:gsub('"', '""') .. '"'
  end
  return text
end

--- A header and one line a record; absent fields are empty.
---@param columns string[]
---@param records table<string, any>[]
---@return string
function csv.text(columns, records)
  local lines = { table.concat(columns, ",") }
  for _, record in ipairs(records) do
    local cells = {}
    for index, column in ipairs(columns) do
      cells[index] = cell(record[column])
    end
    lines[#lines + 1] = table.concat(cells, ",")
  end
  return table.concat(lines, "\n") .. "\n"
end

return csv
