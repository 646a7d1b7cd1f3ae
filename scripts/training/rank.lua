-- A rank that rank 0 of a run started on its own machine (training.ranks), as `khost scripts/training/rank.lua RANK
-- SIZE PORT`. It is a process of the run and no command for people.

local args = require "lib.args"
local follow = require "training.follow"
local trainer = require "khost.trainer"

local ABOUT = { name = "scripts/training/rank.lua", summary = "one rank of a run that another process leads" }
local OPTIONS = {
  { name = "rank", required = true, help = "from 1" },
  { name = "size", required = true, help = "ranks in all" },
  { name = "port", required = true, help = "of this machine, where they meet" },
}

local function run(list)
  local options = args.parse(OPTIONS, list, ABOUT)
  assert(trainer.ranks { rank = tonumber(options.rank), size = tonumber(options.size), port = tonumber(options.port),
    whole = true })
  follow.run()
  return 0
end

return { name = ABOUT.name, summary = ABOUT.summary, options = OPTIONS, run = run }
