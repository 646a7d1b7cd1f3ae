-- The supervised start: a few steps on the expert's verified answers to other tasks and other combinations of operators
-- than those that are trained on, validated or held out, until the share of right answers on validation tasks is inside
-- a band. A model that is in the band already takes no step.
--
-- A departure from the paper, which begins with a model that can write kernels. A small code model writes none at
-- first, and rewards that are all -1 teach nothing. docs/learning.md has the figures behind the defaults.

local files = require "chat.files"
local lessons = require "training.lessons"
local log = require "khost.log"
local models = require "training.models"
local parse = require "agent.parse"
local pipeline = require "lib.pipeline"
local ppo = require "training.ppo"
local progress = require "khost.progress"
local random = require "lib.random"
local sched = require "khost.sched"
local tables = require "evaluation.table"
local trainer = require "khost.trainer"
local experts = require "policies.experts"
local validate = require "training.validate"

local stage = { name = "supervised", summary = "a supervised start on the expert's answers" }

-- The lessons and the expert's verified answers. They are kept, so that another run of this stage asks no judge.
local function verified(run, c)
  local kept = run.store:get("state", "supervised answers")
  if kept then
    return kept
  end
  local tasks = lessons.tasks(run, { count = c.tasks, stream = random.stream(run.seed .. " lessons"),
    length = run.config.tasks.length, least = c.least })
  local bar = progress.begin("the expert's answers", #tasks * #experts.of(run.config.machine.target).ORDER)
  local answers = lessons.answers(run, tasks, { share = c.dialogues, limit = run.config.machine.episodes,
    say = function() bar:add(1) end })
  bar:finish()
  local list = {}
  for index, answer in ipairs(answers) do
    local seen = answer.verdict
    list[index] = { task = { id = answer.task.id, source = answer.task.source, graph = answer.task.graph,
      family = answer.task.family }, variant = answer.variant, code = answer.code, correct = answer.correct,
      verdict = { status = seen.status, reason = seen.reason, detail = seen.detail } }
  end
  assert(run.store:put("state", "supervised answers", list))
  return list
end

local function counted(answers)
  local rows, order = {}, {}
  for _, answer in ipairs(answers) do
    local key = answer.task.family .. " " .. answer.variant
    if not rows[key] then
      rows[key], order[#order + 1] = { answer.task.family, answer.variant, 0, 0 }, key
    end
    rows[key][3], rows[key][4] = rows[key][3] + (answer.correct and 1 or 0), rows[key][4] + 1
  end
  table.sort(order)
  local list = {}
  for index, key in ipairs(order) do
    local row = rows[key]
    list[index] = { row[1], row[2], tostring(row[3]), tostring(row[4]) }
  end
  return { title = "The expert's answers", columns = { "family", "variant", "right", "of" }, rows = list }
end

-- The next `count` episodes of an order that begins anew at its end.
local function portion(episodes, from, count)
  local picked = {}
  for offset = 0, count - 1 do
    picked[#picked + 1] = episodes[(from + offset) % #episodes + 1]
  end
  return picked
end

local function episodes_of(run, format, actor, answers, c)
  local target, path = run.config.machine.target, experts.of(run.config.machine.target).PATH
  local is_tiny = format.target == nil
  return lessons.episodes(format.open(actor:tokenizer()), format, answers, { seed = run.seed,
    tokens = run.config.model.tokens, answer_tokens = c.answer_tokens, share = c.dialogues,
    done = is_tiny and format.DONE or files.DONE,
    render = function(code)
      return is_tiny and parse.render { [path] = code } or files.block(code, target)
    end })
end

local function look(run, step, policy, c)
  if run.replaying then
    return run.store:get("state", "supervised look " .. step)
  end
  local seen = validate.play(run, stage.name, step, policy, { turns = 1, answer_tokens = c.answer_tokens,
    limit = run.config.machine.episodes })
  assert(run.store:put("state", "supervised look " .. step, seen))
  return seen
end

local function is_look(step, c)
  return step == c.steps or step >= c.look_from and (step - c.look_from) % c.look_every == 0
end

local function supervise(run, actor, policy, episodes, c)
  local order = random.stream(run.seed .. " supervised order"):shuffled(episodes)
  local objective, curve, seen = trainer.rft { reduce = "token-mean" }, {}, nil
  for step = 1, c.steps do
    local begin = sched.now()
    local batch = trainer.pack(portion(order, (step - 1) * c.batch, c.batch), { tokens = run.config.ppo.pack_tokens })
    local metrics = assert(actor:update(batch, objective, { lr = c.lr, max_norm = 1, warmup = c.warmup }))
    run.ledger:add("update", sched.now() - begin)
    ppo.keep_metrics(run, stage.name, step, { loss = metrics.loss, norm = metrics.norm, entropy = metrics.entropy })
    if is_look(step, c) then
      seen = look(run, step, policy, c)
      curve[#curve + 1] = { step = step, loss = metrics.loss, entropy = metrics.entropy,
        validation_pass = seen.validation_pass }
      log.print(("supervised, step %d: loss %.3f, validation pass %.2f"):format(step, metrics.loss,
        seen.validation_pass))
      if seen.validation_pass >= c.band[1] then
        return curve, seen
      end
    end
  end
  return curve, seen
end

function stage.execute(run)
  local begin, c = run:need("base"), run.config.supervised or { steps = 0 }
  if c.steps == 0 or begin.validation_pass >= c.band[1] then
    return { actor = begin.folder, steps = 0, validation_reward = begin.validation_reward, tables = {} }
  end
  local answers = verified(run, c)
  local actor = models.open(run, begin.folder)
  local policy = models.policy(run, actor, "supervised", { fixed = true })
  local episodes, left_out = episodes_of(run, policy.format, actor, answers, c)
  if #episodes == 0 then
    error("supervised: none of the expert's answers can be used; the table of the judge's answers is in the log", 0)
  end
  local curve, seen = supervise(run, actor, policy, episodes, c)
  if seen.validation_pass < c.band[1] or seen.validation_pass > c.band[2] then
    log.warn("supervised_start_outside_its_band", { validation_pass = seen.validation_pass, band = c.band,
      remedy = "change supervised.steps, supervised.lr or supervised.look_every" })
  end
  return { actor = models.keep(run, stage.name, "actor", actor), steps = curve[#curve].step,
    validation_pass = seen.validation_pass, validation_reward = seen.validation_reward, episodes = #episodes,
    tables = { counted(answers), tables.counts("Answers left out", "reason", left_out),
      tables.of("Supervised start", { "step", "loss", "entropy", "validation_pass" }, curve) } }
end

return pipeline.standalone(stage)
