-- Adds the CUDA expert's texts to a list of tasks: each task of IN.json, {graph}, gets answers[variant] in OUT.json.
--   ./khost tests/manual/long/emulated/write.lua IN.json OUT.json
local expert = require "policies.expert_cuda"
local fs = require "khost.fs"
local json = require "khost.json"

local function run(list)
  local tasks = assert(json.decode(assert(fs.read(list[1]))))
  for _, task in ipairs(tasks) do
    task.answers = {}
    for _, variant in ipairs(expert.ORDER) do
      task.answers[variant] = assert(expert.answer(task.graph, { variant = variant })).files[expert.PATH]
    end
  end
  assert(fs.write(list[2], json.encode(tasks)))
  return 0
end

return { name = "write.lua", summary = "writes the CUDA expert's texts for traced tasks", run = run }
