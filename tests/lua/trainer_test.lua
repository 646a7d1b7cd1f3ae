-- khost.trainer and khost.policy as a recipe uses them.
local fs = require "khost.fs"
local policy = require "khost.policy"
local sched = require "khost.sched"
local test = require "tests.lua.harness"
local trainer = require "khost.trainer"

local spec = {}

local shape = { vocabulary = 32, width = 32, layers = 2, heads = 4, kv_heads = 2, mlp_width = 48, positions = 128 }

local function open(seed)
  return assert(trainer.open { model = shape, seed = seed or 1, threads = 1, lease = "" })
end

-- One episode of the toy task: the share of drawn tokens that are 3 modulo 8.
local function play(actor_policy, seed)
  local drawn = assert(actor_policy:generate({ 1, 2 }, { max_tokens = 4, seed = seed, stop = {} }))
  local episode = { tokens = { 1, 2 }, mask = { 0, 0 }, logprobs = drawn.logprobs, reward = 0, id = seed }
  for _, token in ipairs(drawn.tokens) do
    table.insert(episode.tokens, token)
    table.insert(episode.mask, 1)
    if token % 8 == 3 then episode.reward = episode.reward + 0.25 end
  end
  return episode
end

function spec.a_share_of_memory_is_above_nothing_and_at_most_all()
  for _, share in ipairs { 0, -0.5, 1.5, 0 / 0 } do
    local opened, message, code = trainer.open { model = shape, lease = "", memory_share = share }
    test.expect({ opened, code }, { nil, "bad_input" })
    test.is_true(message:find("memory_share", 1, true), message)
  end
end

function spec.a_closed_trainer_says_so_and_its_policy_goes_on()
  local actor = open(2)
  local draw = actor:policy()
  actor:close()
  test.raises("the Trainer is closed", actor.stats, actor)
  test.raises("the Trainer is closed", actor.close, actor)
  test.expect(#assert(draw:generate({ 1, 2 }, { max_tokens = 3, stop = {} })).tokens, 3)
  draw:close()
  test.raises("the Policy is closed", draw.stats, draw)
end

function spec.ppo_learns_a_toy_task()
  local actor = open(5)
  local critic, draw = actor:critic(), actor:policy()
  local reward = 0
  for step = 1, 60 do
    local seeds = {}
    for i = 1, 48 do seeds[i] = step * 100 + i end
    local episodes = sched.map(seeds, function(seed) return play(draw, seed) end)
    local batch = trainer.pack(episodes, { tokens = 4096 })
    assert(batch:fill("old_logp", actor))
    assert(batch:fill("values", critic))
    reward = batch:advantages { lambda = 1, whiten = true }.reward_mean
    if reward >= 0.95 then break end
    for part in batch:split(24, 2, { seed = step }) do
      assert(critic:update(part, trainer.value {}, { lr = 3e-3, max_norm = 1 }))
      local metrics = assert(actor:update(part, trainer.ppo {}, { lr = 3e-3, max_norm = 1 }))
      test.is_true(metrics.sampler_gap_max < 1e-4, "sampler and trainer disagree")
    end
  end
  test.is_true(reward >= 0.95, "reward stayed at " .. reward)
end

function spec.the_first_update_has_ratio_one()
  local actor = open()
  local draw = actor:policy()
  local batch = trainer.pack { play(draw, 1), play(draw, 2) }
  assert(batch:fill("old_logp", actor))
  batch:advantages { source = "group", whiten = false }
  local metrics = assert(actor:update(batch, trainer.ppo { dual_clip = 3 }, { lr = 1e-3 }))
  test.is_true(math.abs(metrics.ratio_max - 1) < 1e-5)
  test.expect(metrics.clip_frac, 0)
  test.expect(draw:version(), 1)
end

function spec.groups_share_a_prompt_and_seeds_repeat()
  local draw = open():policy()
  local prompt = {}
  for i = 1, 40 do prompt[i] = i % 32 end
  local options = { max_tokens = 6, seed = 9, stop = {} }
  local first = assert(draw:generate_group(prompt, 4, options))
  local second = assert(draw:generate_group(prompt, 4, options))
  test.expect(#first, 4)
  for i = 1, 4 do test.expect(second[i].tokens, first[i].tokens) end
  test.is_true(draw:stats().reused_tokens > 3 * 30)
end

function spec.a_cancelled_request_frees_its_task()
  local draw = open():policy()
  local task = sched.spawn(function() return draw:generate({ 1 }, { max_tokens = 120, stop = {} }) end)
  sched.sleep(0)
  task:cancel()
  test.expect(#assert(draw:generate({ 1 }, { max_tokens = 3, stop = {} })).tokens, 3)
end

function spec.rft_raises_the_likelihood_of_its_episodes()
  local actor = open()
  local episode = { tokens = { 1, 2, 3, 4, 5 }, mask = { false, true, true, false, true }, reward = 1 }
  local batch = trainer.pack { episode }
  local before = assert(batch:evaluate(actor)).nll
  for _ = 1, 5 do assert(actor:update(batch, trainer.rft { reduce = "sum" }, { lr = 1e-2, max_norm = 1 })) end
  test.is_true(assert(batch:evaluate(actor)).nll < before - 0.1)
end

function spec.a_critic_learns_the_outcome()
  local actor = open()
  local critic = actor:critic()
  local batch = trainer.pack { { tokens = { 1, 7, 7 }, mask = { 0, 1, 1 }, reward = 2 },
    { tokens = { 2, 9, 9 }, mask = { 0, 1, 1 }, reward = -1 } }
  test.is_true(assert(batch:evaluate(critic)).ev_mc < 0.1)
  for _ = 1, 60 do
    assert(batch:fill("values", critic))
    batch:advantages { lambda = 1 }
    assert(critic:update(batch, trainer.value { clip = 0 }, { lr = 1e-2, max_norm = 1 }))
  end
  test.is_true(assert(batch:evaluate(critic)).ev_mc > 0.8)
end

function spec.a_checkpoint_restores_weights_and_note()
  local place = (fs.env("TMPDIR") or "/tmp") .. "/khost-trainer-test-" .. tostring(sched.now())
  local actor = open(3)
  assert(actor:save(place, { step = 7 }))
  local other = open(4)
  test.expect(assert(other:load(place)), { step = 7 })
  local tokens = { 1, 2, 3, 4 }
  test.expect(assert(other:policy():logprobs(tokens)), assert(actor:policy():logprobs(tokens)))
  local opened = assert(policy.open { model = place, lease = "" })
  test.expect(assert(opened:logprobs(tokens)), assert(actor:policy():logprobs(tokens)))
  fs.remove_tree(place)
  local missing, message, code = other:load(place)
  test.expect(missing, nil)
  test.expect(code, "io")
  test.is_true(message:find(place, 1, true) ~= nil)
end

function spec.a_tokenizer_is_learned_and_text_generates()
  local texts = { "return x > 0 ? x : 0;", "return x < 0 ? 0 : x;" }
  local tokenizer = assert(trainer.train_tokenizer(texts, { vocab = 280, specials = { "<|end|>" } }))
  test.expect(tokenizer:special("<|end|>"), 0)
  test.expect(tokenizer:decode(tokenizer:encode(texts[1])), texts[1])
  test.is_true(#tokenizer:encode("<|end|>") > 1, "plain text forged a special token")
  test.expect(tokenizer:encode("<|end|>", { special = true }), { 0 })
  local actor = assert(trainer.open { model = { width = 32, layers = 1, heads = 2 }, tokenizer = tokenizer,
    lease = "" })
  local drawn = assert(actor:policy():generate("return", { max_tokens = 8, stop = { "<|end|>" } }))
  test.expect(type(drawn.text), "string")
end

function spec.misuse_raises_and_trouble_is_returned()
  local actor = open()
  test.raises("mask", trainer.pack, { { tokens = { 1 }, reward = 0 } })
  test.raises("episode 1", trainer.pack, { { tokens = { 1 }, mask = { 1 }, reward = 0 } })
  test.raises("seq-mean-token-mean", trainer.ppo, { aggregate = "mean" })
  test.raises("lr", function()
    actor:update(trainer.pack { { tokens = { 1, 2 }, mask = { 0, 1 }, reward = 0 } }, trainer.rft {}, {})
  end)
  local batch = trainer.pack { { tokens = { 1, 2 }, mask = { 0, 1 }, reward = 0 } }
  local nothing, message, code = actor:update(batch, trainer.ppo {}, { lr = 1e-3 })
  test.expect(nothing, nil)
  test.expect(code, "bad_input")
  test.is_true(message:find("old_logp", 1, true) ~= nil)
  local drawn, _, why = actor:policy():generate({}, {})
  test.expect(drawn, nil)
  test.expect(why, "bad_input")
end

return spec
