-- Fuzzes the conversion of GGUF files: a small model with bytes, lengths and counts broken. It may refuse any of them, by
-- the file's name; it may not crash, leave half a folder, take long, or make a folder that does not open.
--
--   ./khost tests/manual/fuzz/gguf.lua [--seconds 300] [--seed 1] [--only N]
local args = require "lib.args"
local fs = require "khost.fs"
local gguf = require "tests.lua.gguf_kit"
local mutate = require "tests.manual.fuzz.mutate"
local policy = require "khost.policy"
local sched = require "khost.sched"
local trainer = require "khost.trainer"

local OPTIONS = {
  { name = "--seconds", kind = "number", default = 300, help = "how long" },
  { name = "--seed", kind = "number", default = 1, help = "of all inputs" },
  { name = "--only", kind = "number", help = "this input only" },
}
local ABOUT = { name = "tests/manual/fuzz/gguf.lua", summary = "fuzzes the conversion of GGUF files" }

local EDGES = { "\0\0\0\0\0\0\0\0", "\255\255\255\255\255\255\255\255", "\0\0\0\0\0\0\0\128", "\1\0\0\0\0\0\0\0",
  "\255\255\255\127", "\0\0\0\64", "\9\0\0\0\9\0\0\0" }

-- Most edits fall into the header, where counts and lengths stand; a number of a file's edge takes the place of bytes.
local function broken(random, text)
  for _ = 1, random:integer(1, 3) do
    local at = random:integer(1, random:number() < 0.8 and math.min(#text, 8000) or #text)
    local piece = random:number() < 0.5 and mutate.piece(random, EDGES) or string.char(random:integer(0, 255))
    text = text:sub(1, at - 1) .. piece .. text:sub(at + #piece)
  end
  return random:number() < 0.1 and text:sub(1, random:integer(0, #text)) or text
end

local function run(list)
  local options = args.parse(OPTIONS, list, ABOUT)
  local folder = "/tmp/khost-fuzz-" .. fs.sha256(tostring(sched.wall_clock())):sub(1, 12)
  assert(fs.mkdirs(folder))
  local path, made = folder .. "/x.gguf", folder .. "/model"
  local good = gguf.small_model()
  local function target(random)
    assert(fs.write(path, broken(random, good)))
    fs.remove_tree(made)
    local begin = sched.now()
    local ok, message = trainer.convert_gguf(path, made)
    assert(sched.now() - begin < 20, "it took long")
    if not ok then
      assert(message:find(path, 1, true), "the file is not named: " .. message)
      assert(not fs.exists(made), "a folder is left of a file that was refused")
      return
    end
    local opened, why = policy.open { model = made, lease = "", positions = 64 }
    assert(opened, "the folder does not open: " .. tostring(why))
  end
  local failures = mutate.run("gguf", options, target)
  fs.remove_tree(folder)
  return failures > 0 and 1 or 0
end

return { name = ABOUT.name, summary = ABOUT.summary, options = OPTIONS, run = run }
