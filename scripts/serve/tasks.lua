-- The tasks that a service knows by hash: those of the suites it was started with. A hash is that of the task's text;
-- an id of a suite names a task too where no other suite has it.

local load = require "suites.load"

local tasks = {}

local Tasks = {}
Tasks.__index = Tasks

--- Reads suites, folders or files.
---@async
---@param paths string[]
---@return table|nil, string? message
function tasks.load(paths)
  local self = setmetatable({ by_hash = {}, by_id = {}, count = 0 }, Tasks)
  for _, path in ipairs(paths) do
    local list, message = load.suite(path)
    if not list then
      return nil, message
    end
    for _, task in ipairs(list) do
      self:add(task)
    end
  end
  return self
end

function Tasks:add(task)
  if self.by_hash[task.hash] then
    return
  end
  self.by_hash[task.hash] = task
  self.count = self.count + 1
  self.by_id[task.id] = self.by_id[task.id] == nil and task or false
end

--- A task by its hash or by its id; nil and why.
---@param name string
---@return SuiteTask|nil, string? message
function Tasks:find(name)
  local found = self.by_hash[name] or self.by_id[name]
  if found then
    return found
  elseif found == false then
    return nil, "several loaded suites have a task of this id: name it by its hash"
  end
  return nil, ("no loaded task has this hash or id; %d are loaded"):format(self.count)
end

return tasks
