-- How fast tokens are drawn: `khost tests/manual/bench/generate.lua`, by default a model of SmolLM2-135M's shape with random
-- weights, on the card where there is one. Reading of prompts and drawing are timed apart; drawing is printed beside
-- the floor that reading the weights and all keys and values once a step sets, and on a card beside Hugging Face's
-- generate and the same step out of PyTorch's own kernels (generate_reference.py).
local args = require "lib.args"
local log = require "khost.log"
local sched = require "khost.sched"
local shapes = require "tests.manual.bench.shapes"
local trainer = require "khost.trainer"

local CARD = shapes.card
local OPTIONS = shapes.options {
  { name = "--batch", kind = "number", default = CARD and 256 or 8, help = "sequences at once" },
  { name = "--prompt", kind = "number", default = CARD and 256 or 64, help = "tokens of a prompt" },
  { name = "--new", kind = "number", default = CARD and 128 or 32, help = "tokens drawn for each" },
  { name = "--runs", kind = "number", default = CARD and 5 or 1, help = "timed runs; the median is printed" },
  { name = "--threads", kind = "number", default = 2, help = "threads of tensor work" },
  { name = "--bandwidth", kind = "number", help = "GB/s of the memory, for the floor; measured on a card, else 20" },
}

-- Seconds, tokens and engine steps of `new` tokens for each prompt.
local function draw(policy, prompts, new)
  local before, begin = policy:stats(), sched.now()
  local drawn = sched.map(prompts, function(prompt, index)
    return #assert(policy:generate(prompt, { max_tokens = new, seed = index, stop = {} })).tokens
  end)
  local tokens = 0
  for _, count in ipairs(drawn) do tokens = tokens + count end
  return sched.now() - begin, tokens, policy:stats().steps - before.steps
end

local function prompts_of(options, salt)
  local prompts = {}
  for sequence = 1, options.batch do
    prompts[sequence] = {}
    for place = 1, options.prompt do
      prompts[sequence][place] = 1 + (sequence * 7919 + place * 104729 + salt * 271) % 40000 % 251
    end
  end
  return prompts
end

-- The same work in other programs, on the same card.
local function reference(options, shape)
  return shapes.reference("generate_reference.py", shape, { batch = options.batch, prompt = options.prompt,
    new = options.new }, 600)
end

local function run(list)
  local options = args.parse(OPTIONS, list, { name = "tests/manual/bench/generate.lua", summary = "tokens a second" })
  local shape = shapes.of(options, 2048)
  local actor = assert(trainer.open { model = options.model or shape, seed = 1, threads = options.threads,
    device = options.device, slots = options.batch, positions = options.prompt + options.new + 1, dtype = options.dtype,
    lease = "" })
  local policy, parameters = actor:policy(), actor:stats().parameters
  local read_s, all_s, tokens, steps = {}, {}, nil, nil
  for salt = 1, options.runs + 1 do  -- the first is not timed: libraries and graphs are made in it
    local read = draw(policy, prompts_of(options, 2 * salt), 1)
    local all
    all, tokens, steps = draw(policy, prompts_of(options, 2 * salt + 1), options.new)
    if salt > 1 or options.runs == 1 then read_s[#read_s + 1], all_s[#all_s + 1] = read, all end
  end
  local read, all = shapes.median(read_s), shapes.median(all_s)
  local decode_s = all - read
  local step_s = decode_s / (options.new - 1)
  local rate = (tokens - options.batch) / decode_s
  local others = options.device == "cuda" and not options.alone and reference(options, shape) or {}
  log.print(("%d parameters, %s on %s, batch %d, prompt %d, new %d, temperature 1 with log-probs"):format(parameters,
    options.dtype, others.card or options.device, options.batch, options.prompt, options.new))
  log.print(("prompts        %9.0f tokens/s"):format(options.batch * options.prompt / read))
  log.print(("decode         %9.0f tokens/s, %.3f ms a step (%d steps in all, %.3f s)"):format(rate, step_s * 1e3,
    steps, all))
  local bytes = options.dtype == "bf16" and 2 or 4
  local bandwidth = options.bandwidth and options.bandwidth * 1e9 or others.bandwidth or 20e9
  local kept = shape.layers * 2 * shape.kv_heads * shape.head_width * bytes * (options.prompt + options.new / 2)
  local floor_s = (parameters * bytes + (options.model and 0 or options.batch * kept)) / bandwidth
  log.print(("floor          %9.0f tokens/s, %.3f ms a step to read weights, keys and values at %.0f GB/s"):format(
    options.batch / floor_s, floor_s * 1e3, bandwidth / 1e9))
  if others.graph then
    log.print(("PyTorch graph  %9.0f tokens/s, the same step out of PyTorch's kernels; khost is %.2f times as fast"):format(
      others.graph, rate / others.graph))
    log.print(("Hugging Face   %9.0f tokens/s, generate; khost is %.1f times as fast"):format(others.hugging_face,
      rate / others.hugging_face))
  end
end

return { name = "bench generate", summary = "tokens a second of the generation engine", run = run }
