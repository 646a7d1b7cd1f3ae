-- Makes a small base model: a tokenizer and a decoder supervised on the dialogues of a teacher that errs on purpose.
-- Stops when the share of right answers on tasks of other chains reaches the band in which learning can be shown.

local corpus = require "policies.corpus"
local environment = require "agent.environment"
local fs = require "khost.fs"
local log = require "khost.log"
local progress = require "khost.progress"
local random = require "lib.random"
local sched = require "khost.sched"
local tiny = require "chat.tiny"
local trainer = require "khost.trainer"

local base = {}

local function corpus_options(c)
  return { tasks = { families = c.families, length = c.length, shapes = c.shapes,
    operators = c.operators }, fault_rate = c.fault_rate,
    turns = c.turns, again = c.again, variants = c.variants }
end

--- The dialogues of a configuration and the hash that names them.
---@param c table   [base] of a preset
---@return Dialogue[], string
function base.corpus(c)
  local dialogues = corpus.make(c.seed, c.dialogues, corpus_options(c), function() sched.sleep(0) end)
  local parts = {}
  for _, dialogue in ipairs(dialogues) do
    parts[#parts + 1] = dialogue.prompt
    for _, turn in ipairs(dialogue.turns) do
      parts[#parts + 1] = turn.answer
      parts[#parts + 1] = turn.observation
    end
  end
  return dialogues, fs.sha256(table.concat(parts, "\0"))
end

--- Learns the byte pairs of the first dialogues.
---@async
---@param dialogues Dialogue[]
---@param c table
---@return khost.Tokenizer
function base.tokenizer(dialogues, c)
  local texts = {}
  for index = 1, math.min(c.tokenizer_dialogues, #dialogues) do
    local dialogue = dialogues[index]
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
---@param threads integer
---@return khost.Trainer
function base.model(tokenizer, c, threads)
  return assert(trainer.open { tokenizer = tokenizer, seed = c.seed, threads = threads,
    model = { width = c.width, layers = c.layers, heads = c.heads, positions = c.positions,
      end_token = tokenizer:special(tiny.STOP) },
    optimizer = { beta2 = 0.95, weight_decay = 0.01 } })
end

-- Rises over the first steps, then falls to a tenth along a cosine.
local function rate(c, step, steps)
  local along = 0.5 * (1 + math.cos(math.pi * step / steps))
  return c.lr * math.min(1, step / c.warm_steps) * (0.1 + 0.9 * along)
end

--- Supervised steps over the dialogues, in their order. `each(step, loss, tokens)` is called after every step and ends the
--- training by returning true.
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

--- Tasks of chains that the corpus cannot hold, for the stopping rule.
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

--- The share of right first answers, by the judge.
---@async
---@param policy table      scripts/policies/local.lua
---@param judge table       evaluation.judging
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
  local right, parsed, reasons = 0, 0, {}
  local results = sched.map(jobs, function(job, index)
    local conversation = policy.begin(job.task, random.stream(("pass %d %d"):format(c.seed, index)))
    local drawn = assert(conversation:draw(c.answer_tokens))
    local action = tiny.action(drawn.text, { cut = drawn.cut })
    if action.kind ~= "act" then
      return { reason = action.label or "no files" }
    end
    local verdict = judge:verdict(job.task, environment.single(action.files), { measure = false, reuse = true })
    return { parsed = true, correct = verdict.correct, reason = verdict.status }
  end, { limit = 4, on_failure = "raise" })
  for _, result in ipairs(results) do
    right, parsed = right + (result.correct and 1 or 0), parsed + (result.parsed and 1 or 0)
    reasons[result.reason] = (reasons[result.reason] or 0) + 1
  end
  return right / #jobs, parsed / #jobs, reasons
end

---@class (exact) BaseResult
---@field pass_rate number
---@field parsed number
---@field steps integer
---@field tokens integer
---@field loss number
---@field corpus_hash string
---@field parameters integer

--- The whole: corpus, tokenizer, training until the band is reached, files in a folder.
---@async
---@param c table             [base] of a preset
---@param judge table
---@param folder string       where config.json, model.safetensors and tokenizer.json go
---@param options {threads: integer, on_step?: fun(step: integer, values: table)}
---@return BaseResult
function base.make(c, judge, folder, options)
  local dialogues, hash = base.corpus(c)
  local tokenizer = base.tokenizer(dialogues, c)
  local actor = base.model(tokenizer, c, options.threads)
  local tasks = base.held_out(c)
  local policy = require("policies.local").open(actor:policy(), tiny, { name = "base", tokens = c.positions })
  local bar = progress.begin("supervise", math.floor(#dialogues / c.batch))
  local result = { corpus_hash = hash, parameters = actor:stats().parameters, pass_rate = 0, parsed = 0 }
  base.supervise(actor, dialogues, c, function(step, loss, tokens)
    result.steps, result.loss, result.tokens = step, loss, tokens
    bar:add(1, { loss = ("%.3f"):format(loss), pass = ("%.2f"):format(result.pass_rate) })
    local values = { loss = loss, tokens = tokens }
    if step >= c.first_check and (step - c.first_check) % c.check_every == 0 then
      local reasons
      result.pass_rate, result.parsed, reasons = base.pass_rate(policy, judge, tasks, c)
      values.pass_rate, values.parsed = result.pass_rate, result.parsed
      log.info("base_checked", { step = step, loss = loss, pass_rate = result.pass_rate, parsed = result.parsed,
        reasons = reasons })
    end
    if options.on_step then
      options.on_step(step, values)
    end
    return values.pass_rate and values.pass_rate >= c.stop_at
  end)
  bar:finish(("pass %.2f after %d steps"):format(result.pass_rate, result.steps))
  base.export(actor, folder)
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
