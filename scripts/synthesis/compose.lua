-- Composes one to five operators into a task, by a seed. The task is the Python file that the judge runs; beside it
-- stands the graph that the tracer will find, for those who need no judge.

local operators = require "synthesis.operators"
local random = require "lib.random"

local compose = {}

---@class (exact) ComposedTask
---@field name string
---@field source string
---@field graph table
---@field family string
---@field chain string        operators in order, without numbers: what may not be shared between sets of tasks
---@field bucket integer      of the chain, 0 to 15
---@field depth integer
---@field size integer[]

local BUCKETS = 16

--- Which of 16 groups a chain of operators belongs to: sets of tasks are told apart by it.
---@param chain string
---@return integer
function compose.bucket(chain)
  return random.bucket("chain " .. chain, BUCKETS)
end

local function candidates(family, state, last)
  local list = {}
  for _, entry in ipairs(operators.LIST) do
    local fits = last and entry.kind == family.last
    for _, kind in ipairs(not last and family.body or {}) do
      fits = fits or entry.kind == kind
    end
    fits = fits and not (entry.needs and state.range ~= entry.needs)
    fits = fits and not (entry.kind == "vector" and state.vectors[entry.vector])
    fits = fits and not (entry.kind == "again" and state.depth == 0)
    -- The same operator twice in a row is mostly the operator itself.
    fits = fits and entry.name ~= state.before
    if fits and (not state.allowed or state.allowed[entry.name]) then
      list[#list + 1] = entry
    end
  end
  return list
end

local function step(entry, state, stream)
  state.depth = state.depth + 1
  state.before = entry.name
  if entry.kind == "vector" then
    state.vectors[entry.vector] = true
    state.vector_order[#state.vector_order + 1] = entry.vector
  end
  if not entry.keeps then
    state.range = entry.range
  end
  state.heavy = state.heavy or entry.cost == "heavy"
  state.steps[#state.steps + 1] = { entry = entry, drawn = stream:pick_each(entry.draw or {}) }
end

local function draw_steps(family, depth, allowed, stream)
  local state = { depth = 0, vectors = {}, vector_order = {}, steps = {}, allowed = allowed }
  for index = 1, depth do
    local list = candidates(family, state, family.last and index == depth)
    if #list == 0 then
      return nil
    end
    step(stream:pick(list), state, stream)
  end
  return state
end

local function source_of(state, size)
  local init, body, operand = {}, {}, "x"
  for _, name in ipairs(state.vector_order) do
    init[#init + 1] = ("        self.%s = nn.Parameter(torch.randn(cols))\n"):format(name)
  end
  for index, use in ipairs(state.steps) do
    body[index] = ("        t%d = %s\n"):format(index, operators.python(use.entry, operand, use.drawn))
    operand = "t" .. index
  end
  local has_vectors = #init > 0
  return table.concat {
    "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n\n\nclass Model(nn.Module):\n",
    has_vectors and "    def __init__(self, cols):\n        super().__init__()\n" or "", table.concat(init),
    has_vectors and "\n" or "", "    def forward(self, x):\n", table.concat(body), "        return ", operand,
    "\n\n\ndef get_inputs():\n    return [torch.randn(", table.concat(size, ", "),
    ")]\n\n\ndef get_init_inputs():\n    return [", has_vectors and tostring(size[#size]) or "", "]\n",
  }
end

local function graph_of(state, size)
  local graph = { inputs = { { name = "x", kind = "input", size = size, dtype = "float32" } }, nodes = {} }
  for _, name in ipairs(state.vector_order) do
    table.insert(graph.inputs, { name = name, kind = "state", size = { size[#size] }, dtype = "float32" })
  end
  local operand = "x"
  for index, use in ipairs(state.steps) do
    graph.nodes[index] = operators.node(use.entry, "t" .. index, operand, use.drawn, size)
    operand = "t" .. index
  end
  graph.output = { operand }
  return graph
end

local function acceptable(family, state, options)
  if options.heavy and not state.heavy then
    return false
  end
  if family.must then
    for _, use in ipairs(state.steps) do
      if use.entry.kind == family.must then
        return true
      end
    end
    return false
  end
  return true
end

---@class (exact) ComposeOptions
---@field families? string[]    one is drawn; a name that stands twice is drawn twice as often; {"chain"}
---@field length? integer[]     least and most operators; {1, 4}
---@field shapes? integer[][]   of the tensor, one is drawn; {{1024, 1024}}
---@field operators? string[]   only these; all of synthesis/operators.lua
---@field heavy? boolean        only tasks in which exp or the like dominates

--- A task.
---@param stream lib.Random
---@param options ComposeOptions
---@return ComposedTask
function compose.task(stream, options)
  local family_name = stream:pick(options.families or { "chain" })
  local family = operators.FAMILIES[family_name] or error("unknown family " .. tostring(family_name), 2)
  local size = stream:pick(options.shapes or { { 1024, 1024 } })
  local length = options.length or { 1, 4 }
  local allowed = options.operators and {}
  for _, name in ipairs(options.operators or {}) do
    allowed[operators.BY_NAME[name] and name or error("unknown operator " .. tostring(name), 2)] = true
  end
  for _ = 1, 1000 do
    local depth = stream:integer(length[1], length[2])
    local state = draw_steps(family, depth, allowed, stream)
    if state and acceptable(family, state, options) then
      local names = {}
      for index, use in ipairs(state.steps) do
        names[index] = use.entry.name
      end
      local chain = table.concat(names, " ")
      return { name = table.concat(names, "_"), source = source_of(state, size), graph = graph_of(state, size),
        family = family_name, chain = chain, bucket = compose.bucket(chain), depth = depth, size = size }
    end
  end
  error(("no task of family %s fits these options"):format(family_name), 2)
end

return compose
