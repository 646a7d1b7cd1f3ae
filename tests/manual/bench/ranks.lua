-- What more processes give: `khost tests/manual/bench/ranks.lua --ranks 2` trains as one process and then as several that
-- share every update, each with a card of its own where there are cards, and prints how the rate grows.
-- Every rank has as many tokens a step as the lone one.
local args = require "lib.args"
local fs = require "khost.fs"
local json = require "khost.json"
local log = require "khost.log"
local machine = require "khost.machine"
local sched = require "khost.sched"
local shapes = require "tests.manual.bench.shapes"
local trainer = require "khost.trainer"

local CARD = shapes.card
local OPTIONS = shapes.options {
  { name = "--ranks", kind = "number", default = 2, help = "processes of the second run" },
  { name = "--tokens", kind = "number", default = CARD and 16384 or 128, help = "tokens a step of each rank" },
  { name = "--length", kind = "number", default = CARD and 512 or 64, help = "tokens of a trajectory" },
  { name = "--steps", kind = "number", default = CARD and 10 or 1, help = "timed steps; the median is printed" },
  { name = "--threads", kind = "number", default = CARD and 8 or 1, help = "threads of tensor work of each rank" },
  { name = "--port", kind = "number", default = 29555, help = "where ranks meet on this machine" },
  { name = "--worker", kind = "flag", help = "be one rank, of those that RANK and WORLD_SIZE speak of" },
}
local ABOUT = { name = "tests/manual/bench/ranks.lua", summary = "an optimizer step of several processes" }

-- Rank 0 prints seconds of a supervised and of a PPO step.
local function work(options)
  local ranks = assert(trainer.ranks())
  local actor = assert(trainer.open { model = options.model or shapes.of(options, 8192), seed = 1,
    threads = options.threads, device = options.device, dtype = options.dtype, lease = "" })
  local critic = actor:critic()
  local batch = trainer.pack(shapes.episodes(options.tokens, options.length), { tokens = options.tokens })
  local step = { lr = 1e-5, max_norm = 1 }
  local supervised = shapes.timed(options.steps, function()
    assert(actor:update(batch, trainer.rft { reduce = "token-mean" }, step))
  end)
  local ppo = shapes.timed(options.steps, function()
    assert(batch:fill("old_logp", actor))
    assert(batch:fill("values", critic))
    assert(batch:advantages { lambda = 0.95 })
    assert(critic:update(batch, trainer.value {}, step))
    assert(actor:update(batch, trainer.ppo {}, step))
  end)
  if ranks.rank == 0 then
    log.print(json.encode { supervised = supervised, ppo = ppo, tokens = batch:metrics().tokens * ranks.size })
  end
end

local function train(size, options)
  local shared = ("--worker --shape %s --device %s --dtype %s --tokens %d --length %d --steps %d --threads %d"):format(
    options.shape, options.device, options.dtype, options.tokens, options.length, options.steps, options.threads)
  local ranks = {}
  for rank = 0, size - 1 do
    ranks[rank + 1] = { "sh", "-c",
      ("RANK=%d WORLD_SIZE=%d MASTER_ADDR=127.0.0.1 MASTER_PORT=%d exec /proc/$PPID/exe %s/%s %s"
      ):format(rank, size, options.port, fs.root(), ABOUT.name, shared) }
    if options.model then
      ranks[rank + 1][3] = ("%s --model '%s'"):format(ranks[rank + 1][3], options.model)
    end
  end
  local ran = sched.map(ranks, function(argv)
    return assert(machine.run(argv, { timeout_s = 600, output_bytes = 1e6 }))
  end)
  for rank, one in ipairs(ran) do
    if one.code ~= 0 then error(("rank %d of %d: %s"):format(rank - 1, size, one.output)) end
  end
  return json.decode(ran[1].output:match("{[^\n]*}%s*$"))
end

local function run(list)
  local options = args.parse(OPTIONS, list, ABOUT)
  if options.worker then
    return work(options)
  end
  local one, many = train(1, options), train(options.ranks, options)
  for _, name in ipairs { "supervised", "ppo" } do
    local alone, together = one.tokens / one[name], many.tokens / many[name]
    log.print(("%-10s  1: %8.2f ms %9.0f tokens/s   %d: %8.2f ms %9.0f tokens/s   %.2f times, %.0f %% of %d"):format(name,
      one[name] * 1e3, alone, options.ranks, many[name] * 1e3, together, together / alone,
      100 * together / alone / options.ranks, options.ranks))
  end
end

return { name = ABOUT.name, summary = ABOUT.summary, options = OPTIONS, run = run }
