-- What a model folder holds beside its weights: every token that ends an answer, ids that are no tokens, and what a
-- trained folder must carry over for other programs.
local fs = require "khost.fs"
local json = require "khost.json"
local policy = require "khost.policy"
local sched = require "khost.sched"
local t = require "tests.lua.harness"
local trainer = require "khost.trainer"

local spec = {}

local SPECIALS = { "<|begin|>", "<|end|>", "<|turn|>", "<|gap|>" }

local function read(path) return json.decode(assert(fs.read(path))) end

local function change(path, fn)
  local value = read(path)
  fn(value)
  assert(fs.write(path, json.encode(value)))
end

-- fn(folder): a folder in which folder/model is a small model with a tokenizer of 268 tokens and 300 rows.
local function with_model(fn)
  local folder = "/tmp/khost-model-folder-" .. fs.sha256(tostring(sched.wall_clock())):sub(1, 12)
  local tokenizer = assert(trainer.train_tokenizer({ "return x > 0 ? x : 0; return x;" },
    { vocab = 268, specials = SPECIALS }))
  local actor = assert(trainer.open { model = { width = 32, layers = 1, heads = 2, vocabulary = 300, positions = 256 },
    tokenizer = tokenizer, seed = 3, lease = "" })
  assert(actor:save(folder .. "/model"))
  local ok, message = pcall(fn, folder)
  fs.remove_tree(folder)
  if not ok then error(message, 0) end
end

local function open(folder) return assert(policy.open { model = folder, lease = "" }) end

-- A likely first token of the model, which is no special one.
local function first_token(folder)
  return assert(open(folder):generate({ 10, 20, 30 }, { max_tokens = 1, temperature = 0, stop = {} })).tokens[1]
end

local function drawn_to_the_end(folder)
  local drawn = assert(open(folder):generate({ 10, 20, 30 }, { max_tokens = 6, temperature = 0 }))
  return { drawn.finish, #drawn.tokens }
end

function spec.every_end_token_of_config_json_ends_a_generation()
  with_model(function(folder)
    local model = folder .. "/model"
    local token = first_token(model)
    t.expect(drawn_to_the_end(model), { "length", 6 })
    change(model .. "/config.json", function(config) config.eos_token_id = { 1, 2, token } end)
    t.expect(drawn_to_the_end(model), { "stop", 1 })
    t.expect({ open(model):end_token(), open(model):end_tokens() }, { 1, { 1, 2, token } })
    change(model .. "/config.json", function(config) config.eos_token_id = token end)
    t.expect(drawn_to_the_end(model), { "stop", 1 })
  end)
end

function spec.end_tokens_that_only_generation_config_json_has_count_too()
  with_model(function(folder)
    local model = folder .. "/model"
    local token = first_token(model)
    change(model .. "/config.json", function(config) config.eos_token_id = 1 end)
    assert(fs.write(model .. "/generation_config.json", json.encode { eos_token_id = { token, 1 } }))
    t.expect(drawn_to_the_end(model), { "stop", 1 })
    t.expect(open(model):end_tokens(), { 1, token })
    local drawn = assert(open(model):generate({ 10, 20, 30 }, { max_tokens = 6, temperature = 0, stop = {} }))
    t.expect({ drawn.finish, #drawn.tokens }, { "length", 6 })
  end)
end

function spec.end_tokens_that_are_none_are_named()
  with_model(function(folder)
    local path = folder .. "/model/generation_config.json"
    for text, word in pairs { ['{"eos_token_id": "<|end|>"}'] = "eos_token_id", ["[1]"] = "no JSON object",
      ["{"] = "not valid JSON", ['{"eos_token_id": 5000000000}'] = "no token id" } do
      assert(fs.write(path, text))
      local opened, message = policy.open { model = folder .. "/model", lease = "" }
      t.expect(opened, nil)
      t.is_true(message:find("generation_config.json", 1, true) and message:find(word, 1, true), message)
    end
  end)
end

local function joined(a, b)
  local all = { unpack(a) }
  for _, item in ipairs(b) do all[#all + 1] = item end
  return all
end

function spec.ids_without_a_token_are_never_drawn()
  with_model(function(folder)
    local model = folder .. "/model"
    -- A gap among the tokens, besides the rows beyond them.
    change(model .. "/tokenizer.json", function(tokenizer)
      tokenizer.model.vocab["<|gap|>"] = nil
      table.remove(tokenizer.added_tokens, 4)
    end)
    local opened = open(model)
    t.expect(opened:special("<|gap|>"), nil)
    for index, options in ipairs { { temperature = 0 }, { temperature = 1 }, { temperature = 50 }, { temperature = 50 },
      { temperature = 9, top_k = 290 }, { temperature = 9, top_p = 0.999 }, { temperature = 9, top_p = 0.3, top_k = 40 } } do
      options.max_tokens, options.stop, options.seed = 200, {}, index
      local drawn = assert(opened:generate({ 10, 20, 30 }, options))
      local scored = assert(opened:logprobs(joined({ 10, 20, 30 }, drawn.tokens),
        { temperature = options.temperature > 0 and options.temperature or 1 }))
      for i, token in ipairs(drawn.tokens) do
        t.is_true(token < 268 and token ~= 3, ("token %d was drawn"):format(token))
        -- Over the whole vocabulary, as the trainer computes it.
        t.is_true(math.abs(scored[i + 3] - drawn.logprobs[i]) < 1e-4, "another log-probability than the trainer's")
      end
    end
  end)
end

local CARRIED = {
  ["tokenizer_config.json"] = [[{
  "chat_template": "{% for m in messages %}{{ m['content'] }}<|end|>{% endfor %}",
  "bos_token": "<|begin|>", "eos_token": "<|end|>"
}]],
  ["special_tokens_map.json"] = '{"bos_token": "<|begin|>", "eos_token": {"content": "<|end|>", "lstrip": false}}',
  ["generation_config.json"] = '{"eos_token_id": [1, 2], "temperature": 0.70, "top_k": 20, "do_sample": true}',
  ["chat_template.jinja"] = "{{ bos_token }}{% for m in messages %}{{ m.content }}\n{% endfor %}",
  ["added_tokens.json"] = '{"<|end|>": 1}',
  ["vocab.json"] = '{"a": 5}',
  ["merges.txt"] = "#version: 0.2\na b\n",
}

function spec.a_saved_folder_carries_everything_over()
  with_model(function(folder)
    local model, saved, again = folder .. "/model", folder .. "/saved", folder .. "/again"
    for name, text in pairs(CARRIED) do assert(fs.write(model .. "/" .. name, text)) end
    assert(fs.write(model .. "/unknown.bin", "not ours to copy"))
    change(model .. "/config.json", function(config)
      config.eos_token_id, config.pad_token_id, config.initializer_range = { 1, 2 }, 0, 0.02
      config.torch_dtype = "bfloat16"
    end)
    change(model .. "/tokenizer.json", function(tokenizer)
      tokenizer.post_processor = { type = "TemplateProcessing",
        single = { { SpecialToken = { id = "<|begin|>", type_id = 0 } }, { Sequence = { id = "A", type_id = 0 } } },
        pair = { { Sequence = { id = "A", type_id = 0 } }, { Sequence = { id = "B", type_id = 1 } } },
        special_tokens = { ["<|begin|>"] = { id = "<|begin|>", ids = { 0 }, tokens = { "<|begin|>" } } } }
      tokenizer.added_tokens[2].normalized = true
    end)
    local actor = assert(trainer.open { model = model, lease = "" })
    local critic = actor:critic()
    assert(actor:save(saved))
    assert(critic:save(folder .. "/critic"))
    -- Once more from the saved folder alone: nothing may be lost on the second way either.
    fs.remove_tree(model .. "/tokenizer_config.json")
    assert(assert(trainer.open { model = saved, lease = "" }):save(again))
    for _, place in ipairs { saved, again, folder .. "/critic" } do
      for name, text in pairs(CARRIED) do t.expect(fs.read(place .. "/" .. name), text) end
      t.expect(fs.read(place .. "/tokenizer.json"), fs.read(model .. "/tokenizer.json"))
      t.expect(fs.exists(place .. "/unknown.bin"), nil)
      local config = read(place .. "/config.json")
      t.expect({ config.eos_token_id, config.pad_token_id, config.initializer_range, config.torch_dtype },
        { { 1, 2 }, 0, 0.02, "float32" })
    end
    t.expect(read(again .. "/config.json").khost_role, "actor")
    t.expect(read(folder .. "/critic/config.json").khost_role, "critic")
  end)
end

function spec.a_tokenizer_from_elsewhere_brings_its_own_files()
  with_model(function(folder)
    local model, other = folder .. "/model", folder .. "/other"
    assert(fs.mkdirs(other))
    assert(fs.write(other .. "/tokenizer.json", fs.read(model .. "/tokenizer.json")))
    assert(fs.write(other .. "/chat_template.jinja", "other"))
    assert(fs.write(model .. "/chat_template.jinja", "model"))
    local actor = assert(trainer.open { model = model, tokenizer = other .. "/tokenizer.json", lease = "" })
    assert(actor:save(folder .. "/saved"))
    t.expect(fs.read(folder .. "/saved/chat_template.jinja"), "other")
  end)
end

return spec
