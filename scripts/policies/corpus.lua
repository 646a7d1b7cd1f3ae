-- The dialogues on which a small base model is supervised: tasks that no other set shares a chain with, answered by the
-- expert with mistakes on purpose and in every variant, unlabelled. Made from a seed alone, so that it can be made
-- again.

local compose = require "synthesis.compose"
local expert = require "policies.expert"
local graph_text = require "lib.graph"
local parse = require "agent.parse"
local random = require "lib.random"
local tiny = require "chat.tiny"

local corpus = {}

-- Which buckets of chains belong to whom.
corpus.SETS = { test = { 0, 1 }, validation = { 2, 3 }, train = { 4, 5, 6, 7 } }

--- The set that a chain of operators belongs to; "base" for the rest.
---@param chain string
---@return "test"|"validation"|"train"|"base"
function corpus.set_of(chain)
  local bucket = compose.bucket(chain)
  for name, buckets in pairs(corpus.SETS) do
    for _, other in ipairs(buckets) do
      if other == bucket then
        return name
      end
    end
  end
  return "base"
end

--- A task of one set.
---@param stream lib.Random
---@param set string
---@param options ComposeOptions
function corpus.task(stream, set, options)
  while true do
    local task = compose.task(stream, options)
    if corpus.set_of(task.chain) == set then
      return task
    end
  end
end

local ERRORS = { "expected ';' before '}' token", "expected ')' before ';' token",
  "'t%d' was not declared in this scope" }

local function observed(answer, stream)
  if answer.syntax then
    return "build error: " .. (stream:pick(ERRORS):gsub("%%d", tostring(stream:integer(6, 9))))
  end
  return #answer.faults > 0 and "wrong" or "ok"
end

-- The shipped policy learnt elu as exp(x) - 1, which the tolerance refuses near zero: one more thing that its teacher
-- does not do well.
local function as_it_was_taught(text)
  return (text:gsub("(%a+::)expm1(%b())", "%1exp%2 - 1"))
end

---@class (exact) Dialogue
---@field prompt string
---@field turns {answer: string, observation?: string}[]

---@param stream lib.Random
---@param task ComposedTask
---@param options {fault_rate: number, turns: integer, again: number, variants?: string[]}
---  again: share of dialogues that go on behind the first answer
---@return Dialogue
function corpus.dialogue(stream, task, options)
  local turns = {}
  local most = stream:number() < options.again and options.turns or 1
  for turn = 1, most do
    local answer = assert(expert.answer(task.graph, { variant = stream:pick(options.variants or expert.ORDER),
      fault_rate = options.fault_rate, random = stream, rewrite = as_it_was_taught }))
    local seen = observed(answer, stream)
    turns[turn] = { answer = parse.render(answer.files), observation = turn < most and seen or nil }
    if seen == "ok" and most > 1 then
      turns[turn].observation = "ok"
      turns[turn + 1] = { answer = tiny.DONE }
      break
    end
  end
  return { prompt = graph_text.text(task.graph), turns = turns }
end

---@param seed integer|string
---@param count integer
---@param options {tasks: ComposeOptions, fault_rate: number, turns: integer, again: number, variants?: string[]}
---@param pause? fun()     called now and then: lets others run
---@return Dialogue[]
function corpus.make(seed, count, options, pause)
  local stream, list = random.stream("corpus " .. seed), {}
  for index = 1, count do
    local task = corpus.task(stream, "base", options.tasks)
    list[index] = corpus.dialogue(stream, task, options)
    if pause and index % 200 == 0 then
      pause()
    end
  end
  return list
end

--- A dialogue as an episode of the trainer: every answer is an action.
---@param chat table
---@param dialogue Dialogue
---@return {tokens: integer[], mask: integer[], reward: number}
function corpus.episode(chat, dialogue)
  local tokens, mask = {}, {}
  local function add(list, bit)
    for _, token in ipairs(list) do
      tokens[#tokens + 1], mask[#mask + 1] = token, bit
    end
  end
  add(chat:prompt_text(dialogue.prompt), 0)
  for _, turn in ipairs(dialogue.turns) do
    add(chat:answer(turn.answer), 1)
    if turn.observation then
      add(chat:observation(turn.observation), 0)
    end
  end
  -- An episode ends with an action.
  while mask[#mask] == 0 do
    table.remove(tokens)
    table.remove(mask)
  end
  return { tokens = tokens, mask = mask, reward = 0 }
end

return corpus
