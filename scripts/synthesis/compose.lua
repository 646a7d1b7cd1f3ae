-- Composes up to five operators into one task file (CUDA Agent §3.1), by seeded draws: the same stream gives the same
-- tasks. Every operator keeps or reduces the last dimension, so any order has legal shapes.
local operators = require "synthesis.operators"

local compose = {}

local function pick(random, list) return list[random:integer(1, #list)] end

-- With probability p.
local function chance(random, p) return random:number() < p end

local function draw_operator(random, used)
  if chance(random, 0.25) then
    local op = pick(random, operators.binary)
    if not used[op.name] then return op end
  end
  return pick(random, operators.unary)
end

local function write(op, value, random)
  local text = op.text:gsub("%%s", (value:gsub("%%", "%%%%")))
  return (text:gsub("{}", function() return ("%.1f"):format(random:integer(2, 20) / 10) end))
end

-- { length = {1, 4}, rows_share = 0.3, shape = { rows, columns } } -> { source, chain, families }
function compose.task(random, options)
  local low, high = options.length[1], options.length[2]
  local count, used, chain, families, lines = random:integer(low, high), {}, {}, {}, {}
  local needs_y, parameters = false, {}
  local function append(op)
    used[op.name] = true
    chain[#chain + 1] = op.name
    families[op.family] = true
    needs_y = needs_y or op.input
    if op.parameter then parameters[#parameters + 1] = op.parameter end
    lines[#lines + 1] = "        x = " .. write(op, "x", random)
  end
  local ends_in_rows = chance(random, options.rows_share)
  for _ = 1, ends_in_rows and count - 1 or count do append(draw_operator(random, used)) end
  if ends_in_rows then append(pick(random, operators.rows)) end

  local init = {}
  for _, name in ipairs(parameters) do
    init[#init + 1] = ("        self.%s = torch.nn.Parameter(torch.randn(columns))"):format(name)
  end
  local rows, columns = options.shape[1], options.shape[2]
  local tensor = ("torch.randn(%d, %d)"):format(rows, columns)
  local source = table.concat({
    "import torch", "", "",
    "class Model(torch.nn.Module):",
    "    def __init__(self, columns):",
    "        super().__init__()",
    #init > 0 and table.concat(init, "\n") or "        self.columns = columns",
    "",
    needs_y and "    def forward(self, x, y):" or "    def forward(self, x):",
    table.concat(lines, "\n"),
    "        return x", "", "",
    "def get_inputs():",
    needs_y and ("    return [%s, %s]"):format(tensor, tensor) or ("    return [%s]"):format(tensor), "", "",
    "def get_init_inputs():",
    ("    return [%d]"):format(columns), "",
  }, "\n")
  return { source = source, chain = chain, families = families, name = table.concat(chain, "-") }
end

return compose
