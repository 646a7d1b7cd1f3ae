-- Single-turn PPO: one answer a task, a real verdict as reward. The critic begins as the supervised model under a value
-- head. Without steps the supervised model goes on as it is (the ablation without this stage).

local models = require "training.models"
local pipeline = require "run.pipeline"
local ppo = require "training.ppo"
local tables = require "evaluation.table"
local validate = require "training.validate"

local COLUMNS = { "step", "reward", "pass_rate", "distinct", "entropy", "ev_mc", "validation_pass" }

local stage = { name = "single_turn", summary = "PPO on single answers" }

function stage.execute(run)
  local begin, c = run:need("supervised"), run.config.single_turn
  if c.steps == 0 then
    return { actor = begin.actor, curve = {}, tables = {} }
  end
  local actor = models.open(run, begin.actor)
  local critic = actor:critic()
  local policy = models.policy(run, actor, "single-turn")
  local fixed = models.policy(run, actor, "single-turn", { fixed = true })
  local curve = ppo.run(run, { actor = actor, critic = critic, policy = policy, fixed = fixed }, run:training(), {
    stage = stage.name, steps = c.steps, tasks = c.tasks, group = c.group, turns = 1,
    answer_tokens = c.answer_tokens, limit = run.config.machine.episodes, reference = begin.actor })
  critic:close()
  -- Where the agent calls tools, the supervised model was validated in the agent loop.
  local before = models.calls_tools(run) and run:need("base") or begin
  return { actor = models.keep(run, stage.name, "actor", actor), curve = curve,
    collapse = validate.collapse(curve, before.validation_reward),
    tables = { tables.of("Single-turn PPO", COLUMNS, curve) } }
end

return pipeline.standalone(stage)
