-- Agentic PPO: several turns in a workspace, the final state judged once; actor from rejection fine-tuning, critic from
-- value pretraining.
--
-- With agentic.method = "rft" the stage is the control that PPO has to beat: the fine-tuned actor plays as many groups
-- of as many tasks, and is fine-tuned once more on what is good of them.

local episode = require "agent.episode"
local models = require "training.models"
local pipeline = require "run.pipeline"
local ppo = require "training.ppo"
local rft = require "recipes.stages.rft"
local tables = require "evaluation.table"
local validate = require "training.validate"

local COLUMNS = { "step", "reward", "pass_rate", "distinct", "turns", "entropy", "ev_mc", "validation_pass" }

-- And where it calls tools.
local TOOL_COLUMNS = { "step", "reward", "pass_rate", "distinct", "turns", "entropy", "ev_mc", "calls", "well_formed",
  "tools_used", "validation_pass" }

local stage = { name = "agentic", summary = "PPO of the agent" }

local METHODS = { ppo = true, rft = true }

-- How the stage plays, from its section of the preset.
local function settings_of(run)
  local c = run.config.agentic
  return { stage = stage.name, steps = c.steps, tasks = c.tasks, timed_share = c.timed_share, group = c.group,
    turns = c.turns, answer_tokens = c.answer_tokens, observation_tokens = c.observation_tokens,
    limit = run.config.machine.episodes, actor_lr = c.actor_lr, reference = run:need("rft").actor }
end

-- The control. It plays and judges what PPO does, those episodes included that the critic was pretrained on.
local function fit_again(run)
  local actor = models.open(run, run:need("rft").actor)
  local policy = models.policy(run, actor, stage.name, { agent = true })
  local o, tasks, curve, stages = settings_of(run), run:training(), {}, { stage.name }
  local curriculum = ppo.curriculum(run, tasks)
  for step = 1, o.steps do
    local hash = run:at_step(stage.name, step)
    local chosen = ppo.drawn(run, curriculum, o, step)
    local episodes, facts = ppo.rollouts(ppo.setting(run, policy, o, step, run.replaying or false), chosen, o.group,
      o.limit)
    ppo.tell(curriculum, chosen, episodes)
    facts.step, curve[step] = step, facts
    ppo.keep_metrics(run, stage.name, step, facts, hash)
  end
  if (run.config.value.episodes or 0) > 0 then
    stages[2] = "value"
  end
  local result = rft.fit(run, actor, episode.of_stages(run, stages), stage.name .. " fit")
  result.actor, result.curve = models.keep(run, stage.name, "actor", actor), curve
  table.insert(result.tables, 1, tables.of("Episodes of the fine-tuned actor",
    { "step", "reward", "pass_rate", "distinct", "turns" }, curve))
  return result
end

function stage.execute(run)
  local method = run.config.agentic.method or "ppo"
  if not METHODS[method] then
    error(("agentic.method = %q: expected ppo or rft"):format(tostring(method)), 0)
  end
  if method == "rft" then
    return fit_again(run)
  end
  local actor = models.open(run, run:need("rft").actor)
  local critic = actor:critic()
  assert(critic:load(run:path(run:need("value").critic), { optimizer = false }))
  local policy = models.policy(run, actor, "agentic", { agent = true })
  local fixed = models.policy(run, actor, "agentic", { fixed = true, agent = true })
  local curve = ppo.run(run, { actor = actor, critic = critic, policy = policy, fixed = fixed }, run:training(),
    settings_of(run))
  critic:close()
  local base_reward = run:need("supervised").validation_reward
  local chosen = validate.chosen(curve, base_reward)
  local collapse = validate.collapse(curve, base_reward)
  local folder = models.keep(run, stage.name, "actor", actor)
  -- Tables use the last validated weights before a collapse.
  if collapse and chosen then
    folder = run:checkpoint_path(stage.name, chosen, "actor")
  end
  return { actor = folder, curve = curve, collapse = collapse, chosen = chosen,
    tables = { tables.of("Agentic PPO", models.calls_tools(run) and TOOL_COLUMNS or COLUMNS, curve) } }
end

return pipeline.standalone(stage)
