-- The whole pipeline over several seeds, and how far its results spread.

local args = require "lib.args"
local sweep = require "sweep.sweep"

local ABOUT = { name = "recipes/seeds.lua", summary = "the whole pipeline over several seeds, and their spread" }
local OPTIONS = sweep.options {}

local function run(list)
  return sweep.run({ { name = "full", set = {} } }, args.parse(OPTIONS, list, ABOUT), ABOUT.name)
end

return { name = ABOUT.name, summary = ABOUT.summary, options = OPTIONS, run = run }
