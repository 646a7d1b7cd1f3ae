-- The sets of a pipeline from a suite of tasks: what recipes/synthesize.lua made, a pack, KernelBench, CUDA-Agent's
-- release, or a folder of task files (suites.load). Tasks that are the same chain of operators stand in one bucket of
-- sets, so that training, validation and evaluation share none.

local fs = require "khost.fs"
local load = require "suites.load"
local log = require "khost.log"
local random = require "lib.random"

local from_suite = {}

-- Buckets of sets that may share chains; in each the timed sets come first.
local BUCKETS = { { "test", "held_out" }, { "validation_timed", "validation" }, { "train", "drill" } }

-- What may not be shared between buckets: the suite's own word for what the task is made of, else its text.
local function key_of(task)
  return task.origin and task.origin.chain or task.hash
end

local function family_of(task)
  local depth = task.origin and task.origin.depth
  return depth and ("%d-op"):format(depth) or task.level and ("level%d"):format(task.level) or "suite"
end

-- Tasks with the same key in the order of the suite; the keys shuffled by the seed.
local function grouped(tasks, seed)
  local groups, keys = {}, {}
  for _, task in ipairs(tasks) do
    local key = key_of(task)
    if not groups[key] then
      groups[key], keys[#keys + 1] = {}, key
    end
    table.insert(groups[key], task)
  end
  return groups, random.stream(("%d suite"):format(seed)):shuffled(keys)
end

-- How many tasks each set gets: what is wanted, or its share where the suite is smaller than that; one at least.
local function shares(wanted, count)
  local sum, list = 0, {}
  for _, number in pairs(wanted) do
    sum = sum + number
  end
  for split, number in pairs(wanted) do
    list[split] = number > 0 and math.max(1, math.floor(number * math.min(1, count / sum))) or 0
  end
  return list
end

--- Deals tasks out to sets.
---@param tasks SuiteTask[]
---@param wanted table<string, integer>   by set: test, held_out, validation_timed, validation, train, drill
---@param seed integer
---@return table<string, table[]>   by set: tasks as the pipeline composes them, without a graph
function from_suite.deal(tasks, wanted, seed)
  local groups, keys = grouped(tasks, seed)
  local most, sets, at = shares(wanted, #tasks), {}, 1
  for _, bucket in ipairs(BUCKETS) do
    for _, split in ipairs(bucket) do
      sets[split] = {}
    end
    local place = 1
    while place <= #bucket and at <= #keys do
      local set = sets[bucket[place]]
      if #set >= (most[bucket[place]] or 0) then
        place = place + 1
      else
        for _, task in ipairs(groups[keys[at]]) do
          set[#set + 1] = { name = task.name, source = task.source, family = family_of(task),
            chain = task.origin and task.origin.chain, depth = task.origin and task.origin.depth,
            compile_cache = task.compile_cache }
        end
        at = at + 1
      end
    end
  end
  return sets
end

--- The sets of the suite that `tasks.suite` names. Raises where it cannot be read.
---@async
---@param run table                       run.pipeline
---@param wanted table<string, integer>
---@return table<string, table[]>
function from_suite.sets(run, wanted)
  local path, target = run.config.tasks.suite, run.config.machine.target
  local tasks, message = load.suite(path:sub(1, 1) == "/" and path or fs.root() .. "/" .. path, { target = target })
  if not tasks then
    error("tasks.suite: " .. message, 0)
  end
  local made_for = tasks[1].origin and tasks[1].origin.target
  if made_for and made_for ~= target then
    log.warn("suite_of_another_target", { suite = path, made_for = made_for, target = target })
  end
  return from_suite.deal(tasks, wanted, run.seed)
end

return from_suite
