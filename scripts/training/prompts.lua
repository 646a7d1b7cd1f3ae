-- The prompts of a run whose model answers with files: rules in words, and worked examples that the rule-based expert
-- wrote. [prompt] of the preset says how many examples and how many variants. Tasks of examples share no combination
-- of operators with a task that is trained on, validated or held out.

local experts = require "policies.experts"
local files = require "chat.files"
local lessons = require "training.lessons"
local random = require "lib.random"

local prompts = {}

prompts.DEFAULTS = { examples = 3, variants = 0 }

local COMMON = table.concat {
  "- Arguments of run: inputs are const float* named like the arguments of forward; parameters of the model are const ",
  "float* named like the attribute (self.bias is bias); the output is float* out; int64_t n is the number of elements ",
  "of the output; int64_t rows and int64_t cols are the sizes of the first input before its last dimension and in it",
}

-- The CPU's expert calls its function k and writes long.
local COMMON_CPU = COMMON:gsub("int64_t", "long"):gsub("of run", "of k")

local RULES = {
  cuda = {
    "You are an expert CUDA programmer. For each PyTorch model you write one CUDA C++ file that computes the same. "
      .. "Rules:\n- #include \"khost.h\", __global__ kernels, one launcher extern \"C\" int run(...), then "
      .. "KHOST_EXPORT(run). It returns cudaGetLastError().\n" .. COMMON .. "; khost::stream* stream comes last.\n"
      .. "- CUDA C++ only: no torch, no F. Do not synchronise, do not allocate.\n"
      .. "Answer with one ```cuda block and nothing else.",
    "You translate PyTorch modules into CUDA. Reply with one ```cuda block: a complete .cu file and no other text.\n"
      .. "The file includes \"khost.h\" and has __global__ kernels and one function extern \"C\" int run(...), "
      .. "announced by KHOST_EXPORT(run), which launches them on khost::cuda(stream) and returns cudaGetLastError().\n"
      .. COMMON .. "; the last argument is khost::stream* stream.\n"
      .. "Only CUDA C++ counts: no PyTorch functions, no synchronisation, no allocation.",
    "Task: write the CUDA kernel for a given PyTorch model.\nHow the file must look: #include \"khost.h\" first; "
      .. "kernels; a launcher extern \"C\" int run(arguments) that ends in return cudaGetLastError(); last line "
      .. "KHOST_EXPORT(run).\n" .. COMMON .. "; then khost::stream* stream.\n"
      .. "Not allowed: torch, F, memory allocation, waiting for the device.\n"
      .. "Output: one ```cuda block, nothing before or after it.",
  },
  cpu = {
    "You are an expert C++ programmer. For each PyTorch model you write one C++ file that computes the same. Rules:\n"
      .. "- #include \"khost.h\", then one function extern \"C\" int k(...) that returns 0, then KHOST_EXPORT(k).\n"
      .. COMMON_CPU .. ".\n- C++ only: no torch, no F, no threads, no allocation.\n"
      .. "Answer with one ```cpp block and nothing else.",
    "You translate PyTorch modules into C++. Reply with one ```cpp block: a complete .cpp file and no other text.\n"
      .. "The file includes \"khost.h\" and has one function extern \"C\" int k(...), announced by KHOST_EXPORT(k), "
      .. "which returns 0.\n" .. COMMON_CPU .. ".\nOnly C++ counts: no PyTorch functions, no threads, no allocation.",
  },
}

-- Worked examples of one form: tasks and the expert's answers, the second of its variants, which is plain and fused.
local function examples_of(run, tasks)
  local expert, list = experts.of(run.config.machine.target), {}
  for index, task in ipairs(tasks) do
    local answer = assert(expert.answer(task.graph, { variant = expert.ORDER[2] }))
    list[index] = { source = task.source, code = answer.files[expert.PATH] }
  end
  return list
end

--- The chat format of a run for a model that speaks ChatML and answers with files.
---@param run table   run.pipeline; its tasks must be composed
---@return table format   chat.files
function prompts.format(run)
  local c, target = run.config.prompt or prompts.DEFAULTS, run.config.machine.target
  local rules, forms = RULES[target], {}
  for number = 0, c.variants do
    local stream = random.stream(("%d prompt %d"):format(run.seed, number))
    forms[number] = { system = rules[number % #rules + 1],
      examples = examples_of(run, lessons.tasks(run, { count = c.examples, stream = stream, length = { 1, 2 },
        by_family = true })) }
  end
  return files.format { target = target, fixed = forms[0], variants = forms }
end

--- The chat format with the first rules of a target and no worked example, for models that somebody else trains: what
--- is in front of an answer then depends on no run.
---@param target "cpu"|"cuda"
---@return table format   chat.files
function prompts.plain(target)
  return files.format { target = target, fixed = { system = RULES[target][1], examples = {} } }
end

return prompts
