-- Makes a small base model: a tokenizer and a decoder supervised on the dialogues of a teacher, who seldom errs at
-- first and often at last. What the model has learned by then stays in it; what it shows is a share of right answers
-- that leaves room, as a capable model's first answers to a hard task do.

local client = require "judge.client"
local corpus = require "policies.corpus"
local fs = require "khost.fs"
local log = require "khost.log"
local rates = require "evaluation.metrics"
local progress = require "khost.progress"
local random = require "lib.random"
local sched = require "khost.sched"
local template = require "run.template"
local tiny = require "chat.tiny"
local trainer = require "training.trainer"

local base = {}

--- The dialogues of a configuration in the order of training, and the hash that names them.
---@param c table   [base] of a preset
---@return Dialogue[], string
function base.corpus(c)
  local dialogues, parts = {}, {}
  for phase, steps in ipairs(c.steps) do
    local made = corpus.make(("%d.%d"):format(c.seed, phase), steps * c.batch, { tasks = { families = c.families,
      length = c.length, shapes = c.shapes, operators = c.operators }, fault_rate = c.fault_rate[phase],
      turns = c.turns, again = c.again[phase], variants = c.variants }, function() sched.sleep(0) end)
    for _, dialogue in ipairs(made) do
      dialogues[#dialogues + 1] = dialogue
      parts[#parts + 1] = dialogue.prompt
      for _, turn in ipairs(dialogue.turns) do
        parts[#parts + 1] = turn.answer
        parts[#parts + 1] = turn.observation
      end
    end
  end
  return dialogues, fs.sha256(table.concat(parts, "\0"))
end

--- Learns the byte pairs of dialogues from all phases.
---@async
---@param dialogues Dialogue[]
---@param c table
---@return khost.Tokenizer
function base.tokenizer(dialogues, c)
  local texts = {}
  for index = 1, c.tokenizer_dialogues do
    local dialogue = dialogues[1 + (index - 1) * math.floor(#dialogues / c.tokenizer_dialogues)]
    texts[#texts + 1] = dialogue.prompt
    for _, turn in ipairs(dialogue.turns) do
      texts[#texts + 1] = turn.answer
      texts[#texts + 1] = turn.observation
    end
  end
  for _, word in ipairs { "format error: ", "crash", "timeout", "wrong", "ok" } do
    texts[#texts + 1] = word
  end
  return assert(trainer.train_tokenizer(texts, { vocab = c.vocabulary, specials = tiny.SPECIALS }))
end

---@async
---@param tokenizer khost.Tokenizer
---@param c table
---@param machine table   [machine] of a configuration
---@return khost.Trainer
function base.model(tokenizer, c, machine)
  return assert(trainer.open { tokenizer = tokenizer, seed = c.seed, device = machine.device, dtype = machine.dtype,
    threads = machine.threads > 0 and machine.threads or nil,
    model = { width = c.width, layers = c.layers, heads = c.heads, positions = c.positions,
      end_token = tokenizer:special(tiny.STOP) },
    optimizer = { beta2 = 0.95, weight_decay = 0.01 } })
end

-- Rises over the first steps, then falls to a tenth along a cosine.
local function rate(c, step, steps)
  local along = 0.5 * (1 + math.cos(math.pi * step / steps))
  return c.lr * math.min(1, step / c.warm_steps) * (0.1 + 0.9 * along)
end

--- Supervised steps over the dialogues, in their order. `each(step, loss, tokens)` is called after every step and ends
--- the training by returning true.
---@async
---@param actor khost.Trainer
---@param dialogues Dialogue[]
---@param c table
---@param each fun(step: integer, loss: number, tokens: integer): boolean|nil
---@param first? integer   steps that were done before
function base.supervise(actor, dialogues, c, each, first)
  local chat = tiny.open(actor:tokenizer())
  local steps = math.floor(#dialogues / c.batch)
  local objective = trainer.rft { reduce = "token-mean" }
  local tokens = 0
  for step = (first or 0) + 1, steps do
    local episodes = {}
    for index = (step - 1) * c.batch + 1, step * c.batch do
      episodes[#episodes + 1] = corpus.episode(chat, dialogues[index])
      tokens = tokens + #episodes[#episodes].tokens
    end
    local batch = trainer.pack(episodes, { tokens = c.pack_tokens })
    local metrics = assert(actor:update(batch, objective, { lr = rate(c, step, steps), max_norm = 1 }))
    if each(step, metrics.loss, tokens) then
      return
    end
  end
end

--- Tasks of chains that the corpus cannot hold.
---@param c table
---@return table[]
function base.held_out(c)
  local stream, list, seen = random.stream("held out " .. c.seed), {}, {}
  while #list < c.held_out do
    local task = corpus.task(stream, "validation", { families = c.families, length = c.length,
      shapes = c.held_out_shapes })
    if not seen[task.chain] then
      seen[task.chain] = true
      task.id = ("held-%03d"):format(#list + 1)
      list[#list + 1] = task
    end
  end
  return list
end

--- The share of right first answers, by the judge, among those that count.
---@async
---@param policy table      scripts/policies/local.lua
---@param judge table       judge.client
---@param tasks table[]
---@param c table
---@return number pass, number parsed, table<string, integer> by_reason
function base.pass_rate(policy, judge, tasks, c)
  local jobs = {}
  for _, task in ipairs(tasks) do
    for sample = 1, c.samples do
      jobs[#jobs + 1] = { task = task, sample = sample }
    end
  end
  local parsed, reasons, seen = 0, {}, {}
  local results = sched.map(jobs, function(job, index)
    local conversation = policy.begin(job.task, random.stream(("pass %d %d"):format(c.seed, index)))
    local drawn = assert(conversation:draw(c.answer_tokens))
    local action = tiny.action(drawn.text, { cut = drawn.cut })
    if action.kind ~= "act" then
      return { verdict = client.nothing { action.label or "no files" }, reason = action.label or "no files" }
    end
    local verdict = judge:verdict(job.task, template.with(action.files), { measure = false, reuse = true })
    return { parsed = true, verdict = verdict, reason = verdict.status }
  end, { limit = 4, on_failure = "raise" })
  for index, result in ipairs(results) do
    seen[index] = result.verdict
    parsed = parsed + (result.parsed and 1 or 0)
    reasons[result.reason] = (reasons[result.reason] or 0) + 1
  end
  return (rates.pass_rate(seen)), parsed / #jobs, reasons
end

---@class (exact) BaseResult
---@field pass_rate number
---@field parsed number
---@field steps integer
---@field tokens integer
---@field loss number
---@field corpus_hash string
---@field dialogues integer
---@field parameters integer

--- The whole: corpus, tokenizer, training, the share of right answers, files in a folder.
---@async
---@param c table             [base] of a preset
---@param judge table
---@param folder string       where config.json, model.safetensors and tokenizer.json go
---@param options {machine: table, on_step?: fun(step: integer, values: table)}
---@return BaseResult
function base.make(c, judge, folder, options)
  local dialogues, hash = base.corpus(c)
  local tokenizer = base.tokenizer(dialogues, c)
  local actor = base.model(tokenizer, c, options.machine)
  local bar = progress.begin("supervise", math.floor(#dialogues / c.batch))
  local result = { corpus_hash = hash, dialogues = #dialogues, parameters = actor:stats().parameters }
  base.supervise(actor, dialogues, c, function(step, loss, tokens)
    result.steps, result.loss, result.tokens = step, loss, tokens
    bar:add(1, { loss = ("%.3f"):format(loss) })
    if options.on_step then
      options.on_step(step, { loss = loss, tokens = tokens })
    end
  end)
  bar:finish(("loss %.3f after %d steps"):format(result.loss, result.steps))
  base.export(actor, folder)
  local policy = require("policies.local").open(actor:policy(), tiny, { name = "base", tokens = c.positions })
  local reasons
  result.pass_rate, result.parsed, reasons = base.pass_rate(policy, judge, base.held_out(c), c)
  log.info("base_checked", { pass_rate = result.pass_rate, parsed = result.parsed, reasons = reasons })
  if result.pass_rate < c.band[1] or result.pass_rate > c.band[2] then
    log.warn("base_outside_its_band", { pass_rate = result.pass_rate, band = c.band,
      remedy = "change base.steps or the last of base.fault_rate" })
  end
  return result
end

--- The three files of a model, without the optimizer's state.
---@async
---@param actor khost.Trainer
---@param folder string
function base.export(actor, folder)
  local whole = folder .. ".whole"
  assert(actor:save(whole))
  assert(fs.mkdirs(folder))
  for _, name in ipairs { "config.json", "model.safetensors", "tokenizer.json" } do
    assert(fs.write(("%s/%s"):format(folder, name), assert(fs.read(("%s/%s"):format(whole, name)))))
  end
  fs.remove_tree(whole)
end

return base
