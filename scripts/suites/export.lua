-- Writes suites: one Python file a task (levels as folders, as KernelBench has them) or JSON lines.

local fs = require "khost.fs"
local json = require "khost.json"

local export = {}

local function file_name(task)
  local name = task.name:gsub("[^%w%-_%.]", "_")
  return name:match("%.py$") and name or name .. ".py"
end

--- A folder of task files; tasks with a level go to level<N>/. Names that stand twice are refused.
---@param tasks SuiteTask[]
---@param folder string
---@return true|nil, string? message, string? code
function export.folder(tasks, folder)
  local taken = {}
  for _, task in ipairs(tasks) do
    local place = task.level and ("%s/level%d"):format(folder, task.level) or folder
    local path = ("%s/%s"):format(place, file_name(task))
    if taken[path] then
      return nil, ("two tasks would become %s: %s and %s"):format(path, taken[path], task.id), "bad_input"
    end
    taken[path] = task.id
    assert(fs.mkdirs(place))
    local ok, message, code = fs.write(path, task.source)
    if not ok then
      return nil, message, code
    end
  end
  return true
end

--- JSON lines: id, name, level, code and what the suite said besides.
---@param tasks SuiteTask[]
---@return string
function export.jsonl(tasks)
  local lines = {}
  for index, task in ipairs(tasks) do
    local record = { id = task.id, name = task.name, level = task.level, code = task.source }
    for key, value in pairs(task.origin or {}) do
      record[key] = record[key] == nil and value or record[key]
    end
    lines[index] = json.encode(record)
  end
  return table.concat(lines, "\n") .. "\n"
end

--- To a folder or, when the path ends in .jsonl, to a file.
---@param tasks SuiteTask[]
---@param path string
---@return true|nil, string? message, string? code
function export.suite(tasks, path)
  if path:match("%.jsonl$") then
    return fs.write(path, export.jsonl(tasks))
  end
  return export.folder(tasks, path)
end

return export
