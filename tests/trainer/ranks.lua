-- What tests/trainer/ranks_test.cpp starts as one process or as several: a few PPO updates on fixed trajectories, of
-- which every rank takes its share. Rank 0 prints what came out as JSON. Arguments: train, die, resume or whole
-- (every rank packs all episodes, and passes over its part of them); a device.

local fs = require "khost.fs"
local json = require "khost.json"
local log = require "khost.log"
local trainer = require "khost.trainer"

local EPISODES = 8

local function episode(index)
  local tokens, mask = {}, {}
  for t = 1, 6 + 2 * index do
    tokens[t] = (7 * index + 5 * t * t) % 31
    mask[t] = t > 2 and t % 5 ~= 0 and 1 or 0
  end
  return { tokens = tokens, mask = mask, reward = index % 4 - 1, group = math.floor(index / 2) }
end

-- Groups stay together: episodes 2k and 2k+1 go to one rank.
local function share(ranks, whole)
  local list = {}
  for index = 0, EPISODES - 1 do
    if whole or math.floor(index / 2) % ranks.size == ranks.rank then list[#list + 1] = episode(index) end
  end
  return list
end

local function update(actor, critic, list)
  local batch = trainer.pack(list, { tokens = 40 })
  assert(batch:fill("old_logp", actor))
  assert(batch:fill("values", critic))
  local filled, message, code = batch:advantages { lambda = 0.9, whiten = true }
  if not filled then
    return nil, message, code
  end
  assert(critic:update(batch, trainer.value {}, { lr = 1e-3, max_norm = 1 }))
  return actor:update(batch, trainer.ppo { aggregate = "prompt-mean" }, { lr = 1e-3, max_norm = 1 })
end

-- What one process and several must agree on, whoever passed over what. Times and speeds are a process's own.
local function see_whole(actor, critic, list)
  local batch, seen = trainer.pack(list, { tokens = 40 }), {}
  assert(batch:fill("old_logp", actor))
  assert(batch:fill("values", critic))
  seen.advantages = assert(batch:advantages { lambda = 0.9, whiten = true })
  for part in batch:split(3, 2, { seed = 5 }) do
    seen.critic = assert(critic:update(part, trainer.value {}, { lr = 1e-3, max_norm = 1 }))
    seen.actor = assert(actor:update(part, trainer.ppo {}, { lr = 1e-3, max_norm = 1 }))
  end
  seen.evaluated = assert(batch:evaluate(critic))
  local flat = { logprobs = assert(actor:policy():logprobs { 1, 2, 3, 4, 5, 6, 7, 8 }) }
  for part, metrics in pairs(seen) do
    metrics.seconds, metrics.tokens_per_s = nil, nil
    for name, value in pairs(metrics) do
      flat[part .. " " .. name] = value
    end
  end
  return flat
end

local function train_whole(ranks, actor, critic)
  local seen = see_whole(actor, critic, share(ranks, true))
  local told = assert(trainer.tell(ranks.rank == 0 and "as rank 0 says" or nil))
  if ranks.rank == ranks.size - 1 then
    assert(fs.write("told", told))
  end
  if ranks.rank == 0 then
    log.print(json.encode(seen))
  end
  return 0
end

local function run(arguments)
  local ranks = assert(trainer.ranks { whole = arguments[1] == "whole" })
  local shape = { vocabulary = 31, width = 32, layers = 2, heads = 4, kv_heads = 2, positions = 64 }
  local actor = assert(trainer.open { model = shape, seed = 6, threads = 1, lease = "",
    device = arguments[2] or "cpu" })
  local critic = actor:critic()
  if arguments[1] == "whole" then
    return train_whole(ranks, actor, critic)
  end
  local list, norms, losses, more = share(ranks), {}, {}, {}
  if arguments[1] == "resume" then
    assert(actor:load("actor"))
    assert(critic:load("critic"))
  end
  for step = 1, 3 do
    if arguments[1] == "die" and step == 2 then
      assert(actor:save("actor"))
      assert(critic:save("critic"))
      if ranks.rank == 1 then
        return 3
      end
    end
    local metrics, message, code = update(actor, critic, list)
    if not metrics then
      log.print(json.encode { message = message, code = code })
      return 1
    end
    norms[step], losses[step] = metrics.norm, metrics.loss
  end
  if arguments[1] == "train" then
    assert(actor:save("actor"))
    assert(critic:save("critic"))
    for step = 1, 3 do
      more[step] = assert(update(actor, critic, list)).norm
    end
  end
  if ranks.rank == 0 then
    log.print(json.encode { size = ranks.size, norms = norms, losses = losses, more = more,
      logprobs = assert(actor:policy():logprobs { 1, 2, 3, 4, 5, 6, 7, 8 }) })
  end
  return 0
end

return { name = "ranks", summary = "updates of several ranks", run = run }
