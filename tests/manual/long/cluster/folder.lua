-- Writes the folder of a toy model that speaks ChatML, for the tests of adapters: its tokenizer has learnt from the
-- tasks and answers that they use.
--
--   ./khost tests/manual/long/cluster/folder.lua FOLDER
local toy = require "training.toy"
local fs = require "khost.fs"

local function run(list)
  local folder = list[1] or error("FOLDER is missing", 0)
  local texts = {}
  for _, name in ipairs { "answers.py", "tasks/chain.py", "tasks/diagonal.py" } do
    texts[#texts + 1] = assert(fs.read(fs.root() .. "/tests/manual/long/cluster/" .. name))
  end
  toy.write(folder, texts, { vocabulary = 512, positions = 32768 })
  return 0
end

return { name = "tests/manual/long/cluster/folder.lua", summary = "a toy model's folder", options = {}, run = run }
