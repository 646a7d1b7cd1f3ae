-- Fuzzes the reader of a model's folder: tokenizer.json, the configurations and the header of the weights, with bytes,
-- lengths and values broken. It may refuse any of them, by the file's name; it may not crash, take long, or open a model
-- that draws no tokens.
--
--   ./khost tests/fuzz/model.lua [--seconds 300] [--seed 1] [--only N]
local args = require "lib.args"
local fs = require "khost.fs"
local gguf = require "tests.lua.gguf_kit"
local mutate = require "tests.fuzz.mutate"
local policy = require "khost.policy"
local sched = require "khost.sched"
local trainer = require "khost.trainer"

local OPTIONS = {
  { name = "--seconds", kind = "number", default = 300, help = "how long" },
  { name = "--seed", kind = "number", default = 1, help = "of all inputs" },
  { name = "--only", kind = "number", help = "this input only" },
}
local ABOUT = { name = "tests/fuzz/model.lua", summary = "fuzzes the reader of a model's folder" }

local FILES = { "tokenizer.json", "tokenizer.json", "config.json", "generation_config.json", "model.safetensors" }
local VALUES = { "null", "true", "-1", "0", "1.5", "1e400", "1e308", "9007199254740993", "4294967297", '""', '"x"', "[]", "{}",
  "[null]", '{"type": "Sequence", "pretokenizers": []}', '{"type": "Split", "pattern": {"Regex": "("}, "behavior": "Isolated"}',
  '{"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated"}' }

-- A value of the text, which is JSON, gives way to another one; or bytes are broken anywhere.
local function broken(random, text)
  if random:number() < 0.4 then
    return mutate.broken(random, text, 3)
  end
  local places = {}
  for at in text:sub(1, 20000):gmatch("()[%d\"%[{]") do places[#places + 1] = at end
  local at = places[random:integer(1, math.max(1, #places))] or 1
  local value = mutate.piece(random, VALUES)
  if random:number() < 0.05 then
    local levels = random:integer(100, 50000)
    value = ('{"type":"Sequence","pretokenizers":['):rep(levels) .. "null" .. ("]}"):rep(levels)
  end
  local stop = text:find("[,%]}\n]", at) or #text
  return text:sub(1, at - 1) .. value .. text:sub(stop)
end

local function run(list)
  local options = args.parse(OPTIONS, list, ABOUT)
  local folder = "/tmp/khost-fuzz-" .. fs.sha256(tostring(sched.wall_clock())):sub(1, 12)
  assert(fs.mkdirs(folder))
  local source, made = folder .. "/x.gguf", folder .. "/model"
  assert(fs.write(source, gguf.small_model()))
  assert(trainer.convert_gguf(source, made))
  local good, opened = {}, 0
  for _, name in ipairs(FILES) do good[name] = assert(fs.read(made .. "/" .. name)) end
  local failures = mutate.run("model", options, function(random)
    local name = mutate.piece(random, FILES)
    assert(fs.write(made .. "/" .. name, broken(random, good[name])))
    local begin = sched.now()
    local model, message = policy.open { model = made, lease = "", positions = 64 }
    if model then
      opened = opened + 1
      model:encode("int a = 1; \255 for")
    else
      assert(type(message) == "string" and message:find(made, 1, true), "the folder is not named: " .. tostring(message))
    end
    local tokenizer = name == "tokenizer.json" and trainer.tokenizer(made .. "/" .. name)
    if tokenizer then
      tokenizer:decode(tokenizer:encode(("a"):rep(300) .. "!\195", { special = true }))
    end
    assert(sched.now() - begin < 20, "it took long")
    assert(fs.write(made .. "/" .. name, good[name]))
  end)
  fs.remove_tree(folder)
  print(("%d of them opened"):format(opened))
  return failures > 0 and 1 or 0
end

return { name = ABOUT.name, summary = ABOUT.summary, options = OPTIONS, run = run }
