-- Stacks one to five crawled operators into a layer, by a seed: each next operator fits the shape and the values that
-- the one before gives. Shapes are not guessed: the judge's structure check says what each proposal returns.
--
-- Depths follow the paper's table 3; a policy that composes instead of chance goes through the same checks
-- (synthesis/ask.lua).

local library = require "synthesis.library"
local random = require "lib.random"
local sched = require "khost.sched"

local stack = {}

-- Table 3 of the paper: percent of tasks by number of torch operators, and single operators of transformers.
stack.MIX = { 3.19, 75.11, 8.95, 2.88, 1.53, transformers = 8.33 }

-- How often a kind of operator is drawn, against the others that fit.
local WEIGHTS = { pointwise = 3, activation = 4, reduction = 2, shape = 1, pooling = 2, padding = 0.5, conv = 3,
  batchnorm = 2, normalization = 3, instancenorm = 1, linear = 4, rnn = 0.5, transformer = 0.5, upsampling = 1,
  pixelshuffle = 0.5, channelshuffle = 0.3, flatten = 0.3, fold = 0.2 }
-- What a target is reckoned to do, for sizes by time; the filter measures. cuda: a data-center GPU of 2022 or later,
-- fp32 products without tensor cores.
stack.BUDGETS = {
  cpu = { seconds = { 0.002, 0.05 }, flops_per_s = 1.5e10, bytes_per_s = 4e9, peak_bytes = 128 * 2 ^ 20 },
  cuda = { seconds = { 0.002, 0.05 }, flops_per_s = 4e13, bytes_per_s = 2.5e12, peak_bytes = 6 * 2 ^ 30 },
}
stack.BUDGET = stack.BUDGETS.cpu
local TRIES, BATCH, PORTION, GROWN = 40, 24, 256, 6
-- Steps of the leading dimension within a power of two.
local NICE = { 1, 1.25, 1.5, 1.75, 2 }

-- Values of the left are also values of the right.
local FITS = { any = { any = true }, bounded = { any = true, bounded = true },
  positive = { any = true, positive = true },
  unit = { any = true, bounded = true, positive = true, unit = true } }

--- How many tasks of each depth; largest remainders, so that they add up.
---@param count integer
---@param mix? table          stack.MIX
---@param transformers? boolean   whether such operators are there; without them their share goes to the others
---@return table<integer|string, integer>
function stack.shares(count, mix, transformers)
  mix = mix or stack.MIX
  local keys, sum = { 1, 2, 3, 4, 5 }, 0
  if transformers and mix.transformers then
    keys[6] = "transformers"
  end
  for _, key in ipairs(keys) do
    sum = sum + (mix[key] or 0)
  end
  local out, left, rest = {}, count, {}
  for index, key in ipairs(keys) do
    local exact = count * (mix[key] or 0) / sum
    out[key] = math.floor(exact)
    left = left - out[key]
    rest[index] = { key = key, part = exact - out[key], index = index }
  end
  table.sort(rest, function(a, b) return a.part > b.part or a.part == b.part and a.index < b.index end)
  for i = 1, left do
    out[rest[i].key] = out[rest[i].key] + 1
  end
  return out
end

local function case_of(operator, dimensions, gives)
  for _, case in ipairs(operator.cases) do
    if #case.size == dimensions and FITS[gives][case.needs] then
      return case
    end
  end
end

-- Operators that fit, with the weight of their category shared among them.
local function fitting(operators, size, gives, before)
  local list, members = {}, {}
  for _, operator in ipairs(operators) do
    local case = operator ~= before and case_of(operator, #size, gives)
    if case then
      list[#list + 1] = { operator = operator, case = case }
      members[operator.category] = (members[operator.category] or 0) + 1
    end
  end
  local total = 0
  for _, item in ipairs(list) do
    item.weight = (WEIGHTS[item.operator.category] or 1) / members[item.operator.category]
    total = total + item.weight
  end
  return list, total
end

local function pick(list, total, stream)
  local at = stream:number() * total
  for _, item in ipairs(list) do
    at = at - item.weight
    if at <= 0 then
      return item
    end
  end
  return list[#list]
end

local function begin(depth, stream)
  local dimensions = stream:pick { 2, 2, 3, 3, 4, 4, 4, 5 }
  local size = {}
  for index, n in ipairs(library.SIZES[dimensions]) do
    size[index] = n
  end
  return { depth = depth, uses = {}, sizes = { size }, needs = nil, gives = "any", stream = stream, tries = 0 }
end

-- The next proposal of a task that is not finished; nil when nothing fits.
local function propose(task, operators)
  local size = task.sizes[#task.uses + 1]
  local last = task.uses[#task.uses]
  -- The first operator chooses what the input is drawn from.
  local gives = #task.uses == 0 and "unit" or task.gives
  local list, total = fitting(operators, size, gives, last and last.operator)
  if #list == 0 then
    return nil
  end
  local item = pick(list, total, task.stream)
  local use = { operator = item.operator, values = task.stream:pick_each(item.case.legal), gives = item.case.gives,
    needs = item.case.needs }
  local uses = {}
  for index, old in ipairs(task.uses) do
    uses[index] = old
  end
  uses[#uses + 1] = use
  return { use = use, uses = uses, source = library.source(uses, task.sizes, uses[1].needs) }
end

local function reckoned_seconds(facts, budget)
  return facts.flops / budget.flops_per_s + 8 * facts.elements / budget.bytes_per_s
end

-- Takes a proposal over when the judge's answer says that it works and keeps within the budget.
local function settle(task, proposal, facts, budget)
  task.tries = task.tries + 1
  local out = not facts.error and facts.outputs[1]
  if not out or #facts.outputs ~= 1 or facts.peak_bytes > budget.peak_bytes
    or reckoned_seconds(facts, budget) > budget.seconds[2] or #facts.unused_parameters > 0 then
    return false
  end
  local elements = 1
  for _, n in ipairs(out.size) do
    elements = elements * n
  end
  local last = #proposal.uses == task.depth
  -- What shrinks to nothing early leaves the rest of the stack without work.
  if out.dtype ~= "float32" or #out.size == 0 or elements < (last and 16 or 4096) then
    return false
  end
  task.uses, task.facts = proposal.uses, facts
  task.sizes[#task.uses + 1] = out.size
  task.gives = proposal.use.gives
  return true
end

local function describe(task)
  local names = {}
  for index, use in ipairs(task.uses) do
    names[index] = use.operator.name
  end
  return { name = table.concat(names, "_"):gsub("[%.]", "_"):gsub("torch_", ""):gsub("nn_", ""), depth = task.depth,
    chain = table.concat(names, " "), source = library.source(task.uses, task.sizes, task.uses[1].needs),
    size = task.sizes[1], reckoned_s = task.reckoned_s }
end

--- The facts of all proposals, asked for in portions that fit one question and run side by side.
---@async
---@param probe fun(sources: string[]): table[]
---@param proposals {source: string}[]
---@param jobs? integer
---@return table[]
function stack.probe_all(probe, proposals, jobs)
  local parts, facts = {}, {}
  for from = 1, #proposals, BATCH do
    local part = {}
    for index = from, math.min(#proposals, from + BATCH - 1) do
      part[#part + 1] = proposals[index].source
    end
    parts[#parts + 1] = part
  end
  local answers = #parts < 2 and { parts[1] and probe(parts[1]) }
    or sched.map(parts, probe, { limit = jobs or 1, on_failure = "raise" })
  for _, answer in ipairs(answers) do
    for _, one in ipairs(answer) do
      facts[#facts + 1] = one
    end
  end
  return facts
end

--- The least number of at least `n` that is a power of two times 1, 1.25, 1.5 or 1.75.
---@param n number
---@return integer
function stack.nice(n)
  local power = 2 ^ math.floor(math.log(math.max(n, 4)) / math.log(2))
  for _, step in ipairs(NICE) do
    if power * step >= n then
      return power * step
    end
  end
  return power * 2
end

--- Changes the leading dimension of each task so that the reckoned time reaches the budget's least;
--- half of the way where that is too much. A task: {facts, sizes: those of the input first, written(sizes):
--- its source at such sizes}; gets reckoned_s.
---@async
---@param tasks table[]
---@param probe fun(sources: string[]): table[]
---@param budget table
---@param jobs? integer
function stack.grow(tasks, probe, budget, jobs)
  local growing = {}
  for _, task in ipairs(tasks) do
    task.reckoned_s = reckoned_seconds(task.facts, budget)
    if task.reckoned_s < budget.seconds[1] then
      task.factor = budget.seconds[1] / task.reckoned_s
      growing[#growing + 1] = task
    end
  end
  for _ = 1, GROWN do
    local proposals, still = {}, {}
    for index, task in ipairs(growing) do
      local sizes = { { unpack(task.sizes[1]) } }
      sizes[1][1] = stack.nice(sizes[1][1] * task.factor)
      for i = 2, #task.sizes do
        sizes[i] = task.sizes[i]
      end
      proposals[index] = { sizes = sizes, source = task.written(sizes) }
    end
    for index, facts in ipairs(stack.probe_all(probe, proposals, jobs)) do
      local task = growing[index]
      local seconds = not facts.error and reckoned_seconds(facts, budget)
      if seconds and seconds <= budget.seconds[2] and facts.peak_bytes <= budget.peak_bytes then
        if seconds > task.reckoned_s then
          task.sizes[1], task.facts, task.reckoned_s = proposals[index].sizes[1], facts, seconds
        end
      elseif task.factor > 2 then
        task.factor = math.sqrt(task.factor)
        still[#still + 1] = task
      end
    end
    growing = still
    if #growing == 0 then
      break
    end
  end
end

---@class (exact) StackedTask
---@field name string
---@field chain string       operators in order
---@field depth integer
---@field source string
---@field size integer[]     of the input
---@field reckoned_s number  by the budget's rates

-- One portion: round by round a proposal for each task that is not finished.
local function compose_portion(open, found, probe, budget, jobs, finished)
  local done, given_up = {}, 0
  while #open > 0 do
    local proposals, asked, still = {}, {}, {}
    for _, task in ipairs(open) do
      local proposal = task.tries < TRIES and propose(task, found.operators)
      if proposal then
        proposals[#proposals + 1], asked[#asked + 1] = proposal, task
      else
        given_up = given_up + 1
      end
    end
    for index, facts in ipairs(stack.probe_all(probe, proposals, jobs)) do
      local task = asked[index]
      settle(task, proposals[index], facts, budget)
      if #task.uses == task.depth then
        done[#done + 1] = task
      else
        still[#still + 1] = task
      end
    end
    open = still
    finished(#done)
  end
  for _, task in ipairs(done) do
    task.written = function(sizes) return library.source(task.uses, sizes, task.uses[1].needs) end
  end
  stack.grow(done, probe, budget, jobs)
  table.sort(done, function(a, b) return a.index < b.index end)
  return done, given_up
end

--- Composes tasks of the given depths. Each has a stream of its own: the same seed and place give the same task.
---@async
---@param found table                     the library
---@param depths integer[]                one task each
---@param seed string|integer
---@param probe fun(sources: string[]): table[]   facts by shape of task files, or {error}
---@param options? {budget?: table, jobs?: integer, progress?: fun(done: integer)}
---@return StackedTask[] tasks, integer given_up
function stack.compose(found, depths, seed, probe, options)
  local budget = options and options.budget or stack.BUDGET
  local tasks, given_up = {}, 0
  for from = 1, #depths, PORTION do
    local open = {}
    for index = from, math.min(#depths, from + PORTION - 1) do
      local task = begin(depths[index], random.stream(("stack %s %d"):format(seed, index)))
      task.index, open[#open + 1] = index, task
    end
    local before = #tasks
    local done, lost = compose_portion(open, found, probe, budget, options and options.jobs, function(count)
      if options and options.progress then
        options.progress(before + count)
      end
    end)
    given_up = given_up + lost
    for _, task in ipairs(done) do
      tasks[#tasks + 1] = describe(task)
    end
  end
  return tasks, given_up
end

return stack
