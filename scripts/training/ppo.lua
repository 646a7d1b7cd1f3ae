-- Proximal policy optimisation over played episodes: the heart of both the single-turn and the agentic stage.

local ahead = require "training.ahead"
local episode = require "agent.episode"
local log = require "khost.log"
local rates = require "evaluation.metrics"
local progress = require "khost.progress"
local random = require "lib.random"
local sampler = require "curriculum.sampler"
local sched = require "khost.sched"
local update = require "training.update"
local validate = require "training.validate"
local watch = require "training.watch"

local ppo = {}

-- What a batch of episodes looks like, apart from gradients.
local function describe(episodes)
  local distinct, kinds = {}, 0
  local rewards, scored, turns, result = {}, {}, {}, {}
  for _, e in ipairs(episodes) do
    local key = e.task .. " " .. tostring(e.verdict.evidence.artefact_hash or e.verdict.reason)
    kinds = kinds + (distinct[key] and 0 or 1)
    distinct[key] = true
    turns[#turns + 1] = e.turn_count
    if e.reward then
      rewards[#rewards + 1], scored[#scored + 1] = e.reward, e.verdict
      local name = "reward_" .. tostring(e.reward):gsub("%-", "minus_"):gsub("%.", "_")
      result[name] = (result[name] or 0) + 1
    end
  end
  result.reward, result.pass_rate = rates.mean(rewards), #scored > 0 and rates.pass_rate(scored) or nil
  result.void, result.turns = #episodes - #rewards, rates.mean(turns) or 0
  result.distinct = #episodes > 0 and kinds / #episodes or 0
  for name, value in pairs(watch.spread(episodes)) do
    result[name] = value
  end
  return result
end
ppo.describe = describe

-- The episodes of a step: groups of one task each.
local function jobs_of(tasks, group)
  local jobs = {}
  for place, task in ipairs(tasks) do
    for member = 1, group do
      jobs[#jobs + 1] = { task = task, group = place, index = (place - 1) * group + member }
    end
  end
  return jobs
end

--- Plays a step: groups of episodes of the same task. Only what is not in the store is played.
---@async
---@param setting Setting
---@param tasks table[]
---@param group integer
---@param limit integer   episodes at once
---@param begun? table    training.ahead of the stage, whose limit holds then
---@param coming? {setting: Setting, tasks: table[]}   of the next step: what may begin while verdicts come in
---@return table[] episodes   with a reward and a group
function ppo.rollouts(setting, tasks, group, limit, begun, coming)
  local jobs, known = jobs_of(tasks, group), setting.store:trajectories(setting.stage, setting.step)
  local slots, early = begun and begun.slots or sched.semaphore(limit), begun and begun:taken() or {}
  local bar, count, playing = progress.begin(("%s, step %d"):format(setting.stage, setting.step), #jobs), 0, {}
  for place, job in ipairs(jobs) do
    playing[place] = sched.spawn(function()
      local record = early[job.index] and early[job.index]:wait()
      count = count + (record and 1 or 0)
      record = record or slots:use(episode.kept, setting, job.task, job.index, known)
      record.group = job.group
      bar:add(1)
      return record
    end)
  end
  if begun and coming then
    begun:begin(coming.setting, jobs_of(coming.tasks, group))
  end
  local episodes, failures = sched.wait(playing)
  for _, failure in ipairs(failures) do
    log.error("episode_failed", { stage = setting.stage, step = setting.step, message = failure.message })
  end
  local list = {}
  for index = 1, #jobs do
    list[#list + 1] = episodes[index]
  end
  local facts = describe(list)
  facts.ahead = begun and count or nil
  if not setting.policy.format.answers_are_files then
    for name, value in pairs(watch.calls(list)) do
      facts[name] = value
    end
  end
  bar:finish(("reward %.3f, pass %.2f, distinct %.2f"):format(facts.reward or 0 / 0, facts.pass_rate or 0 / 0,
    facts.distinct))
  return list, facts
end

--- Stores the metrics of a step and shows them to TensorBoard.
function ppo.keep_metrics(run, stage, step, metrics, hash)
  if run.replaying then
    return  -- they are in the store
  end
  local numbers = {}
  local function note(name, value)
    if type(value) == "number" and value == value then
      numbers[name] = value
      log.metric(stage .. "/" .. name, value, step)
    end
  end
  for name, value in pairs(metrics) do
    note(name, value)
  end
  for tool, count in pairs(metrics.tools or {}) do
    note("tool_" .. tool, count)
  end
  assert(run.store:metrics(stage, step, numbers, hash))
end

---@class (exact) PpoStage
---@field stage string
---@field steps integer
---@field tasks integer       a step
---@field timed_share? number  of these that are timed
---@field group integer
---@field turns integer
---@field answer_tokens integer
---@field observation_tokens? integer
---@field limit integer
---@field actor_lr? number    instead of [ppo]'s
---@field reference string     folder of the model that the stage begins with, which ppo.kl holds the actor to

--- The tasks of a step: the same for every run with this seed and stage as long as the curriculum has seen the same.
---@param run table
---@param curriculum table
---@param o PpoStage
---@param step integer
---@param early? table[]   of these, those that were drawn while the step before was played
---@return table[]
function ppo.drawn(run, curriculum, o, step, early)
  local stream, list = random.stream(("%d %s tasks %d"):format(run.seed, o.stage, step)), { unpack(early or {}) }
  for _, task in ipairs(curriculum:draw(o.tasks - #list, stream, o.timed_share)) do
    list[#list + 1] = task
  end
  return list
end

-- The first tasks of a step, as many as [ppo] says: drawn before the results of the step in front of it are known.
local function drawn_early(run, curriculum, o, step)
  local count = step <= o.steps and math.min(run.config.ppo.ahead or 0, o.tasks) or 0
  local stream = random.stream(("%d %s tasks %d, early"):format(run.seed, o.stage, step))
  return count > 0 and curriculum:draw(count, stream, o.timed_share) or {}
end

-- What a resumed run needs of the curriculum: what it has seen, and the tasks that the next step begins with.
local function keep_curriculum(run, curriculum, stage, early)
  local state = curriculum:state()
  state.early = {}
  for place, task in ipairs(early) do
    state.early[place] = task.id
  end
  assert(run.store:put("state", stage .. " curriculum", state))
end

local function restore_curriculum(run, curriculum, stage, tasks)
  local state, by_id, early = run.store:get("state", stage .. " curriculum") or {}, {}, {}
  for _, task in ipairs(tasks) do
    by_id[task.id] = task
  end
  for place, id in ipairs(state.early or {}) do
    early[place] = by_id[id]
  end
  curriculum:restore(state)
  return early
end

--- How the episodes of a step are played.
---@param run table
---@param policy table
---@param o PpoStage
---@param step integer
---@param replay boolean   from the store alone
---@return Setting
function ppo.setting(run, policy, o, step, replay)
  return episode.of_run(run, { policy = policy, stage = o.stage, step = step, turns = o.turns,
    answer_tokens = o.answer_tokens, observation_tokens = o.observation_tokens, measure = true, reuse = true,
    pick = run.config.reward.on, replay = replay })
end

--- The curriculum of a run.
---@param run table
---@param tasks table[]
---@return table
function ppo.curriculum(run, tasks)
  return assert(sampler.named(run.config.ppo.curriculum, tasks,
    { range = require("rewards." .. run.config.reward.scheme).range }))
end

--- All steps of a stage, from where a killed run left off.
---@async
---@param run table
---@param models {actor: khost.Trainer, critic: khost.Trainer, policy: table, fixed?: table}   fixed: the policy without
---  prompt variants, which is validated
---@param tasks table[]
---@param o PpoStage
---@return table[] curve   what `describe` said of each step
function ppo.run(run, models, tasks, o)
  local curve, numbers = {}, update.settings(run.config.ppo)
  local curriculum = ppo.curriculum(run, tasks)
  numbers.actor_lr = o.actor_lr or numbers.actor_lr
  local networks = { actor = models.actor, critic = models.critic,
    reference = update.reference(run, numbers, o.reference) }
  local first = run:restore(o.stage, models)
  for step = 1, first do
    curve[step] = run.store:get("state", ("%s %d"):format(o.stage, step))
  end
  local early = first > 0 and restore_curriculum(run, curriculum, o.stage, tasks) or {}
  local dead, covered, begun = 0, watch.coverage(run, o.stage, first), ahead.open(o.limit)
  for step = first + 1, o.steps do
    -- A step that was finished before is made again from its stored episodes: nothing is played, judged or noted anew.
    local before = run.store:get("state", ("%s %d"):format(o.stage, step))
    if not before and (run.replaying or step > 1 and run:late(o.stage, step - first - 1)) then
      break
    end
    local hash = run:at_step(o.stage, step)
    local chosen = ppo.drawn(run, curriculum, o, step, early)
    local setting = ppo.setting(run, models.policy, o, step, before ~= nil)
    early = drawn_early(run, curriculum, o, step + 1)
    local begin = sched.now()
    local episodes, facts = ppo.rollouts(setting, chosen, o.group, o.limit, begun, not before and {
      setting = ppo.setting(run, models.policy, o, step + 1, false), tasks = early } or nil)
    begun:settle()
    local played = sched.now()
    ppo.tell(curriculum, chosen, episodes)
    dead = ppo.dead(o.stage, step, facts, dead)
    local metrics = update.step(networks, episodes, numbers, step)
    metrics.rollout_s, metrics.update_s = played - begin, sched.now() - played
    run.ledger:add("update", metrics.update_s)
    facts.covered = covered:add(episodes)
    for name, value in pairs(facts) do
      metrics[name] = value
    end
    facts.step, facts.entropy, facts.ev_mc = step, metrics.actor_entropy, metrics.ev_mc
    if run:keeps(step) then
      local seen = before or validate.play(run, o.stage, step, models.fixed or models.policy, o)
      facts.validation_pass, facts.validation_reward = seen.validation_pass, seen.validation_reward
    end
    log.print(watch.line(o.stage, facts, metrics, #tasks))
    ppo.warn(o.stage, step, metrics)
    curve[step] = facts
    if not before then
      ppo.keep_metrics(run, o.stage, step, metrics, hash)
      assert(run.store:put("state", ("%s %d"):format(o.stage, step), facts))
    end
    keep_curriculum(run, curriculum, o.stage, early)
    run:checkpoint(o.stage, step, models)
  end
  begun:close()
  if networks.reference then
    networks.reference:close()
  end
  return curve
end

local MOST_DEAD = 3  -- steps in a row without one scored episode

--- How many steps in a row scored nothing, this one included. One of them is survived, since a judge or a server may
--- come back; raises when there were too many.
---@param stage string
---@param step integer
---@param facts table     what `describe` said of the step
---@param before integer
---@return integer
function ppo.dead(stage, step, facts, before)
  if facts.reward then
    return 0
  end
  log.warn("step_without_a_reward", { stage = stage, step = step, void = facts.void, in_a_row = before + 1 })
  if before + 1 >= MOST_DEAD then
    error(("%s: no episode of the last %d steps could be scored; `khost show` prints how they ended, and --resume goes "
      .. "on from step %d"):format(stage, before + 1, step - before - 1), 0)
  end
  return before + 1
end

--- Tells the curriculum what each task of a step earned.
function ppo.tell(curriculum, chosen, episodes)
  for place, task in ipairs(chosen) do
    local rewards = {}
    for _, e in ipairs(episodes) do
      rewards[#rewards + 1] = e.group == place and e.reward or nil
    end
    curriculum:record_group(task.id, rewards)
  end
end

local LEAST_NATS = 0.5  -- of surprise over an answer: with less nearly all answers to a task are the same

--- What a reader should worry about.
function ppo.warn(stage, step, metrics)
  if metrics.distinct < 0.2 then
    log.warn("few_distinct_samples", { stage = stage, step = step, share = metrics.distinct })
  end
  -- By the answer: little surprise a token can be much over a whole answer (docs/learning.md).
  if metrics.nats_answer and metrics.nats_answer < LEAST_NATS then
    log.warn("low_entropy", { stage = stage, step = step, nats_answer = metrics.nats_answer })
  end
end

return ppo
