-- Agentic PPO: several turns in a workspace, the final state judged once; actor from rejection fine-tuning, critic from
-- value pretraining.

local models = require "training.models"
local pipeline = require "run.pipeline"
local ppo = require "training.ppo"
local tables = require "evaluation.table"
local validate = require "training.validate"

local COLUMNS = { "step", "reward", "pass_rate", "distinct", "turns", "entropy", "ev_mc", "validation_pass" }

-- And where it calls tools.
local TOOL_COLUMNS = { "step", "reward", "pass_rate", "distinct", "turns", "entropy", "ev_mc", "calls", "well_formed",
  "tools_used", "validation_pass" }

local stage = { name = "agentic", summary = "PPO of the agent" }

function stage.execute(run)
  local c = run.config.agentic
  local actor = models.open(run, run:need("rft").actor)
  local critic = actor:critic()
  assert(critic:load(run:path(run:need("value").critic), { optimizer = false }))
  local policy = models.policy(run, actor, "agentic", { agent = true })
  local fixed = models.policy(run, actor, "agentic", { fixed = true, agent = true })
  local curve = ppo.run(run, { actor = actor, critic = critic, policy = policy, fixed = fixed }, run:training(), {
    stage = stage.name, steps = c.steps, tasks = c.tasks, group = c.group, turns = c.turns,
    answer_tokens = c.answer_tokens, observation_tokens = c.observation_tokens, limit = run.config.machine.episodes,
    actor_lr = c.actor_lr, reference = run:need("rft").actor })
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
