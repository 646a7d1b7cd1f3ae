-- What an optimizer step costs: `khost tests/manual/bench/train.lua`, by default a model of SmolLM2-135M's shape with random
-- weights, on the card where there is one, there beside a step of Hugging Face's model and a PPO step written by hand
-- with it (train_reference.py). Model FLOPs are 6 a parameter and token, attention left out; the share of peak needs
-- --peak.
local args = require "lib.args"
local log = require "khost.log"
local sched = require "khost.sched"
local shapes = require "tests.manual.bench.shapes"
local trainer = require "khost.trainer"

local CARD = shapes.card
local OPTIONS = shapes.options {
  { name = "--tokens", kind = "number", default = CARD and 16384 or 1024, help = "tokens of a step" },
  { name = "--length", kind = "number", default = CARD and 512 or 256, help = "tokens of a trajectory" },
  { name = "--pack", kind = "number", default = CARD and 16384 or 1024,
    help = "tokens of a forward and backward pass" },
  { name = "--steps", kind = "number", default = CARD and 10 or 2, help = "timed steps; the median is printed" },
  { name = "--recompute", kind = "flag", help = "compute layers again in the backward pass" },
  { name = "--threads", kind = "number", default = CARD and 8 or 2, help = "threads of tensor work" },
  { name = "--peak", kind = "number", default = CARD and 989 or nil,
    help = "peak of the machine in TFLOP/s, for the share that is reached; an H100 in bf16 has 989" },
  { name = "--compiled", kind = "flag", help = "also of Hugging Face's model compiled, which takes minutes" },
}

-- Seconds a step of the same work in other programs, on the same card.
local function reference(options, shape)
  return shapes.reference("train_reference.py", shape, { batch = options.tokens / options.length,
    length = options.length, steps = options.steps, compiled = options.compiled, ppo = true }, 900)
end

local function run(list)
  local options = args.parse(OPTIONS, list,
    { name = "tests/manual/bench/train.lua", summary = "seconds of an optimizer step" })
  local shape = shapes.of(options, 8192)
  local actor = assert(trainer.open { model = options.model or shape, seed = 1, threads = options.threads,
    device = options.device, dtype = options.dtype, recompute = options.recompute, lease = "" })
  local batch = trainer.pack(shapes.episodes(options.tokens, options.length), { tokens = options.pack })
  local tokens = batch:metrics().tokens
  local step = { lr = 1e-5, max_norm = 1 }
  local supervised_s = shapes.timed(options.steps, function()
    assert(actor:update(batch, trainer.rft { reduce = "token-mean" }, step))
  end)
  local critic, phases = actor:critic(), {}
  local function phase(name, fn)
    local begin = sched.now()
    local result = assert(fn())
    phases[name] = sched.now() - begin
    return result
  end
  local ppo_s = shapes.timed(options.steps, function()
    phase("log-probs", function() return batch:fill("old_logp", actor) end)
    phase("values", function() return batch:fill("values", critic) end)
    phase("advantages", function() return batch:advantages { lambda = 0.95 } end)
    phase("critic", function() return critic:update(batch, trainer.value {}, step) end)
    phase("actor", function() return actor:update(batch, trainer.ppo {}, step) end)
  end)
  local parameters = actor:stats().parameters
  local others = options.device == "cuda" and not options.alone and reference(options, shape) or {}
  log.print(("%d parameters, %s on %s, %d tokens a step in trajectories of %d%s"):format(parameters, options.dtype,
    others.card or options.device, tokens, options.length, options.recompute and ", recomputed" or ""))
  local function line(name, seconds, factor)
    local rate = factor * 6 * parameters * tokens / seconds / 1e12
    log.print(("%-22s %8.2f ms  %9.0f tokens/s  %7.3f TFLOP/s%s"):format(name, seconds * 1e3, tokens / seconds, rate,
      options.peak and (", %.1f %% of peak"):format(100 * rate / options.peak) or ""))
  end
  line("supervised", supervised_s, 1)
  if others.eager then
    line("Hugging Face eager", others.eager, 1)
    log.print(("khost is %.2f times as fast"):format(others.eager / supervised_s))
  end
  if others.compiled then
    line("Hugging Face compiled", others.compiled, 1)
    log.print(("khost is %.2f times as fast"):format(others.compiled / supervised_s))
  end
  line("PPO", ppo_s, 2 + 2 / 3)  -- two passes forward for scores, then actor and critic learn
  for _, name in ipairs { "log-probs", "values", "advantages", "critic", "actor" } do
    log.print(("  of that %-14s %8.2f ms"):format(name, phases[name] * 1e3))
  end
  if others.ppo then
    line("PPO by hand", others.ppo, 2 + 2 / 3)
    log.print(("khost is %.2f times as fast"):format(others.ppo / ppo_s))
  end
end

return { name = "bench train", summary = "what an optimizer step costs", run = run }
