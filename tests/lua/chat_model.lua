-- A model folder for tests of the pipeline: Qwen2's architecture at toy size with random weights, and a byte-level
-- tokenizer with ChatML's special tokens that was trained on what the pipeline will say.

local fs = require "khost.fs"
local trainer = require "khost.trainer"

local chat_model = {}

chat_model.SPECIALS = { "<|endoftext|>", "<|im_start|>", "<|im_end|>" }

--- Writes the folder.
---@async
---@param folder string
---@param texts string[]   what the tokenizer learns from
---@param options? {width?: integer, layers?: integer, positions?: integer, vocabulary?: integer, seed?: integer}
---@return integer parameters
function chat_model.write(folder, texts, options)
  local o = options or {}
  local tokenizer = assert(trainer.train_tokenizer(texts, { vocab = o.vocabulary or 768,
    specials = chat_model.SPECIALS }))
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

return chat_model
