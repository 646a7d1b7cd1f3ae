-- One update of actor and critic on a batch of episodes: log-probs, values, advantages, then epochs in minibatches.
-- Every number of it is a key of [ppo]; recipes/presets/smoke.toml says what each is for, what the paper's value is and
-- what departing from it costs.

local models = require "training.models"
local trainer = require "training.trainer"

local update = {}

-- Keys of [ppo] that a preset may leave out, with values that change nothing.
update.DEFAULTS = {
  advantages = "gae", gamma = 1, lambda_turn = 1, adaptive_alpha = 0, group_center = "mean", group_scale = "none",
  aggregate = "seq-mean-token-mean", horizon = 1, dual_clip = 0, kl = 0, entropy = 0, importance_cap = 0,
  value_aggregate = "seq-mean-token-mean", critic_epochs = 0, actor_warmup = 0, critic_warmup = 0,
  curriculum = "flat", ahead = 0,
}

--- The [ppo] of a preset with what it leaves out.
---@param given table
---@return table
function update.settings(given)
  local c = {}
  for name, value in pairs(update.DEFAULTS) do
    c[name] = value
  end
  for name, value in pairs(given) do
    c[name] = value
  end
  return c
end

--- The model whose log-probs the KL term holds the actor to: the one that a stage begins with. It is only opened where
--- `kl` is above 0, since it takes as much memory as the actor.
---@async
---@param run table
---@param c table       of update.settings
---@param folder string
---@return khost.Trainer|nil
function update.reference(run, c, folder)
  return c.kl > 0 and models.apart(run, folder) or nil
end

--- Episodes that a trainer can learn from: scored, and with something drawn.
---@param episodes table[]
---@return table[]
function update.usable(episodes)
  local list = {}
  for _, e in ipairs(episodes) do
    if e.reward and e.tokens and #e.tokens > 0 then
      list[#list + 1] = e
    end
  end
  return list
end

--- Episodes by which the actor moves: those of groups whose rewards differ. Where all are equal, what is left of the
--- advantages is the critic's own error. A group of one has nothing to differ from and counts.
---@param episodes table[]
---@return table[]
function update.telling(episodes)
  local groups = {}
  for _, e in ipairs(episodes) do
    local group = groups[e.group or e] or { count = 0, least = e.reward, most = e.reward }
    group.count, group.least, group.most = group.count + 1, math.min(group.least, e.reward), math.max(group.most,
      e.reward)
    groups[e.group or e] = group
  end
  local list = {}
  for _, e in ipairs(episodes) do
    local group = groups[e.group or e]
    if group.count == 1 or group.least < group.most then
      list[#list + 1] = e
    end
  end
  return list
end

-- A batch with all that the objectives need, and the metrics of its advantages.
local function packed(episodes, networks, c)
  local batch = trainer.pack(episodes, { tokens = c.pack_tokens, temperature = c.temperature })
  assert(batch:fill("old_logp", c.old_logprobs == "sampler" and "sampler" or networks.actor))
  if networks.reference then
    assert(batch:fill("ref_logp", networks.reference))
  end
  if c.advantages == "gae" then
    assert(batch:fill("values", networks.critic))
  end
  return batch, assert(batch:advantages { source = c.advantages, gamma = c.gamma, lambda = c.lambda,
    lambda_critic = c.lambda_critic, lambda_turn = c.lambda_turn, adaptive_alpha = c.adaptive_alpha, whiten = c.whiten,
    whiten_floor = c.whiten_floor, center = c.group_center, scale = c.group_scale })
end

--- What [ppo] says of the two objectives, as khost.trainer takes it.
---@param c table   of update.settings
---@return khost.PpoOptions policy, {clip: number, aggregate: string} value
function update.objectives(c)
  return { clip_low = c.clip_low, clip_high = c.clip_high, dual_clip = c.dual_clip, kl = c.kl, entropy = c.entropy,
    importance_cap = c.importance_cap, horizon = c.horizon, aggregate = c.aggregate },
    { clip = c.value_clip, aggregate = c.value_aggregate }
end

local function learn_values(critic, batch, c, seed, metrics)
  local objective = trainer.value(select(2, update.objectives(c)))
  local epochs = c.critic_epochs > 0 and c.critic_epochs or c.epochs
  for part in batch:split(c.minibatch, epochs, { seed = seed }) do
    local value = assert(critic:update(part, objective, { lr = c.critic_lr, max_norm = c.max_norm,
      warmup = c.critic_warmup }))
    metrics.value_loss, metrics.critic_norm = value.loss, value.norm
  end
end

local function learn_policy(actor, batch, c, seed, metrics)
  local objective = trainer.ppo((update.objectives(c)))
  for part in batch:split(c.minibatch, c.epochs, { seed = seed }) do
    local policy = assert(actor:update(part, objective, { lr = c.actor_lr, max_norm = c.max_norm,
      warmup = c.actor_warmup }))
    for name, number in pairs(policy) do
      metrics["actor_" .. name] = number
    end
  end
end

--- One update of actor and critic on a batch of episodes. The critic learns from all that have a reward, the actor from
--- groups whose rewards differ; `flat_episodes` counts what it was spared, `scored` what was learnt from at all.
--- Without a scored episode nothing moves. With advantages = "group" there is nothing for a critic to learn.
---@async
---@param networks {actor: khost.Trainer, critic: khost.Trainer, reference?: khost.Trainer}
---@param episodes table[]
---@param c table     of update.settings
---@param seed integer
---@return table<string, number>
function update.step(networks, episodes, c, seed)
  local scored = update.usable(episodes)
  if #scored == 0 then
    return { scored = 0, flat_episodes = 0 }
  end
  local moving = update.telling(scored)
  local batch, metrics = packed(scored, networks, c)
  local own = #moving == #scored and batch or #moving > 0 and packed(moving, networks, c) or nil
  metrics.scored, metrics.flat_episodes = #scored, #scored - #moving
  if c.advantages == "gae" then
    learn_values(networks.critic, batch, c, seed, metrics)
  end
  if own then
    learn_policy(networks.actor, own, c, seed, metrics)
  end
  return metrics
end

return update
