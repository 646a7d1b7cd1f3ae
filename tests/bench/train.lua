-- What an optimizer step costs: `khost tests/bench/train.lua`, by default a model of SmolLM2-135M's shape with random weights
-- on this machine's CPU. Model FLOPs are 6 a parameter and token, attention left out; the share of peak needs --peak.
local args = require "lib.args"
local log = require "khost.log"
local sched = require "khost.sched"
local trainer = require "khost.trainer"

local OPTIONS = {
  { name = "--model", kind = "text", help = "a model folder; SmolLM2-135M's shape with random weights when absent" },
  { name = "--tokens", kind = "number", default = 1024, help = "tokens of a step" },
  { name = "--length", kind = "number", default = 256, help = "tokens of a trajectory" },
  { name = "--pack", kind = "number", default = 1024, help = "tokens of a forward and backward pass" },
  { name = "--steps", kind = "number", default = 2, help = "timed steps after one that is not" },
  { name = "--dtype", kind = "text", default = "fp32", help = "fp32 or bf16" },
  { name = "--recompute", kind = "flag", help = "compute layers again in the backward pass" },
  { name = "--threads", kind = "number", default = 2, help = "threads of tensor work" },
  { name = "--peak", kind = "number", help = "this machine's peak in TFLOP/s, for the share that is reached" },
}
local SMOLLM2 = { vocabulary = 49152, width = 576, layers = 30, heads = 9, kv_heads = 3, head_width = 64, mlp_width = 1536,
  positions = 8192, rope_theta = 100000 }

local function episodes_of(options)
  local episodes = {}
  for index = 1, math.max(1, math.floor(options.tokens / options.length)) do
    local tokens, mask = {}, {}
    for place = 1, options.length do
      tokens[place] = (index * 7919 + place * 104729) % 251
      mask[place] = place > 1 and 1 or 0
    end
    episodes[index] = { tokens = tokens, mask = mask, reward = index % 3, group = 1 }
  end
  return episodes
end

local function timed(steps, fn)
  fn()
  local begin = sched.now()
  for _ = 1, steps do fn() end
  return (sched.now() - begin) / steps
end

local function run(list)
  local options = args.parse(OPTIONS, list, { name = "tests/bench/train.lua", summary = "seconds of an optimizer step" })
  local actor = assert(trainer.open { model = options.model or SMOLLM2, seed = 1, threads = options.threads,
    dtype = options.dtype, recompute = options.recompute, lease = "" })
  local batch = trainer.pack(episodes_of(options), { tokens = options.pack })
  local tokens = batch:metrics().tokens
  local step = { lr = 1e-5, max_norm = 1 }
  local supervised_s = timed(options.steps, function()
    assert(actor:update(batch, trainer.rft { reduce = "token-mean" }, step))
  end)
  local critic = actor:critic()
  local ppo_s = timed(options.steps, function()
    assert(batch:fill("old_logp", actor))
    assert(batch:fill("values", critic))
    assert(batch:advantages { lambda = 0.95 })
    assert(critic:update(batch, trainer.value {}, step))
    assert(actor:update(batch, trainer.ppo {}, step))
  end)
  local parameters = actor:stats().parameters
  local flops = 6 * parameters * tokens
  log.print(("%d parameters, %s, %d tokens a step in trajectories of %d, %d threads%s"):format(parameters, options.dtype,
    tokens, options.length, options.threads, options.recompute and ", recomputed" or ""))
  local function line(name, seconds, factor)
    local rate = factor * flops / seconds / 1e12
    log.print(("%-11s %8.3f s  %9.0f tokens/s  %7.3f TFLOP/s%s"):format(name, seconds, tokens / seconds, rate,
      options.peak and (", %.1f %% of peak"):format(100 * rate / options.peak) or ""))
  end
  line("supervised", supervised_s, 1)
  line("PPO", ppo_s, 2 + 2 / 3)  -- two passes forward for scores, then actor and critic learn
end

return { name = "bench train", summary = "what an optimizer step costs", run = run }
