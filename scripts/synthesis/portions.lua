-- Composes the tasks of a suite portion by portion: which depth each has, what the judge says of their shapes, and
-- answers that lie in the output's folder `work`, so that the same command goes on where it was killed.

local ask = require "synthesis.ask"
local fs = require "khost.fs"
local json = require "khost.json"
local library = require "synthesis.library"
local log = require "khost.log"
local progress = require "khost.progress"
local random = require "lib.random"
local stack = require "synthesis.stack"

local portions = {}

portions.PORTION = 128
local LEAST_BATCH = 2  -- of a single layer
-- Of the wall clock; what computes for ever is ended by its own processor time (crawl.py).
local PROBE_SECONDS = 300

local function asked(process, sources, target)
  local answer, message = process:request("crawl", { request = { probe = json.list(sources) }, target = target,
    timeout_s = PROBE_SECONDS })
  return answer and answer.probed, message
end

--- Facts by shape of task files. One that takes the judge's answer away from the others is asked for alone, and is then
--- the only one without facts.
---@param process khost.Judge
---@param target string
---@return fun(sources: string[]): table[]
function portions.probe(process, target)
  return function(sources)
    local facts, message = asked(process, sources, target)
    if facts then
      return facts
    end
    if #sources == 1 then
      return { { error = message } }
    end
    log.warn("shapes_asked_for_alone", { sources = #sources, message = message })
    local answered = 0
    facts = {}
    for index, source in ipairs(sources) do
      local one, why = asked(process, { source }, target)
      facts[index], message = one and one[1] or { error = why }, why or message
      answered = answered + (one and 1 or 0)
    end
    if answered == 0 then  -- no fault of theirs: what is kept now would be taken for the answer later
      error("shapes of composed tasks: " .. message, 0)
    end
    return facts
  end
end

-- Single layers of transformers, when it is installed.
local function layers(work)
  local options = work.options
  local found, message = library.find(work.process, work.folder .. "/transformers.json", "transformers", options.jobs,
    options.target)
  if not found then
    log.warn("transformers_not_crawled", { message = message })
    return { operators = {}, skipped = {} }
  end
  return found
end

-- A task's file with another size of its input; nil where it draws none by torch.randn.
local function resizable(task)
  local inputs = task.source:find("def get_inputs", 1, true) or 1
  local from, to, inside = task.source:find("torch%.randn%(([%d, ]+)%)", inputs)
  if not from then
    return nil
  end
  local size, head, tail = {}, task.source:sub(1, from - 1), task.source:sub(to + 1)
  for n in inside:gmatch("%d+") do
    size[#size + 1] = tonumber(n)
  end
  size[1] = LEAST_BATCH
  local function written(sizes)
    return ("%storch.randn(%s)%s"):format(head, table.concat(sizes[1], ", "), tail)
  end
  return { task = task, sizes = { size }, written = written, source = written { size } }
end

--- Single layers come with a size of their own: they get one by the budget, like stacks, from a batch of two upwards.
--- Changes source and size of those whose shapes can be found.
---@async
---@param tasks {source: string, size: integer[]}[]
---@param probe fun(sources: string[]): table[]
---@param budget table
---@param jobs? integer
function portions.sized(tasks, probe, budget, jobs)
  local items, fitting = {}, {}
  for _, task in ipairs(tasks) do
    items[#items + 1] = resizable(task)
  end
  for index, facts in ipairs(stack.probe_all(probe, items, jobs)) do
    if not facts.error then
      items[index].facts = facts
      fitting[#fitting + 1] = items[index]
    end
  end
  stack.grow(fitting, probe, budget, jobs)
  for _, item in ipairs(fitting) do
    item.task.source, item.task.size = item.written(item.sizes), item.sizes[1]
    item.task.reckoned_s = item.reckoned_s
  end
end

--- What will be composed, in portions of the same mix: {depths, alone: tasks of single layers, first: place}.
---@param work table
---@return table[]
function portions.plan(work)
  local count, seed = work.options.count, work.options.seed
  local found = layers(work)
  local shares = stack.shares(count, stack.MIX, #found.operators > 0)
  local alone = library.alone(found, shares.transformers or 0, random.stream("alone " .. seed))
  local all = {}
  for depth = 1, 5 do
    for _ = 1, shares[depth] do
      all[#all + 1] = depth
    end
  end
  for _, task in ipairs(alone) do
    all[#all + 1] = task
  end
  all = random.stream("mix " .. seed):shuffled(all)
  local planned = {}
  for index, item in ipairs(all) do
    if (index - 1) % portions.PORTION == 0 then
      planned[#planned + 1] = { depths = {}, alone = {}, first = index }
    end
    local portion = planned[#planned]
    table.insert(type(item) == "table" and portion.alone or portion.depths, item)
  end
  return planned
end

--- The tasks of one portion, composed or known from before.
---@async
---@param work table
---@param found table     the library
---@param portion table
---@return {tasks: table[], given_up: integer}
function portions.compose(work, found, portion)
  local options = work.options
  local file = ("%s/composed-%d.json"):format(work.folder, portion.first)
  local text = fs.read(file)
  local known = text and json.decode(text)
  if type(known) == "table" then
    return known
  end
  local bar, before = progress.begin("compose", #portion.depths), 0
  local settings = { budget = stack.BUDGETS[options.target], jobs = options.jobs, progress = function(done)
    bar:add(done - before)
    before = done
  end }
  local probe, seed = portions.probe(work.process, options.target), ("%d from %d"):format(options.seed, portion.first)
  local tasks, given_up
  if options.composer then
    tasks, given_up = ask.compose(found, portion.depths, seed, probe, options.composer, settings)
  else
    tasks, given_up = stack.compose(found, portion.depths, seed, probe, settings)
  end
  bar:finish()
  portions.sized(portion.alone, probe, settings.budget, options.jobs)
  for _, task in ipairs(portion.alone) do
    tasks[#tasks + 1] = task
  end
  local composed = { tasks = tasks, given_up = given_up }
  assert(fs.write(file, json.encode(composed)))
  return composed
end

return portions
