-- The shipped base model: its corpus can be made again, and it writes kernels that parse.
local base = require "training.base"
local config = require "khost.config"
local corpus = require "policies.corpus"
local fs = require "khost.fs"
local local_policy = require "policies.local"
local policy = require "khost.policy"
local random = require "lib.random"
local t = require "tests.lua.harness"
local tiny = require "chat.tiny"

local FOLDER = fs.root() .. "/scripts/policies/tiny"

local spec = {}

local function options()
  local c = config.plain(assert(config.load { preset = "base" })).base
  c.operators = nil
  return c
end

function spec.the_card_names_the_corpus_that_the_recipe_makes()
  local _, hash = base.corpus(options())
  t.is_true(assert(fs.read(FOLDER .. "/CARD.md")):find(hash, 1, true), "the corpus is another: " .. hash)
end

function spec.the_weights_are_small()
  t.is_true(#assert(fs.read(FOLDER .. "/model.safetensors")) < 5e6)
end

function spec.most_of_its_answers_are_kernels()
  local model = assert(policy.open { model = FOLDER, lease = "" })
  local player = local_policy.open(model, tiny, { name = "tiny", tokens = 512 })
  local stream, parsed = random.stream("base spec"), 0
  for index = 1, 12 do
    local task = corpus.task(stream, "validation", { families = { "chain", "reduce" }, length = { 1, 2 } })
    local conversation = player.begin(task, random.stream(index))
    local drawn = assert(conversation:draw(256))
    parsed = parsed + (tiny.action(drawn.text, { cut = drawn.cut }).kind == "act" and 1 or 0)
    local record = conversation:record()
    t.expect({ #record.tokens, #record.mask }, { #record.logprobs, #record.logprobs })
  end
  t.is_true(parsed >= 10, parsed .. " of 12 parsed")
end

return spec
