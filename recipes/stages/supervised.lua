-- The supervised start: a few steps on the expert's verified answers to other tasks and other combinations of operators
-- than those that are trained on, validated or held out, until the share of right answers on validation tasks is inside
-- a band and each of their families has a right one, or the band's upper end is reached. A model that is in the band
-- already takes no step.
--
-- A departure from the paper, which begins with a model that can write kernels. A small code model writes none at
-- first, and rewards that are all -1 teach nothing. docs/learning.md has the figures behind the defaults.
--
-- A model that is to call tools learns that here too, from the teacher's dialogues (training.dialogues): then
-- validation is the agent loop, and the share of well-formed calls must be reached as well.

local dialogues = require "training.dialogues"
local files = require "chat.files"
local formats = require "chat.formats"
local lessons = require "training.lessons"
local log = require "khost.log"
local models = require "training.models"
local parse = require "agent.parse"
local pipeline = require "run.pipeline"
local ppo = require "training.ppo"
local progress = require "khost.progress"
local random = require "lib.random"
local sched = require "khost.sched"
local tables = require "evaluation.table"
local trainer = require "training.trainer"
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
    length = run.config.tasks.length, least = c.least, families = c.families[1] and c.families or nil })
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

-- Dialogues with tools as episodes, from a pack or played now.
local function tool_episodes(run, actor, c)
  local format, d = formats.learnt(run.config.prompt.calls), run.config.dialogues
  local tokenizer = actor:tokenizer()
  local list, kinds, reasons
  if d.pack ~= "" then
    list, kinds, reasons = dialogues.read(models.folder(d.pack), run.config.machine.target), {}, {}
  else
    list, kinds, reasons = dialogues.play(run, d, format, function(text) return #tokenizer:encode(text) end)
  end
  local episodes, left_out = dialogues.episodes(format.open(tokenizer), format, list, {
    target = run.config.machine.target, tokens = run.config.model.tokens, answer_tokens = c.answer_tokens,
    taken = lessons.taken(run) })
  for reason, count in pairs(left_out) do
    reasons[reason] = (reasons[reason] or 0) + count
  end
  return episodes, { tables.of("Dialogues with tools", { "kind", "kept", "of" }, kinds),
    tables.counts("Dialogues left out", "reason", reasons) }
end

-- How a stage of this run is validated: single answers as files, or the agent loop with tools.
local function how_to_look(run, c)
  if not models.calls_tools(run) then
    return { turns = 1, answer_tokens = c.answer_tokens, limit = run.config.machine.episodes }
  end
  local d = run.config.dialogues
  return { turns = d.turns, answer_tokens = c.answer_tokens, observation_tokens = d.observation_tokens,
    limit = run.config.machine.episodes }
end

local function look(run, step, policy, c)
  if run.replaying then
    return run.store:get("state", "supervised look " .. step)
  end
  local seen = validate.play(run, stage.name, step, policy, how_to_look(run, c))
  assert(run.store:put("state", "supervised look " .. step, seen))
  return seen
end

local WELL_FORMED = 0.95  -- share of calls that a supervised start with tools must reach

-- Reward teaches nothing about a family that no answer gets right, whatever the mean over all families is.
local function is_enough(seen, c)
  local broad = seen.validation_families == 1 or seen.validation_pass >= c.band[2]
  return broad and seen.validation_pass >= c.band[1] and (seen.validation_well_formed or 1) >= WELL_FORMED
end

local function is_look(step, c)
  return step == c.steps or step >= c.look_from and (step - c.look_from) % c.look_every == 0
end

local function supervise(run, actor, policy, episodes, c)
  local order = lessons.in_turns(random.stream(run.seed .. " supervised order"):shuffled(episodes), c.families)
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
        validation_pass = seen.validation_pass, families = seen.validation_families,
        well_formed = seen.validation_well_formed }
      log.print(("supervised, step %d: loss %.3f, validation pass %.2f, families with a right answer %.2f%s"):format(
        step, metrics.loss, seen.validation_pass, seen.validation_families, seen.validation_well_formed
          and (", calls well-formed %.3f"):format(seen.validation_well_formed) or ""))
      if is_enough(seen, c) then
        return curve, seen
      end
    end
  end
  return curve, seen
end

-- Everything that is imitated: answers that are files, and dialogues where the agent calls tools; with its tables.
local function material(run, actor, c)
  local answers, episodes, left_out = c.tasks > 0 and verified(run, c) or {}, {}, {}
  if #answers > 0 then
    local single = models.policy(run, actor, "supervised", { fixed = true })
    episodes, left_out = episodes_of(run, single.format, actor, answers, c)
  end
  local shown = { counted(answers), tables.counts("Answers left out", "reason", left_out) }
  if models.calls_tools(run) then
    local more, tool_tables = tool_episodes(run, actor, c)
    for _, one in ipairs(more) do
      episodes[#episodes + 1] = one
    end
    for _, one in ipairs(tool_tables) do
      shown[#shown + 1] = one
    end
  end
  return episodes, shown
end

function stage.execute(run)
  local begin, c = run:need("base"), run.config.supervised or { steps = 0 }
  local tools = models.calls_tools(run)
  if not tools and (c.steps == 0 or begin.validation_pass >= c.band[1]) then
    return { actor = begin.folder, steps = 0, validation_reward = begin.validation_reward, tables = {} }
  end
  local actor = models.open(run, begin.folder)
  local policy = models.policy(run, actor, "supervised", { fixed = true, agent = true })
  if c.steps == 0 then
    -- The base model was looked at with single answers; stages behind this one compare with the agent loop.
    local seen = look(run, 0, policy, c)
    return { actor = begin.folder, steps = 0, validation_pass = seen.validation_pass,
      validation_reward = seen.validation_reward, well_formed = seen.validation_well_formed, tables = {} }
  end
  local episodes, shown = material(run, actor, c)
  if #episodes == 0 then
    error("supervised: none of the expert's answers can be used; the table of the judge's answers is in the log", 0)
  end
  local curve, seen = supervise(run, actor, policy, episodes, c)
  if seen.validation_pass < c.band[1] or seen.validation_pass > c.band[2] then
    log.warn("supervised_start_outside_its_band", { validation_pass = seen.validation_pass, band = c.band,
      remedy = "change supervised.steps, supervised.lr or supervised.look_every" })
  end
  shown[#shown + 1] = tables.of("Supervised start", { "step", "loss", "entropy", "validation_pass", "families",
    "well_formed" }, curve)
  return { actor = models.keep(run, stage.name, "actor", actor), steps = curve[#curve].step,
    validation_pass = seen.validation_pass, validation_reward = seen.validation_reward, episodes = #episodes,
    well_formed = seen.validation_well_formed, tables = shown }
end

return pipeline.standalone(stage)
