-- A model folder that is made in seconds: Qwen2's architecture at toy size with random weights, and a byte-level
-- tokenizer with ChatML's special tokens that was trained on what the pipeline will say. What tests and small presets
-- begin with where a code model would be.

local corpus = require "policies.corpus"
local episode = require "agent.episode"
local experts = require "policies.experts"
local files = require "chat.files"
local formats = require "chat.formats"
local fs = require "khost.fs"
local prompt = require "agent.prompt"
local random = require "lib.random"
local trainer = require "khost.trainer"

local toy = {}

toy.SPECIALS = { "<|endoftext|>", "<|im_start|>", "<|im_end|>" }

local SHOWN = 24  -- tasks that a tokenizer sees

--- What a run's tokenizer learns from: questions and the expert's answers to tasks of no set, as files and as calls.
---@param c table   merged configuration
---@return string[]
function toy.texts(c)
  local stream, list, target = random.stream "toy texts", {}, c.machine.target
  local expert, format = experts.of(target), formats.learnt(c.prompt.calls)
  for _ = 1, SHOWN do
    local task = corpus.task(stream, "base", { families = c.tasks.families, length = c.tasks.length,
      shapes = c.tasks.small_shapes })
    local whole = episode.task_for(target, format, task)
    list[#list + 1] = files.question(task.source)
    for _, message in ipairs(prompt.messages(whole, format.describe, format.brief)) do
      list[#list + 1] = message.text
    end
    for _, variant in ipairs(expert.ORDER) do
      local answer = expert.answer(task.graph, { variant = variant })
      if answer then
        local code = answer.files[expert.PATH]
        list[#list + 1] = files.block(code, target)
        list[#list + 1] = format.render("", { { name = "Write", arguments = { file_path = "/workspace/" .. expert.PATH,
          content = code } }, { name = "Bash", arguments = { command = "python3 -m utils.verification" } } },
          whole.toolset)
      end
    end
  end
  return list
end

--- Writes the folder.
---@async
---@param folder string
---@param texts string[]   what the tokenizer learns from
---@param options? {width?: integer, layers?: integer, positions?: integer, vocabulary?: integer, seed?: integer}
---  positions: of the longest conversation
---@return integer parameters
function toy.write(folder, texts, options)
  local o = options or {}
  local tokenizer = assert(trainer.train_tokenizer(texts, { vocab = o.vocabulary or 768,
    specials = toy.SPECIALS }))
  local actor = assert(trainer.open { tokenizer = tokenizer, seed = o.seed or 1, lease = "", threads = 2,
    model = { family = "qwen2", qkv_bias = true, tied_embeddings = true, width = o.width or 64, layers = o.layers or 2,
      heads = 4, kv_heads = 2, positions = o.positions or 2048, end_token = tokenizer:special "<|im_end|>" } })
  assert(actor:save(folder, nil, { optimizer = false }))
  -- What a folder of a Hugging Face model does not have.
  for _, name in ipairs { "manifest.json", "state.json" } do
    fs.remove_tree(folder .. "/" .. name)
  end
  local parameters = actor:stats().parameters
  actor:close()
  return parameters
end

return toy
