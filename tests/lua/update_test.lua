-- training.update: every key of [ppo] reaches the trainer, and leaving one out changes nothing.
local config = require "khost.config"
local t = require "tests.lua.harness"
local trainer = require "khost.trainer"
local update = require "training.update"

local SHAPE = { vocabulary = 16, width = 16, layers = 1, heads = 2, kv_heads = 2, head_width = 8, mlp_width = 32,
  positions = 32 }

-- Two groups of two; in each episode an observation stands between two answers.
local function episodes(turns)
  local list = {}
  for index = 1, 4 do
    local mask = turns == 1 and { 0, 0, 1, 1, 1, 1, 1 } or { 0, 0, 1, 1, 0, 1, 1 }
    list[index] = { tokens = { 1, index, 3, 5 + index, 2, 7, 4 }, mask = mask, reward = index % 2 == 0 and 1 or -1,
      group = math.ceil(index / 2), logprobs = { 0, 0, -2, -2.5, turns == 1 and -2 or 0, -3, -2 } }
  end
  return list
end

local BASE = { lambda = 0.95, lambda_critic = 0.95, whiten = "none", whiten_floor = 0, old_logprobs = "recompute",
  clip_low = 0.2, clip_high = 0.28, value_clip = 0, temperature = 1, minibatch = 0, epochs = 1, max_norm = 1,
  pack_tokens = 256, actor_lr = 1e-3, critic_lr = 1e-3 }

local function networks()
  local actor = assert(trainer.open { model = SHAPE, seed = 3, threads = 1, lease = "" })
  return { actor = actor, critic = actor:critic() }
end

-- Metrics of one step with some keys changed, and the networks after it.
local function step(changes, turns, given)
  local c, own = update.settings(BASE), given or networks()
  for key, value in pairs(changes) do
    c[key] = value
  end
  return update.step(own, episodes(turns), c, 1), own
end

local spec = {}

function spec.a_preset_may_leave_out_what_changes_nothing()
  local smoke = config.plain(assert(config.load { preset = "smoke" })).ppo
  for key, value in pairs(update.DEFAULTS) do
    t.is_true(smoke[key] == value, ("[ppo] of smoke.toml: %s is %s, not %s"):format(key, tostring(smoke[key]),
      tostring(value)))
  end
  t.expect(update.settings { kl = 0.1 }.kl, 0.1)
end

function spec.a_turn_that_decays_changes_what_first_answers_are_paid()
  local plain, decayed = step({}), step({ lambda_turn = 0.25 })
  -- Of an untrained critic, which says 0, what stands before the observation is left a quarter of its credit.
  t.is_true(decayed.advantage_std < 0.9 * plain.advantage_std, decayed.advantage_std .. " " .. plain.advantage_std)
  t.expect(step({}, 1).advantage_std, step({ lambda_turn = 0.25 }, 1).advantage_std)
end

function spec.the_critic_has_epochs_of_its_own()
  local _, own = step({ critic_epochs = 3 })
  t.expect({ own.critic:stats().step, own.actor:stats().step }, { 3, 1 })
  _, own = step({ epochs = 2, minibatch = 2 })
  t.expect({ own.critic:stats().step, own.actor:stats().step }, { 4, 4 })
end

function spec.rates_rise_over_the_warm_up()
  local own = networks()
  local rates = {}
  for index = 1, 5 do
    rates[index] = step({ actor_warmup = 4 }, 2, own).actor_lr
  end
  for index, share in ipairs { 0.25, 0.5, 0.75, 1, 1 } do
    t.is_true(math.abs(rates[index] - share * 1e-3) < 1e-9, ("update %d: rate %g"):format(index, rates[index]))
  end
end

function spec.advantages_of_groups_need_no_critic()
  local metrics, own = step({ advantages = "group" })
  t.expect({ own.critic:stats().step, own.actor:stats().step, metrics.value_loss }, { 0, 1, nil })
  t.expect({ metrics.advantage_max, metrics.advantage_min }, { 1, -1 })
  t.is_true(math.abs(step({ advantages = "group", group_scale = "std" }).advantage_max - math.sqrt(0.5)) < 1e-3)
  t.expect(step({ advantages = "group", group_center = "leave_one_out" }).advantage_max, 2)
end

function spec.the_kl_term_needs_a_reference_that_is_opened_for_it_alone()
  t.expect(update.reference({}, update.settings(BASE), "nowhere"), nil)
  t.raises("ref_logp", step, { kl = 0.1 })
  local own = networks()
  own.reference = networks().actor
  step({ kl = 0.1 }, 2, own)
  t.expect(own.actor:stats().step, 1)
end

function spec.each_option_of_the_objectives_is_a_key()
  local changes = { clip_low = 0.1, clip_high = 0.3, dual_clip = 3, entropy = 0.01, importance_cap = 2,
    horizon = 8, aggregate = "seq-mean-token-sum-norm", value_clip = 0.5, value_aggregate = "token-mean" }
  local c = update.settings(BASE)
  for key, value in pairs(changes) do
    c[key] = value
  end
  local policy, value = update.objectives(c)
  t.expect(policy, { clip_low = 0.1, clip_high = 0.3, dual_clip = 3, kl = 0, entropy = 0.01, importance_cap = 2,
    horizon = 8, aggregate = "seq-mean-token-sum-norm" })
  t.expect(value, { clip = 0.5, aggregate = "token-mean" })
  local _, own = step(changes)
  t.expect({ own.critic:stats().step, own.actor:stats().step }, { 1, 1 })
end

return spec
