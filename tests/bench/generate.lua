-- How fast tokens are drawn: `khost tests/bench/generate.lua`, by default a model of SmolLM2-135M's shape with random weights
-- on this machine's CPU. Reading of prompts and drawing are timed apart; drawing is printed beside the floor that reading
-- the weights once a step sets at a given memory bandwidth.
local args = require "lib.args"
local log = require "khost.log"
local sched = require "khost.sched"
local trainer = require "khost.trainer"

local OPTIONS = {
  { name = "--model", kind = "text", help = "a model folder; SmolLM2-135M's shape with random weights when absent" },
  { name = "--batch", kind = "number", default = 8, help = "sequences at once" },
  { name = "--prompt", kind = "number", default = 64, help = "tokens of a prompt" },
  { name = "--new", kind = "number", default = 32, help = "tokens drawn for each" },
  { name = "--dtype", kind = "text", default = "fp32", help = "fp32 or bf16" },
  { name = "--threads", kind = "number", default = 2, help = "threads of tensor work" },
  { name = "--bandwidth", kind = "number", default = 20, help = "GB/s of this machine's memory, for the floor" },
}
local SMOLLM2 = { vocabulary = 49152, width = 576, layers = 30, heads = 9, kv_heads = 3, head_width = 64, mlp_width = 1536,
  positions = 2048, rope_theta = 100000 }

-- Seconds and engine steps of `new` tokens for each prompt.
local function draw(policy, prompts, new)
  local before, begin = policy:stats(), sched.now()
  local drawn = sched.map(prompts, function(prompt, index)
    return #assert(policy:generate(prompt, { max_tokens = new, seed = index, stop = {} })).tokens
  end)
  local tokens = 0
  for _, count in ipairs(drawn) do tokens = tokens + count end
  return sched.now() - begin, policy:stats().steps - before.steps, tokens
end

local function prompts_of(options, salt)
  local prompts = {}
  for sequence = 1, options.batch do
    prompts[sequence] = {}
    for place = 1, options.prompt do
      prompts[sequence][place] = 1 + (sequence * 7919 + place * 104729 + salt) % 40000 % 251
    end
  end
  return prompts
end

local function run(list)
  local options = args.parse(OPTIONS, list, { name = "tests/bench/generate.lua", summary = "tokens a second" })
  local actor = assert(trainer.open { model = options.model or SMOLLM2, seed = 1, threads = options.threads,
    slots = options.batch, positions = options.prompt + options.new + 1, dtype = options.dtype, lease = "" })
  local policy, parameters = actor:policy(), actor:stats().parameters
  draw(policy, prompts_of(options, 0), 2)
  local read_s = draw(policy, prompts_of(options, 1), 1)
  local all_s, steps, tokens = draw(policy, prompts_of(options, 2), options.new)
  local decode_s, decoded = all_s - read_s, tokens - options.batch
  local step_s = decode_s / (options.new - 1)
  local floor_s = parameters * (options.dtype == "bf16" and 2 or 4) / (options.bandwidth * 1e9)
  log.print(("%d parameters, %s, batch %d, prompt %d, new %d, %d threads"):format(parameters, options.dtype, options.batch,
    options.prompt, options.new, options.threads))
  log.print(("prompts   %9.1f tokens/s"):format(options.batch * options.prompt / read_s))
  log.print(("decode    %9.1f tokens/s, %.2f ms a step (%d steps in all)"):format(decoded / decode_s, step_s * 1e3, steps))
  log.print(("floor     %9.1f tokens/s, %.2f ms a step to read the weights at %g GB/s"):format(options.batch / floor_s,
    floor_s * 1e3, options.bandwidth))
end

return { name = "bench generate", summary = "tokens a second of the generation engine", run = run }
