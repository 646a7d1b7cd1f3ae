-- Prompts of the supervised start: one fixed prompt a task, or variants that differ in the wording of the rules and
-- in the worked examples. Examples of variants are verified answers of the expert.

local random = require "lib.random"

local prompts = {}

prompts.VARIANTS = 6

-- The same rules in other words; a third of the variants keeps the data's own text.
local REPHRASED = {
  table.concat {
    "You translate PyTorch modules into CUDA. Reply with one ```cuda block: a complete .cu file and no other ",
    "text.\n",
    "The file includes \"khost.h\" and has __global__ kernels and one function extern \"C\" int run(...), ",
    "announced by KHOST_EXPORT(run), which launches them on khost::cuda(stream) and returns ",
    "cudaGetLastError().\n",
    "run takes, by name: const float* for each argument of forward and for each parameter of the module, ",
    "float* out for the result, then those of int64_t n (elements of out), int64_t rows and int64_t cols (of ",
    "the first input: its rows and the size of its last dimension) that you need, and khost::stream* stream ",
    "as the last.\n",
    "Only CUDA C++ counts: no PyTorch functions, no synchronisation, no allocation.",
  },
  table.concat {
    "Task: write the CUDA kernel for a given PyTorch model.\n",
    "How the file must look: #include \"khost.h\" first; kernels; a launcher extern \"C\" int run(arguments) that ",
    "ends in return cudaGetLastError(); last line KHOST_EXPORT(run).\n",
    "How arguments are found: each has the name of what it is. Inputs and parameters are const float*, the ",
    "output is float* out, sizes are int64_t n, rows, cols (elements of the output; rows and last dimension ",
    "of the first input), the stream is khost::stream* stream and comes last.\n",
    "Not allowed: torch, F, memory allocation, waiting for the device.\n",
    "Output: one ```cuda block, nothing before or after it.",
  },
}

local Prompts = {}
Prompts.__index = Prompts

--- What a user's turn says about a model.
---@param source string
---@return string
function prompts.question(source)
  return "Model:\n```python\n" .. source .. "```"
end

--- An answer's turn.
---@param code string
---@return string
function prompts.answer(code)
  return "```cuda\n" .. code .. "```"
end

--- ChatML tokens, up to where the assistant's turn begins.
---@param policy khost.Policy
---@param messages {role: string, text: string}[]
---@return integer[]
function prompts.tokens(policy, messages)
  local tokens = {}
  local function add(text, special)
    for _, token in ipairs(policy:encode(text, { special = special })) do
      tokens[#tokens + 1] = token
    end
  end
  for _, message in ipairs(messages) do
    add("<|im_start|>" .. message.role .. "\n", true)
    add(message.text, false)
    add("<|im_end|>\n", true)
  end
  add("<|im_start|>assistant\n", true)
  return tokens
end

--- `examples`: the fixed prompt's turns; `pool`: verified answers, {family, source, code}, of which variants take one
--- that is element-wise, one with a vector of the last dimension and one with rows.
---@param policy khost.Policy
---@param data {system: string, examples: table[]}
---@param pool {family: string, source: string, code: string}[]
---@return table
function prompts.open(policy, data, pool)
  local groups = { { "chain", "pair" }, { "vector" }, { "reduce", "rows" } }
  local variants = {}
  for number = 1, prompts.VARIANTS do
    local stream = random.stream("prompt variant " .. number)
    local turns = {}
    for _, families in ipairs(groups) do
      local fitting = {}
      for _, entry in ipairs(pool) do
        if entry.family == families[1] or entry.family == families[2] then
          fitting[#fitting + 1] = entry
        end
      end
      if #fitting > 0 then
        local entry = stream:pick(fitting)
        turns[#turns + 1] = { role = "user", text = prompts.question(entry.source) }
        turns[#turns + 1] = { role = "assistant", text = prompts.answer(entry.code) }
      end
    end
    local system = number % 3 == 0 and data.system or REPHRASED[number % 3]
    variants[number] = { system = system, turns = turns }
  end
  return setmetatable({ policy = policy, data = data, variants = variants, made = {} }, Prompts)
end

--- The prompt of a task: variant 0 is the fixed one.
---@param task {id: string, source: string}
---@param number integer
---@return integer[]
function Prompts:of(task, number)
  local key = task.id .. " " .. number
  if not self.made[key] then
    local variant = self.variants[number] or { system = self.data.system, turns = self.data.examples }
    local messages = { { role = "system", text = variant.system } }
    for _, turn in ipairs(variant.turns) do
      messages[#messages + 1] = turn
    end
    messages[#messages + 1] = { role = "user", text = prompts.question(task.source) }
    self.made[key] = prompts.tokens(self.policy, messages)
  end
  return self.made[key]
end

--- The tokens of an answer, its end included.
---@param code string
---@return integer[]
function Prompts:answer(code)
  local tokens = self.policy:encode(prompts.answer(code), { special = false })
  for _, token in ipairs(self.policy:encode("<|im_end|>", { special = true })) do
    tokens[#tokens + 1] = token
  end
  return tokens
end

return prompts
