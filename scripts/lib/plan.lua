-- What a run will do before it does anything: stages, verdicts, tokens, minutes, disk.

local tables = require "evaluation.table"

local plan = {}

-- Each: verdicts with times, verifications only, tokens drawn, tokens passed through an update, and compiled tasks.
local COSTS = {}

local PROMPT_TOKENS = 45
local ANSWER_TOKENS = 150

local function ceil_spare(c, split)
  return math.ceil(c.tasks[split] * c.tasks.spare)
end

function COSTS.synthesize()
  return {}
end

function COSTS.filter(c)
  local candidates = ceil_spare(c, "train") + ceil_spare(c, "drill") + ceil_spare(c, "test")
    + ceil_spare(c, "validation") + ceil_spare(c, "held_out")
  local families = {}
  for _, family in ipairs(c.tasks.families) do
    families[family] = true
  end
  local count = 0
  for _ in pairs(families) do
    count = count + 1
  end
  return { verify = candidates, measure = count * 4, compile = count }
end

function COSTS.base(c)
  return { verify = c.tasks.validation, draw = c.tasks.validation * ANSWER_TOKENS }
end

local function timed_share(c)
  return c.tasks.train / (c.tasks.train + c.tasks.drill)
end

local function ppo_cost(c, o, turns)
  local episodes = o.steps * o.tasks * o.group
  local length = PROMPT_TOKENS + ANSWER_TOKENS * turns
  local validations = c.validate.every > 0 and math.floor(o.steps / c.validate.every) or 0
  return { episodes = episodes, verify = episodes * (turns - 1) * 0.6 + validations * c.tasks.validation,
    -- What is wrong, a drill or judged before is not timed.
    measure = episodes * 0.35 * timed_share(c), draw = episodes * ANSWER_TOKENS * turns,
    train = episodes * length * 4, compile = 0 }
end

function COSTS.single_turn(c)
  local cost = ppo_cost(c, c.single_turn, 1)
  cost.verify, cost.compile = cost.verify + cost.episodes * 0.4, c.tasks.train
  return cost
end

local function mean_turns(turns)
  return 1 + (turns - 1) * 0.6
end

function COSTS.collect(c)
  local n, turns = c.collect.episodes, mean_turns(c.collect.turns)
  return { episodes = n, verify = n * turns * 0.6, measure = n * 0.3 * timed_share(c),
    draw = n * turns * ANSWER_TOKENS }
end

-- Tokens of the trajectories that some stages leave.
local function stored_tokens(c, stages)
  local tokens = 0
  for _, stage in ipairs(stages) do
    local o = c[stage]
    tokens = tokens + (o.episodes or o.steps * o.tasks * o.group)
      * (PROMPT_TOKENS + ANSWER_TOKENS * mean_turns(o.turns or 1))
  end
  return tokens
end

function COSTS.rft(c)
  return { train = stored_tokens(c, c.rft.stages) * 0.4 * c.rft.epochs }
end

function COSTS.value(c)
  return { train = stored_tokens(c, c.value.stages) * c.value.epochs * 2 }
end

function COSTS.agentic(c)
  return ppo_cost(c, c.agentic, mean_turns(c.agentic.turns))
end

function COSTS.evaluate(c)
  local e = c.evaluate
  local single = c.tasks.held_out * (1 + 2 * e.samples + 2 * e.samples_between)
  local agent = 2 * c.tasks.held_out
  local timed = c.tasks.test * (1 + 2 * e.samples_timed)
  return { episodes = single + agent + timed, verify = single + agent * e.turns + timed, measure = timed * 1.5,
    draw = (single + (agent + timed) * e.turns) * ANSWER_TOKENS, compile = c.tasks.test }
end

function COSTS.report()
  return {}
end

plan.ORDER = { "synthesize", "filter", "base", "single_turn", "collect", "rft", "value", "agentic", "evaluate",
  "report" }

local FIELDS = { "episodes", "verify", "measure", "compile", "draw", "train" }

--- The reckoning of one stage.
---@param c table       merged configuration
---@param name string
---@return table<string, number>
function plan.stage(c, name)
  local cost, p = COSTS[name](c), c.plan
  for _, field in ipairs(FIELDS) do
    cost[field] = cost[field] or 0
  end
  cost.seconds = cost.verify * p.verify_s + cost.measure * p.verdict_s + cost.compile * p.compile_s
    + cost.draw / p.draw_tokens_per_s + cost.train / p.train_tokens_per_s
  return cost
end

local function whole(value)
  return ("%d"):format(math.floor(value + 0.5))
end

--- The reckoning as text, of one stage or of all.
---@param c table
---@param only? string
---@return string
function plan.text(c, only)
  local rows, sum = {}, { seconds = 0 }
  for _, name in ipairs(plan.ORDER) do
    if not only or only == name then
      local cost, row = plan.stage(c, name), { name }
      for _, field in ipairs(FIELDS) do
        sum[field] = (sum[field] or 0) + cost[field]
        row[#row + 1] = whole(cost[field])
      end
      sum.seconds = sum.seconds + cost.seconds
      row[#row + 1] = ("%.1f"):format(cost.seconds / 60)
      rows[#rows + 1] = row
    end
  end
  local last = { "sum" }
  for _, field in ipairs(FIELDS) do
    last[#last + 1] = whole(sum[field])
  end
  last[#last + 1] = ("%.1f"):format(sum.seconds / 60)
  rows[#rows + 1] = last
  local steps = c.single_turn.steps + c.agentic.steps
  -- Weights and two moments of actor and critic; older steps keep weights only where they were validated.
  local disk = c.plan.checkpoint_mb * (4 + (c.validate.every > 0 and math.floor(steps / c.validate.every) or 0))
    + sum.episodes * 0.03
  return tables.text({ "stage", "episodes", "verified", "timed", "compiled", "tokens drawn", "tokens trained",
    "minutes" }, rows) .. ("\n\ndisk: about %.0f MB; reckoned with the unit costs in [plan] of the preset"):format(disk)
end

return plan
