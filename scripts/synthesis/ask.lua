-- Composition by a language model instead of by chance: it is shown operators of the library and asked to stack some of
-- them into one layer, as the paper does. Its answers go through the same checks of shape, budget and admission.

local random = require "lib.random"

local ask = {}

local SHOWN = 12   -- operators offered for one task
local TRIES = 3    -- of one task; the complaint goes with the next
local ANSWER_TOKENS = 2048

local PROMPT = [[
Write one PyTorch task file. Stack exactly %d of these operator classes into a single layer, one after the other, chosen
so that the combination is useful and worth fusing into one kernel:

%s

Rules:
- class Model(nn.Module) with __init__ and forward; forward takes tensors and computes nothing but the stacked operators.
- get_inputs() returns a list of random float32 tensors drawn with torch.randn or torch.rand, no seed, at most %d MiB in
  all; get_init_inputs() returns the list of the constructor's arguments.
- Deterministic: no dropout, no random operator in forward. No state is kept between calls. CPU tensors.
- Outputs depend on every input element that matters and are neither constant nor close to zero.

Answer with one Python code block and nothing else.
]]

--- What is asked for one task.
---@param found table       the library
---@param depth integer
---@param stream lib.Random
---@param budget {peak_bytes: number}
---@return string
function ask.prompt(found, depth, stream, budget)
  local names = {}
  for index, operator in ipairs(stream:shuffled(found.operators)) do
    if index > SHOWN then
      break
    end
    names[index] = "- " .. operator.name
  end
  return PROMPT:format(depth, table.concat(names, "\n"), budget.peak_bytes / 4 / 2 ^ 20)
end

--- The program in an answer: the last code block that defines Model.
---@param text string
---@return string|nil source, string? message
function ask.parse(text)
  local source
  for block in text:gmatch("```[%w]*\r?\n(.-)\n?```") do
    if block:find("class%s+Model%s*%(") then
      source = block .. "\n"
    end
  end
  if not source then
    return nil, "there is no code block with class Model in the answer"
  end
  if not source:find("def%s+get_inputs%s*%(") then
    return nil, "the program defines no get_inputs"
  end
  return source
end

--- How many of the library's operators a program uses, by name.
---@param source string
---@param found table
---@return string[]
function ask.operators_in(source, found)
  local used, seen = {}, {}
  for _, operator in ipairs(found.operators) do
    local from = source:find(operator.name:gsub("%.", "%%.") .. "%f[^%w_]")
    if from and not seen[operator.name] then
      seen[operator.name] = true
      used[#used + 1] = { name = operator.name, from = from }
    end
  end
  table.sort(used, function(a, b) return a.from < b.from end)
  for index, item in ipairs(used) do
    used[index] = item.name
  end
  return used
end

local function complaint_of(facts, budget)
  if facts.error then
    return "running it on shapes failed: " .. facts.error
  elseif facts.peak_bytes > budget.peak_bytes then
    return ("its tensors take %.0f MiB, at most %.0f are allowed"):format(facts.peak_bytes / 2 ^ 20,
      budget.peak_bytes / 2 ^ 20)
  elseif #(facts.unused_parameters or {}) > 0 then
    return "a parameter does not take part in the output: " .. facts.unused_parameters[1]
  end
end

local function one(complete, found, depth, stream, probe, budget)
  local messages = { { role = "user", content = ask.prompt(found, depth, stream, budget) } }
  local why
  for _ = 1, TRIES do
    local text, message = complete(messages)
    if not text then
      return nil, message
    end
    local source
    source, why = ask.parse(text)
    if source then
      why = complaint_of(probe({ source })[1], budget)
      if not why then
        return source
      end
    end
    messages[#messages + 1] = { role = "assistant", content = text }
    messages[#messages + 1] = { role = "user", content = why .. ". Write it again." }
  end
  return nil, why
end

--- Composes tasks of the given depths. `complete(messages)` gives the model's text, or nil and a message.
---@async
---@param found table
---@param depths integer[]
---@param seed string|integer
---@param probe fun(sources: string[]): table[]
---@param complete fun(messages: table[]): string|nil, string|nil
---@param options {budget: table, progress?: fun(done: integer)}
---@return StackedTask[] tasks, integer given_up
function ask.compose(found, depths, seed, probe, complete, options)
  local tasks, given_up = {}, 0
  for index, depth in ipairs(depths) do
    local source = one(complete, found, depth, random.stream(("ask %s %d"):format(seed, index)), probe, options.budget)
    if source then
      local names = ask.operators_in(source, found)
      tasks[#tasks + 1] = { name = table.concat(names, "_"):gsub("%.", "_"):gsub("torch_", ""):gsub("nn_", ""),
        chain = table.concat(names, " "), depth = math.max(1, math.min(5, #names)), source = source, asked = depth }
    else
      given_up = given_up + 1
    end
    if options.progress then
      options.progress(index)
    end
  end
  return tasks, given_up
end

--- `complete` of an OpenAI-compatible server; the key comes from KHOST_ENDPOINT_KEY.
---@param url string      up to and with /v1
---@param model string
---@return fun(messages: table[]): string|nil, string|nil
function ask.endpoint(url, model)
  local client = require("policies.endpoint.client").open { url = url, key_env = "KHOST_ENDPOINT_KEY" }
  return function(messages)
    local asked = client:ask { model = model, messages = messages, max_tokens = ANSWER_TOKENS }
    return asked.answer and asked.answer.text, asked.message
  end
end

return ask
