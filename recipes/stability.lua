-- What warm-up does for PPO, on a toy that a laptop trains: full, without rejection fine-tuning, without value
-- pretraining, and the full one with the sampler's own log-probs and sampling in bf16. Every seed is drawn.
--
-- Departures from the paper: the task (call a tool, read a secret from its answer, say it, stop soon), the model (two
-- layers), lambda 1 for the critic, and rates that learn in minutes. It can show shapes, not sizes.

local args = require "lib.args"
local fs = require "khost.fs"
local json = require "khost.json"
local log = require "khost.log"
local markup = require "lib.markup"
local progress = require "khost.progress"
local random = require "lib.random"
local sched = require "khost.sched"
local trainer = require "khost.trainer"

local OPTIONS = {
  { name = "--seeds", kind = "number", default = 5, help = "runs of each variant" },
  { name = "--steps", kind = "number", default = 60, help = "PPO steps of a run" },
  { name = "--episodes", kind = "number", default = 48, help = "episodes of a step" },
  { name = "--variant", kind = "list", help = "only these: full, no_rft, no_value, sampler" },
  { name = "--output", kind = "text", help = "folder for stability.json and figures" },
}
local ABOUT = { name = "recipes/stability.lua", summary = "warm-up and stability on a toy task" }

local VARIANTS = { "full", "no_rft", "no_value", "sampler" }
local METRICS = { "reward", "entropy", "ev_mc", "length", "sampler_gap_max" }

-- Tokens: controls, eight secrets, eight fillers.
local BEGIN, CALL, ANSWER, END, SECRETS, FILLERS = 0, 1, 2, 3, 4, 12
local SHAPE = { vocabulary = 20, width = 32, layers = 2, heads = 4, kv_heads = 2, mlp_width = 64, positions = 48 }
local TURN_TOKENS = { 8, 12 }
local TEACHER_RIGHT = 0.3

-- A dialogue of a teacher that babbles and is wrong more often than not: what the base model learns.
local function demonstrate(stream)
  local episode = { tokens = { BEGIN }, mask = { 0 }, reward = 1 }
  local function put(token, action)
    episode.tokens[#episode.tokens + 1], episode.mask[#episode.mask + 1] = token, action
  end
  local function babble()
    for _ = 1, stream:integer(0, 3) do put(FILLERS + stream:integer(0, 7), 1) end
  end
  local secret = SECRETS + stream:integer(0, 7)
  babble()
  put(CALL, 1)
  put(ANSWER, 0)
  put(secret, 0)
  babble()
  put(stream:number() < TEACHER_RIGHT and secret or SECRETS + stream:integer(0, 7), 1)
  put(END, 1)
  return episode
end

-- The paper's levels: -1 wrong, 1 right, 2 and 3 right with few tokens.
local function reward_of(tokens, drawn, secret, ended)
  if not ended or tokens[#tokens - 1] ~= secret then return -1 end
  return drawn <= 3 and 3 or drawn <= 5 and 2 or 1
end

local function play(policy, secret, seed)
  local episode = { tokens = { BEGIN }, mask = { 0 }, logprobs = {}, reward = -1, drawn = 0 }
  local function turn(number, stop)
    local answer = assert(policy:generate(episode.tokens, { max_tokens = TURN_TOKENS[number], stop = { stop },
      seed = seed * 2 + number }))
    for index, token in ipairs(answer.tokens) do
      episode.tokens[#episode.tokens + 1], episode.mask[#episode.mask + 1] = token, 1
      episode.logprobs[#episode.logprobs + 1] = answer.logprobs[index]
    end
    episode.drawn = episode.drawn + #answer.tokens
    return answer.finish == "stop"
  end
  if turn(1, CALL) then
    for _, token in ipairs { ANSWER, secret } do
      episode.tokens[#episode.tokens + 1], episode.mask[#episode.mask + 1] = token, 0
    end
    local ended = turn(2, END)
    episode.reward = reward_of(episode.tokens, episode.drawn, secret, ended)
  end
  return episode
end

local function rollouts(policy, stream, count)
  local jobs = {}
  for index = 1, count do
    jobs[index] = { secret = SECRETS + stream:integer(0, 7), seed = stream:integer(1, 1e9) }
  end
  return sched.map(jobs, function(job) return play(policy, job.secret, job.seed) end)
end

local function base(actor, stream)
  for _ = 1, 60 do
    local list = {}
    for index = 1, 32 do list[index] = demonstrate(stream) end
    assert(actor:update(trainer.pack(list), trainer.rft { reduce = "token-mean" }, { lr = 3e-3, max_norm = 1 }))
  end
end

local function rejection(actor, episodes)
  local kept = {}
  for _, episode in ipairs(episodes) do
    if episode.reward > 0 then kept[#kept + 1] = episode end
  end
  local batch = trainer.pack(kept)
  for part in batch:split(32, 4, { seed = 1 }) do
    assert(actor:update(part, trainer.rft { reduce = "token-mean" }, { lr = 1e-3, max_norm = 1 }))
  end
end

-- Targets are computed anew every epoch: with lambda below 1, frozen ones hardly move the outcome forward.
local function pretrain(critic, episodes)
  local batch = trainer.pack(episodes)
  for epoch = 1, 8 do
    assert(batch:fill("values", critic))
    batch:advantages { lambda = 1, whiten = false }
    for part in batch:split(32, 1, { seed = epoch }) do
      assert(critic:update(part, trainer.value {}, { lr = 2e-3, max_norm = 1 }))
    end
  end
end

local function ppo_step(actor, critic, episodes, sampler, seed)
  local batch = trainer.pack(episodes)
  assert(batch:fill("old_logp", sampler and "sampler" or actor))
  assert(batch:fill("values", critic))
  local metrics = assert(batch:advantages { lambda = 0.95, lambda_critic = 1, whiten = true })
  local policy
  for part in batch:split(0, 1, { seed = seed }) do
    assert(critic:update(part, trainer.value {}, { lr = 2e-3, max_norm = 1 }))
    policy = assert(actor:update(part, trainer.ppo {}, { lr = 2e-3, max_norm = 1 }))
  end
  -- With the sampler's numbers as the old ones, the first ratio is the gap.
  local gap = sampler and math.max(policy.ratio_max - 1, 1 - policy.ratio_min) or policy.sampler_gap_max
  return { reward = metrics.reward_mean, entropy = policy.entropy, ev_mc = metrics.ev_mc,
    length = metrics.action_length_mean, sampler_gap_max = gap }
end

local function train(variant, seed, options, bar)
  local stream = random.stream(("stability %d"):format(seed))
  local sampler = variant == "sampler"
  local actor = assert(trainer.open { model = SHAPE, seed = seed, threads = 1, lease = "",
    sampler_dtype = sampler and "bf16" or nil })
  base(actor, stream)
  local collected = rollouts(actor:policy(), stream, 256)
  if variant ~= "no_rft" then rejection(actor, collected) end
  local critic = actor:critic()
  if variant ~= "no_value" then pretrain(critic, collected) end
  local curve = {}
  for step = 1, options.steps do
    local episodes = rollouts(actor:policy(), stream, options.episodes)
    curve[step] = ppo_step(actor, critic, episodes, sampler, step)
    bar:add(1)
  end
  return curve
end

local TITLES = { full = "full", no_rft = "without RFT", no_value = "without value pretraining",
  sampler = "sampler's log-probs, bf16" }
-- Where all rewards are nearly the same, the share of their variance that is explained goes far below.
local LOWEST = { ev_mc = -1 }
local PANEL = { left = 44, top = 40, width = 170, height = 130, step = 190 }

-- A frame for each variant with a line for each seed, all with the same axes.
local function figure(metric, curves, variants)
  local low, high, steps = math.huge, -math.huge, 1
  local function value(point) return math.max(point[metric], LOWEST[metric] or -math.huge) end
  for _, run in ipairs(curves) do
    for step, point in ipairs(run.curve) do
      low, high, steps = math.min(low, value(point)), math.max(high, value(point)), math.max(steps, step)
    end
  end
  local p, parts = PANEL, {}
  local function put(text, ...) parts[#parts + 1] = text:format(...) end
  put('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d 196" font-family="sans-serif" font-size="11">',
    p.left + p.step * #variants)
  put('<rect width="100%%" height="100%%" fill="#fff"/><text x="%d" y="16" font-size="13">%s over %d steps%s</text>',
    p.left, markup.escape(metric), steps, LOWEST[metric] and (", %g where it is below"):format(LOWEST[metric]) or "")
  put('<text x="%d" y="%d" text-anchor="end">%.3g</text><text x="%d" y="%d" text-anchor="end">%.3g</text>', p.left - 4,
    p.top + 10, high, p.left - 4, p.top + p.height, low)
  for index, variant in ipairs(variants) do
    local left = p.left + p.step * (index - 1)
    put('<rect x="%d" y="%d" width="%d" height="%d" fill="none" stroke="#bbb"/><text x="%d" y="%d">%s</text>', left,
      p.top, p.width, p.height, left, p.top + p.height + 15, markup.escape(TITLES[variant]))
    for _, run in ipairs(curves) do
      local points = {}
      for step, point in ipairs(run.variant == variant and run.curve or {}) do
        points[step] = ("%.1f,%.1f"):format(left + p.width * (step - 1) / math.max(1, steps - 1),
          p.top + p.height * (1 - (value(point) - low) / math.max(1e-9, high - low)))
      end
      if points[1] then
        put('<polyline fill="none" stroke="hsl(%d,60%%,40%%)" points="%s"/>', 70 * run.seed, table.concat(points, " "))
      end
    end
  end
  return table.concat(parts, "\n") .. "\n</svg>\n"
end

-- Mean of a metric over the last tenth of a run.
local function last(curve, metric)
  local from, sum = math.floor(#curve * 0.9), 0
  for step = from + 1, #curve do sum = sum + curve[step][metric] end
  return sum / math.max(1, #curve - from)
end

local function print_table(curves, variants)
  log.print(("%-9s %-15s %8s   %s"):format("variant", "metric", "first", "last tenth of every seed"))
  for _, variant in ipairs(variants) do
    for _, metric in ipairs(METRICS) do
      local first, count, ends = 0, 0, {}
      for _, run in ipairs(curves) do
        if run.variant == variant then
          first, count = first + run.curve[1][metric], count + 1
          ends[#ends + 1] = ("%8.3f"):format(last(run.curve, metric))
        end
      end
      log.print(("%-9s %-15s %8.3f  %s"):format(variant, metric, first / math.max(1, count), table.concat(ends, " ")))
    end
  end
end

local function run(list)
  local options = args.parse(OPTIONS, list, ABOUT)
  local variants, curves = #(options.variant or {}) > 0 and options.variant or VARIANTS, {}
  for _, variant in ipairs(variants) do
    if not TITLES[variant] then
      args.misuse(("--variant %s: expected %s"):format(variant, table.concat(VARIANTS, ", ")))
    end
  end
  local bar = progress.begin("stability", #variants * options.seeds * options.steps)
  for _, variant in ipairs(variants) do
    for seed = 1, options.seeds do
      curves[#curves + 1] = { variant = variant, seed = seed, curve = train(variant, seed, options, bar) }
    end
  end
  bar:finish()
  print_table(curves, variants)
  if options.output then
    assert(fs.mkdirs(options.output))
    assert(fs.write(options.output .. "/stability.json", json.encode(curves)))
    for _, metric in ipairs(METRICS) do
      assert(fs.write(("%s/%s.svg"):format(options.output, metric), figure(metric, curves, variants)))
    end
  end
  return 0
end

return { name = ABOUT.name, summary = ABOUT.summary, run = run }
