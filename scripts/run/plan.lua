-- What a run will do before it does anything: stages, verdicts, tokens, minutes, disk. Unit costs stand in [plan] of
-- the preset, beside the machine that they were measured on; what is assumed about a policy stands here.

local tables = require "evaluation.table"

local plan = {}

-- Each: tasks that are admitted, verdicts with times, verifications only (and of those the ones beside which other
-- answers are drawn), tokens drawn, tokens passed through an update, tasks that are judged for the first time (and of
-- those the timed ones, whose baselines are compiled), models opened, checkpoints written.
local COSTS = {}

-- Of a policy: answers that are right, and therefore timed where the task is; chance of another turn after one.
local RIGHT, ANOTHER_TURN = 0.35, 0.6
-- Passes of an update's tokens: old log-probs and values are a third of an update each; an epoch is one of the critic,
-- and half of one of the actor, which learns from groups whose rewards differ.
local SCORING, EPOCH = 2 / 3, 1.5

local function ceil_spare(c, split)
  return math.ceil(c.tasks[split] * c.tasks.spare)
end

local function mean_turns(turns)
  return 1 + (turns - 1) * ANOTHER_TURN
end

local function timed_share(c)
  return c.tasks.train / (c.tasks.train + c.tasks.drill)
end

local function families(c)
  local seen, count = {}, 0
  for _, family in ipairs(c.tasks.families) do
    count = count + (seen[family] and 0 or 1)
    seen[family] = true
  end
  return count
end

local function validation(c, times)
  local answers = times * c.tasks.validation * (c.validate.samples or 1)
  return { verify = answers, draw = answers * c.plan.answer_tokens }
end

local function tokens_of(c, turns)
  return c.plan.prompt_tokens + c.plan.answer_tokens * turns
end

local function calls_tools(c)
  return (c.prompt or {}).answers == "tools"
end

-- An episode of the agent: tokens in all, tokens drawn, and verifications that it asks for, the last of which is the
-- verdict. Of one that calls tools [plan] knows these; what it verifies twice is judged once.
local function agent_of(c, turns)
  local p, mean = c.plan, mean_turns(turns)
  if turns > 1 and calls_tools(c) then
    return { tokens = p.agent_prompt_tokens + p.agent_drawn_tokens + p.agent_observed_tokens,
      draw = p.agent_drawn_tokens, asks = p.agent_asks }
  end
  return { tokens = tokens_of(c, mean), draw = p.answer_tokens * mean, asks = mean }
end

-- The dialogues that a supervised start with tools plays itself: verdicts are of different kernels.
local function dialogues_cost(c)
  local d = c.dialogues
  if d.pack ~= "" then
    return { verify = 0, measure = 0, compile = 0, fresh = 0 }
  end
  local tasks = d.tasks + d.timed
  return { verify = 2 * 3 * tasks + d.count * d.fault, measure = d.count * (2 * d.slow + (1 - d.slow - d.fault)
    * d.timed / tasks), compile = d.timed, fresh = d.tasks }
end

function COSTS.synthesize()
  return {}
end

function COSTS.filter(c)
  local candidates = 0
  for _, split in ipairs { "train", "drill", "test", "validation", "held_out", "validation_timed" } do
    candidates = candidates + ceil_spare(c, split)
  end
  local shown = families(c) * math.min(c.tasks.witnesses, 2)
  return { admit = candidates, measure = shown * 4, compile = shown }
end

function COSTS.base(c)
  local cost = validation(c, 1)
  cost.open, cost.fresh = 1, c.tasks.validation
  return cost
end

function COSTS.supervised(c)
  local o = c.supervised
  if not o or o.steps == 0 then
    return {}
  end
  local looks = 1 + math.floor(math.max(o.steps - o.look_from, 0) / o.look_every)
  local tools = calls_tools(c)
  local agent = agent_of(c, tools and c.agentic.turns or 1)
  local cost = validation(c, looks)
  if tools then
    cost.draw = cost.verify * agent.draw
    cost.verify = cost.verify * agent.asks
    for name, more in pairs(dialogues_cost(c)) do
      cost[name] = (cost[name] or 0) + more
    end
  end
  local answers = o.tasks * (3 + o.dialogues)
  cost.verify, cost.fresh, cost.save = cost.verify + answers, (cost.fresh or 0) + o.tasks, 1
  cost.train = o.steps * o.batch * agent.tokens
  return cost
end

local function ppo_cost(c, o, turns)
  if o.steps == 0 then
    return {}
  end
  local episodes = o.steps * o.tasks * o.group
  local agent, validations = agent_of(c, turns), c.validate.every > 0 and math.floor(o.steps / c.validate.every) or 0
  local seen = validation(c, validations)
  if turns > 1 and calls_tools(c) then
    seen.verify, seen.draw = seen.verify * agent.asks, seen.verify * agent.draw
  end
  -- Single answers are judged once; of several turns each but the last is verified for the agent.
  local verify = seen.verify + episodes * (turns == 1 and 1 - RIGHT * timed_share(c) or agent.asks)
  return { episodes = episodes, verify = verify, overlapped = verify,
    measure = episodes * RIGHT * timed_share(c), draw = seen.draw + episodes * agent.draw,
    train = episodes * agent.tokens * (SCORING + EPOCH * (c.ppo.epochs or 1)), save = 1 + validations }
end

function COSTS.single_turn(c)
  local cost = ppo_cost(c, c.single_turn, 1)
  -- Whichever stage comes first meets the tasks for the first time.
  cost.compile, cost.fresh = c.tasks.train, c.tasks.drill
  return cost
end

function COSTS.collect(c)
  local n, agent = c.collect.episodes, agent_of(c, c.collect.turns)
  return { episodes = n, verify = n * agent.asks, measure = n * RIGHT * timed_share(c), draw = n * agent.draw }
end

-- Tokens of the trajectories that some stages leave.
local function stored_tokens(c, stages)
  local tokens = 0
  for _, stage in ipairs(stages) do
    local o = c[stage]
    tokens = tokens + (o.episodes or o.steps * o.tasks * o.group) * agent_of(c, o.turns or 1).tokens
  end
  return tokens
end

function COSTS.rft(c)
  return { train = stored_tokens(c, c.rft.stages) * RIGHT * c.rft.epochs, save = 1 }
end

function COSTS.value(c)
  local n, agent = c.value.episodes or 0, agent_of(c, c.collect.turns)
  return { train = (stored_tokens(c, c.value.stages) + n * agent.tokens) * c.value.epochs * 4 / 3, save = 1,
    episodes = n, verify = n * agent.asks, measure = n * RIGHT * timed_share(c), draw = n * agent.draw }
end

function COSTS.agentic(c)
  return ppo_cost(c, c.agentic, c.agentic.turns)
end

function COSTS.evaluate(c)
  local e, models = c.evaluate, (c.supervised or { steps = 0 }).steps > 0 and 5 or 4
  local loops = #(e.loop or { "base", "agentic" })
  local answers = 2 * e.samples + (models - 2) * e.samples_between
  local single = c.tasks.held_out * (1 + answers)
  local test = c.tasks.test * (1 + models * (e.samples_test or 0))
  local played, timed = loops * c.tasks.held_out, c.tasks.test * (1 + loops * e.samples_timed)
  local agent, more = agent_of(c, e.turns), calls_tools(c) and 0 or 1
  return { episodes = single + test + played + timed, verify = single + played * (agent.asks + more)
    + timed * agent.asks + test * (1 - RIGHT), measure = test * RIGHT + timed * 1.5,
    draw = (single + test) * c.plan.answer_tokens + (played + timed) * agent.draw, compile = c.tasks.test,
    fresh = c.tasks.held_out, open = 1 }
end

function COSTS.report()
  return {}
end

plan.ORDER = { "synthesize", "filter", "base", "supervised", "single_turn", "collect", "rft", "value", "agentic",
  "evaluate", "report" }

local FIELDS = { "episodes", "admit", "verify", "measure", "fresh", "compile", "draw", "train", "open", "save" }
-- The unit cost of each in [plan], in seconds.
local UNITS = { admit = "admit_s", verify = "verify_s", measure = "verdict_s", fresh = "new_task_s",
  compile = "compile_s", open = "open_s", save = "save_s" }
-- What a table shows.
local COLUMNS = { { "episodes", "episodes" }, { "admit", "admitted" }, { "verify", "verified" }, { "measure", "timed" },
  { "compile", "compiled" }, { "draw", "tokens drawn" }, { "train", "tokens trained" } }

--- The reckoning of one stage.
---@param c table       merged configuration
---@param name string
---@return table<string, number>
function plan.stage(c, name)
  local cost, p = COSTS[name](c), c.plan
  cost.seconds = 0
  for _, field in ipairs(FIELDS) do
    cost[field] = cost[field] or 0
    cost.seconds = cost.seconds + cost[field] * (UNITS[field] and p[UNITS[field]] or 0)
  end
  local spared = p.overlapped_s and p.verify_s - p.overlapped_s or 0
  cost.seconds = cost.seconds - (cost.overlapped or 0) * spared + cost.draw / p.draw_tokens_per_s +
    cost.train / p.train_tokens_per_s
  return cost
end

--- Seconds of every stage, and their sum: what a run stores before it begins.
---@param c table
---@return {stages: table<string, number>, seconds: number}
function plan.seconds(c)
  local list, sum = {}, 0
  for _, name in ipairs(plan.ORDER) do
    list[name] = plan.stage(c, name).seconds
    sum = sum + list[name]
  end
  return { stages = list, seconds = sum }
end

--- Whether one more step of a stage would make a run last longer than plan.minutes. What is planned behind the stage is
--- reckoned at the pace that the ended stages kept where they were slower than planned.
---@param c table       merged configuration, with plan.minutes (0: no limit)
---@param stage string
---@param taken table<string, number>   seconds of the stages that have ended
---@param here_s number   seconds of this stage so far
---@param step_s number   seconds of one step of it
---@return boolean late
---@return {minutes: number, spent_s: number, step_s: number, planned_behind_s: number, pace: number} reckoned
function plan.late(c, stage, taken, here_s, step_s)
  local minutes, spent, planned, later, behind = c.plan.minutes or 0, 0, 0, 0, false
  for _, name in ipairs(plan.ORDER) do
    local seconds = plan.stage(c, name).seconds
    if taken[name] then
      spent, planned = spent + taken[name], planned + seconds
    elseif behind then
      later = later + seconds
    end
    behind = behind or name == stage
  end
  local pace = planned > 0 and math.max(1, spent / planned) or 1
  local late = minutes > 0 and spent + here_s + step_s + later * pace > 60 * minutes
  return late, { minutes = minutes, spent_s = spent + here_s, step_s = step_s, planned_behind_s = later, pace = pace }
end

local function whole(value)
  return ("%d"):format(math.floor(value + 0.5))
end

-- Checkpoints of a run: those of stages' ends, and of steps with moments or of validated steps without.
local function disk_mb(c)
  local steps = c.single_turn.steps + c.agentic.steps
  local validated = c.validate.every > 0 and math.floor(steps / c.validate.every) or 0
  if c.model.checkpoint == "weights" then
    return c.plan.checkpoint_mb * (5 + validated)
  end
  -- Weights and two moments of actor and critic; older steps keep weights only where they were validated.
  return c.plan.checkpoint_mb * (5 + 6 + 3 * validated)
end

--- The reckoning as text, of one stage or of all.
---@param c table
---@param only? string
---@return string
function plan.text(c, only)
  local rows, sum, heads = {}, { seconds = 0 }, { "stage" }
  for index, column in ipairs(COLUMNS) do
    heads[index + 1] = column[2]
  end
  heads[#heads + 1] = "minutes"
  local function add(name, cost)
    local row = { name }
    for _, column in ipairs(COLUMNS) do
      row[#row + 1] = whole(cost[column[1]])
    end
    row[#row + 1] = ("%.1f"):format(cost.seconds / 60)
    rows[#rows + 1] = row
  end
  for _, name in ipairs(plan.ORDER) do
    if not only or only == name then
      local cost = plan.stage(c, name)
      for _, field in ipairs(FIELDS) do
        sum[field] = (sum[field] or 0) + cost[field]
      end
      sum.seconds = sum.seconds + cost.seconds
      add(name, cost)
    end
  end
  add("sum", sum)
  local ranks = c.machine.ranks or 1
  return tables.text(heads, rows) .. ("\n\ndisk: about %.0f MB; reckoned with the unit costs in [plan] of the preset")
    :format(disk_mb(c) + sum.episodes * 0.03) .. (ranks > 1 and
    ("\nranks: %d share each update; the minutes are those of one"):format(ranks) or "")
end

return plan
