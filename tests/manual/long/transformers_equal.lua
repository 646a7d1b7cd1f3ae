-- The half of transformers_equal.py that runs in khost: FOLDER, a JSON file of texts, and a JSON file for what is made
-- of them.
local args = require "lib.args"
local fs = require "khost.fs"
local json = require "khost.json"
local trainer = require "khost.trainer"

local OPTIONS = {
  { name = "folder", required = true, help = "a model folder" },
  { name = "wanted", required = true, help = "texts as JSON" },
  { name = "answer", required = true, help = "file to write" },
}
local ABOUT = { name = "tests/manual/long/transformers_equal.lua", summary = "answers transformers_equal.py" }

local function run(list)
  local options = args.parse(OPTIONS, list, ABOUT)
  local wanted = json.decode(assert(fs.read(options.wanted)))
  local actor = assert(trainer.open { model = options.folder, lease = "", slots = 1, positions = 4096 })
  local policy = actor:policy()
  local function ids_of(text) return policy:encode(text, { special = true }) end
  local answer = { awkward = {}, decoded = {}, logprobs = {}, end_tokens = policy:end_tokens(),
    chat = ids_of(wanted.chat) }
  for i, text in ipairs(wanted.awkward) do
    answer.awkward[i] = ids_of(text)
    answer.decoded[i] = policy:decode(answer.awkward[i], { special = true })
  end
  for i, text in ipairs(wanted.texts) do answer.logprobs[i] = assert(policy:logprobs(ids_of(text))) end
  local prompt = { unpack(ids_of(wanted.texts[1]), 1, 8) }
  answer.greedy = assert(policy:generate(prompt, { max_tokens = wanted.new, temperature = 0, stop = {} })).tokens
  assert(actor:save(wanted.saved))
  assert(fs.write(options.answer, json.encode(answer)))
  return 0
end

return { name = ABOUT.name, summary = ABOUT.summary, options = OPTIONS, run = run }
