-- PPO from nothing, whole: `khost recipes/ppo.lua`. A small model learns to repeat the last token of its prompt.
-- The same loop with a model folder, a task and reward of your own is all that reinforcement learning takes here.
-- `--device cuda` runs it on a card; started by torchrun or srun it is one rank of several, which share the episodes of
-- every update.
local args = require "lib.args"
local log = require "khost.log"
local random = require "lib.random"
local sched = require "khost.sched"
local trainer = require "khost.trainer"

local SHAPE = { vocabulary = 16, width = 64, layers = 2, heads = 4, kv_heads = 2, head_width = 16, mlp_width = 128,
  positions = 32 }

local ABOUT = { name = "recipes/ppo.lua", summary = "a whole PPO loop on a toy" }
local OPTIONS = { { name = "--device", kind = "text", default = "cpu", help = "cpu or cuda" } }

local function run(list)
  local options, ranks = args.parse(OPTIONS, list, ABOUT), assert(trainer.ranks())
  local actor = assert(trainer.open { model = SHAPE, seed = 1, threads = 2, lease = "", device = options.device })
  local critic, policy, stream = actor:critic(), actor:policy(), random.stream("ppo " .. ranks.rank)
  local metrics
  for step = 1, 120 do
    -- Rollouts: every request is a coroutine, the engine draws them all together.
    local prompts = {}
    for index = 1, 64 / ranks.size do prompts[index] = { 0, stream:integer(1, 15), stream:integer(1, 15) } end
    local episodes = sched.map(prompts, function(prompt)
      local drawn = assert(policy:generate(prompt, { max_tokens = 4, stop = {} }))
      local episode = { tokens = {}, mask = {}, logprobs = drawn.logprobs, reward = 0 }
      for _, token in ipairs(prompt) do
        episode.tokens[#episode.tokens + 1], episode.mask[#episode.mask + 1] = token, 0
      end
      for _, token in ipairs(drawn.tokens) do
        episode.tokens[#episode.tokens + 1], episode.mask[#episode.mask + 1] = token, 1
        episode.reward = episode.reward + (token == prompt[#prompt] and 0.25 or 0)
      end
      return episode
    end)
    -- Learning: log-probs and values as the networks are now, advantages, then an epoch in parts.
    local batch = trainer.pack(episodes, { tokens = 4096 })
    assert(batch:fill("old_logp", actor))
    assert(batch:fill("values", critic))
    local seen = assert(batch:advantages { lambda = 0.95 })
    for part in batch:split(32 / ranks.size, 1, { seed = step }) do
      assert(critic:update(part, trainer.value {}, { lr = 3e-3, max_norm = 1 }))
      metrics = assert(actor:update(part, trainer.ppo { entropy = 0.02 }, { lr = 3e-3, max_norm = 1 }))
    end
    if step % 15 == 0 and ranks.rank == 0 then
      log.print(("step %2d  reward %.3f  entropy %.3f  clipped %.3f"):format(step, seen.reward_mean, metrics.entropy,
        metrics.clip_frac))
    end
  end
end

return { name = ABOUT.name, summary = ABOUT.summary, options = OPTIONS, run = run }
