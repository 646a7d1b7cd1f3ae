-- The paper's table 1 on test tasks for the expert, the base and what training made of it, and pass rates on held-out
-- tasks. Policies play under the agent loop and the best state of a trajectory counts (judged anew); pass rates of
-- single answers stand beside it. Nothing that was judged in training is reused.

local episode = require "agent.episode"
local metrics = require "evaluation.metrics"
local models = require "training.models"
local pipeline = require "lib.pipeline"
local progress = require "khost.progress"
local sched = require "khost.sched"
local score = require "evaluation.score"
local script = require "policies.script"

local stage = { name = "evaluate", summary = "tables on tasks that were never trained on" }

-- All samples of all tasks for one policy, kept in the store.
local function play_all(run, policy, tasks, o)
  local jobs, known = {}, run.store:trajectories(o.stage, o.step)
  for _, task in ipairs(tasks) do
    for _ = 1, o.samples do
      jobs[#jobs + 1] = { task = task, index = #jobs + 1 }
    end
  end
  local setting = episode.of_run(run, { policy = policy, stage = o.stage, step = o.step, turns = o.turns,
    measure = o.measure, answer_tokens = o.answer_tokens, reuse = false, pick = "best", salt = "evaluate" })
  local bar = progress.begin(("%s, %s"):format(policy.name, o.what), #jobs)
  local episodes = sched.map(jobs, function(job)
    local record = episode.kept(setting, job.task, job.index, known)
    bar:add(1)
    return record
  end, { limit = run.config.machine.episodes, on_failure = "raise" })
  bar:finish()
  return episodes
end

local function mean_reward(episodes)
  local rewards = {}
  for _, e in ipairs(episodes) do
    rewards[#rewards + 1] = e.reward
  end
  return metrics.mean(rewards) or 0
end

local function verdicts_of(episodes)
  local list = {}
  for index, e in ipairs(episodes) do
    list[index] = e.verdict
  end
  return list
end

local function policies_of(run)
  local list = { { name = "expert", policy = script.expert(nil, run.config.machine.target), expert = true } }
  local trained = { { "base", run:need("base").folder }, { "single-turn", run:need("single_turn").actor },
    { "rft", run:need("rft").actor }, { "agentic", run:need("agentic").actor } }
  for _, entry in ipairs(trained) do
    list[#list + 1] = { name = entry[1], folder = entry[2] }
  end
  return list
end

-- Intermediate models only play single answers.
local ALL_TABLES = { expert = true, base = true, agentic = true }

local function evaluate_policy(run, entry, step, result)
  local c = run.config.evaluate
  local policy = entry.policy or models.policy(run, models.open(run, entry.folder), entry.name)
  local samples = entry.expert and 1 or ALL_TABLES[entry.name] and c.samples or c.samples_between
  local single = play_all(run, policy, run:tasks("held_out"), { stage = "evaluate", step = step, turns = 1,
    samples = samples, measure = false, answer_tokens = c.answer_tokens, what = "held-out, single answers" })
  local row = { name = entry.name, single = (metrics.pass_rate(verdicts_of(single))), samples = #single }
  if ALL_TABLES[entry.name] then
    if not entry.expert then
      local agent = play_all(run, policy, run:tasks("held_out"), { stage = "evaluate", step = step + 1,
        turns = c.turns, samples = 1, measure = false, answer_tokens = c.answer_tokens, what = "held-out, agent loop" })
      row.agent = metrics.pass_rate(verdicts_of(agent))
    end
    local timed = play_all(run, policy, run:tasks("test"), { stage = "evaluate", step = step + 2,
      turns = entry.expert and 1 or c.turns, samples = entry.expert and 1 or c.samples_timed, measure = true,
      answer_tokens = c.answer_tokens, what = "test, timed" })
    row.reward = mean_reward(timed)
    result.table1[#result.table1 + 1] = score.row(entry.name, metrics.table1(verdicts_of(timed)))
  end
  return row
end

local function number(value, form)
  return value and (form or "%.3f"):format(value) or "-"
end

function stage.execute(run)
  local result, rows, by_name = { table1 = {} }, {}, {}
  run.reward:at_step(stage.name, 0)
  for index, entry in ipairs(policies_of(run)) do
    local row = evaluate_policy(run, entry, index * 10, result)
    by_name[entry.name] = row
    rows[index] = { row.name, tostring(row.samples), number(row.single), number(row.agent),
      number(row.reward, "%+.2f") }
  end
  local gain = by_name.agentic.single - by_name.base.single
  return { base_pass = by_name.base.single, after_pass = by_name.agentic.single, gain = gain, tables = {
    { title = "Held-out tasks", columns = { "policy", "answers", "pass, single answer", "pass, agent loop",
      "reward on test tasks" }, rows = rows },
    { title = "Table 1, test tasks, best of the trajectory", columns = score.columns, rows = result.table1 } } }
end

return pipeline.standalone(stage)
