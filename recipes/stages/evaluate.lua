-- The paper's table 1 on test tasks for the expert, the base and what training made of it, and pass rates on held-out
-- tasks. Policies play under the agent loop and the best state of a trajectory counts (judged anew); pass rates of
-- single answers stand beside it. Nothing that was judged in training is reused. A candidate that several policies
-- wrote for a task is judged once: a second verdict would need sets that it has not met, and compare them by chance.

local episode = require "agent.episode"
local metrics = require "evaluation.metrics"
local models = require "training.models"
local paired = require "evaluation.paired"
local pipeline = require "run.pipeline"
local progress = require "khost.progress"
local random = require "lib.random"
local sched = require "khost.sched"
local score = require "evaluation.score"
local script = require "policies.script"
local verdicts = require "judge.verdict"
local watch = require "training.watch"

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
    measure = o.measure, answer_tokens = o.answer_tokens, observation_tokens = run.config.evaluate.observation_tokens,
    reuse = "evaluate", pick = "best", salt = "evaluate" })
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
  local base, supervised = run:need("base").folder, run:need("supervised").actor
  local list = { { name = "expert", policy = script.expert(nil, run.config.machine.target), expert = true },
    { name = "base", folder = base } }
  if supervised ~= base then
    list[#list + 1] = { name = "supervised", folder = supervised }
  end
  for _, entry in ipairs { { "single-turn", "single_turn" }, { "rft", "rft" }, { "agentic", "agentic" } } do
    list[#list + 1] = { name = entry[1], folder = run:need(entry[2]).actor }
  end
  return list
end

-- The first and the last model, and the expert, are asked oftener than those between.
local ENDS = { expert = true, base = true, agentic = true }

-- Which models play the agent loop beside single answers.
local function loops_of(run)
  local set = { expert = true }
  for _, name in ipairs(run.config.evaluate.loop or { "base", "agentic" }) do
    set[name] = true
  end
  return set
end

-- Single answers to held-out tasks and, with samples_test, to test tasks, which are timed: what models are compared by.
local function single_answers(run, policy, entry, step, samples)
  local c = run.config.evaluate
  local how = { stage = "evaluate", step = step, turns = 1, samples = samples, measure = false,
    answer_tokens = c.answer_tokens, what = "held-out, single answers" }
  local held = play_all(run, policy, run:tasks("held_out"), how)
  local all = { unpack(held) }
  local more = entry.expert and math.min(1, c.samples_test or 0) or c.samples_test or 0
  if more > 0 then
    how.step, how.samples, how.measure, how.what = step + 3, more, true, "test, single answers, timed"
    for _, e in ipairs(play_all(run, policy, run:tasks("test"), how)) do
      all[#all + 1] = e
    end
  end
  return held, all
end

-- The agent loop over held-out tasks and over test tasks, which are timed there.
local function agent_loop(run, policy, entry, step, row)
  local c, held = run.config.evaluate, {}
  if not entry.expert then
    held = play_all(run, policy, run:tasks("held_out"), { stage = "evaluate", step = step + 1, turns = c.turns,
      samples = 1, measure = false, answer_tokens = c.answer_tokens, what = "held-out, agent loop" })
    row.agent = metrics.pass_rate(verdicts_of(held))
  end
  local timed = play_all(run, policy, run:tasks("test"), { stage = "evaluate", step = step + 2,
    turns = entry.expert and 1 or c.turns, samples = entry.expert and 1 or c.samples_timed, measure = true,
    answer_tokens = c.answer_tokens, what = "test, timed" })
  row.reward, row.loop = mean_reward(timed), { unpack(held) }
  for _, e in ipairs(timed) do
    row.loop[#row.loop + 1] = e
  end
  row.calls = not policy.format.answers_are_files and watch.calls(row.loop) or nil
  return score.row(entry.name, metrics.table1(verdicts_of(timed)))
end

local function evaluate_policy(run, entry, step, result)
  local c = run.config.evaluate
  local actor = not entry.policy and models.open(run, entry.folder) or nil
  local policy = entry.policy or models.policy(run, actor, entry.name, { fixed = true })
  local samples = entry.expert and 1 or ENDS[entry.name] and c.samples or c.samples_between
  local single, answers = single_answers(run, policy, entry, step, samples)
  local row = { name = entry.name, single = (metrics.pass_rate(verdicts_of(single))), samples = #answers,
    answers = answers, single_reward = mean_reward(answers) }
  if loops_of(run)[entry.name] then
    local agent = actor and models.policy(run, actor, entry.name, { fixed = true, agent = true }) or policy
    result.table1[#result.table1 + 1] = agent_loop(run, agent, entry, step, row)
  end
  return row
end

local function number(value, form)
  return value and (form or "%.3f"):format(value) or "-"
end

-- Values by task of what counts: 1 or 0 for right or wrong, or the reward.
local function values(episodes, of_reward)
  local list = {}
  for _, e in ipairs(episodes) do
    if e.verdict and verdicts.counts(e.verdict) then
      list[#list + 1] = { task = e.task, value = of_reward and e.reward or not of_reward and
        (verdicts.passed(e.verdict) and 1 or 0) or nil }
    end
  end
  return list
end

-- Which models are compared: each with what it began from, and the last with fine-tuning.
local PAIRS = { { "base", "supervised" }, { "base", "single-turn" }, { "supervised", "single-turn" },
  { "single-turn", "rft" }, { "single-turn", "agentic" }, { "rft", "agentic" } }

-- In the agent loop: what the last model gained on each that plays it.
local LOOP_PAIRS = { { "base", "agentic" }, { "supervised", "agentic" }, { "single-turn", "agentic" },
  { "rft", "agentic" } }

-- `of`: "answers" or "loop", the episodes of a row that are compared.
local function comparisons(run, by_name, of)
  local rows, kept = {}, {}
  for _, pair in ipairs(of == "loop" and LOOP_PAIRS or PAIRS) do
    local a, b = (by_name[pair[1]] or {})[of], (by_name[pair[2]] or {})[of]
    if a and b then
      local cells = { ("%s over %s"):format(pair[2], pair[1]) }
      for _, of_reward in ipairs { false, true } do
        local key = ("%d %s %s"):format(run.seed, cells[1], tostring(of_reward))
        local seen = paired.difference(values(a, of_reward), values(b, of_reward), random.stream(key))
        cells[#cells + 1] = seen and ("%+.3f [%+.3f, %+.3f]"):format(seen.mean, seen.low, seen.high) or "-"
        cells.tasks = seen and seen.tasks or cells.tasks
        kept[#kept + 1] = { pair = cells[1], of = of_reward and "reward" or "pass", difference = seen,
          episodes = of == "loop" and of or nil }
      end
      rows[#rows + 1] = { cells[1], tostring(cells.tasks or 0), cells[2], cells[3] }
    end
  end
  return rows, kept
end

-- What models of a run whose agent calls tools called, and what they gained in the loop; nothing where answers are
-- files.
local function tool_tables(run, by_name, order)
  local rows = {}
  for _, name in ipairs(order) do
    local seen = by_name[name].calls
    rows[#rows + 1] = seen and { name, tostring(seen.calls), number(seen.well_formed), tostring(seen.tools_used),
      watch.tools_text(seen.tools) } or nil
  end
  if #rows == 0 then
    return {}, {}
  end
  local compared, differences = comparisons(run, by_name, "loop")
  return { { title = "Calls of tools, agent loop", columns = { "policy", "calls", "well-formed", "tools", "by tool" },
    rows = rows }, { title = "Differences in the agent loop, 95 % of a paired bootstrap over tasks",
    columns = { "models", "tasks", "pass", "reward" }, rows = compared } }, differences
end

function stage.execute(run)
  local result, rows, by_name, order = { table1 = {} }, {}, {}, {}
  run:at_step(stage.name, 0)
  for index, entry in ipairs(policies_of(run)) do
    local row = evaluate_policy(run, entry, index * 10, result)
    by_name[entry.name], order[index] = row, entry.name
    rows[index] = { row.name, tostring(row.samples), number(row.single), number(row.single_reward, "%+.2f"),
      number(row.agent), number(row.reward, "%+.2f") }
  end
  local compared, differences = comparisons(run, by_name, "answers")
  local shown = {
    { title = "Held-out tasks", columns = { "policy", "answers", "pass, single answer", "reward, single answer",
      "pass, agent loop", "reward on test tasks" }, rows = rows },
    { title = "Differences of single answers, 95 % of a paired bootstrap over tasks",
      columns = { "models", "tasks", "pass", "reward" }, rows = compared },
    { title = "Table 1, test tasks, best of the trajectory", columns = score.columns, rows = result.table1 } }
  local more, in_loop = tool_tables(run, by_name, order)
  for _, tab in ipairs(more) do
    shown[#shown + 1] = tab
  end
  for _, difference in ipairs(in_loop) do
    differences[#differences + 1] = difference
  end
  local gain = by_name.agentic.single - by_name.base.single
  return { base_pass = by_name.base.single, after_pass = by_name.agentic.single, gain = gain,
    differences = differences, tables = shown }
end

return pipeline.standalone(stage)
