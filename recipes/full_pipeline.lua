-- The whole of the paper as one run: tasks, filter, base model, supervised start, single-turn PPO, trajectories,
-- rejection fine-tuning, value pretraining, agentic PPO, evaluation, report. Every stage is a file in recipes/stages
-- and runs alone too.
--
-- Departures from the paper are named at the top of each stage's file.

local args = require "lib.args"
local config = require "khost.config"
local fs = require "khost.fs"
local log = require "khost.log"
local models = require "training.models"
local page = require "report.page"
local pipeline = require "run.pipeline"
local plan = require "run.plan"
local store = require "khost.store"

local STAGES = { "synthesize", "filter", "base", "supervised", "single_turn", "collect", "rft", "value", "agentic",
  "evaluate", "report" }
local ABOUT = { name = "recipes/full_pipeline.lua", summary = "the whole pipeline as one run" }

local function execute(run)
  -- Read before the first stage: an unknown stage or a broken file should not cost an hour.
  local stages = {}
  for index, name in ipairs(STAGES) do
    stages[index] = require("recipes.stages." .. name)
  end
  for _, stage in ipairs(stages) do
    run:stage(stage)
  end
end

local function run(list)
  local options = args.parse(pipeline.OPTIONS, list, ABOUT)
  if options.plan then
    log.print(plan.text(config.plain(pipeline.load_config(options))))
    return 0
  end
  if not options.resume then
    local problem = models.problem(config.plain(pipeline.load_config(options)))
    if problem then
      args.misuse(problem)
    end
  end
  local this = pipeline.open(options, ABOUT.name)
  if this:result("report") then
    args.misuse("--resume: this run is finished; `khost show` prints it")
  end
  execute(this)
  local folder = this.folder
  this:close("done")
  -- The page that the last stage wrote shows a run that is not finished yet.
  local finished = assert(store.open(folder, { read_only = true }))
  assert(page.write(folder .. "/report.html", { finished }))
  finished:close()
  fs.eprint(("khost: %s\nkhost: page %s/report.html\n"):format(folder, folder))
  return 0
end

return { name = ABOUT.name, summary = ABOUT.summary, options = pipeline.OPTIONS, run = run }
