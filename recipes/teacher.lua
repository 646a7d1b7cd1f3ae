-- Makes a pack of dialogues with tools for the supervised start of a model that learns to call them: composes the tasks
-- of a run with this preset and seed, lets the rule-based teacher play on other combinations of operators, and keeps
-- what went as planned and passed the judge. A run that is given the pack (dialogues.pack) leaves out what shares a
-- combination with its own tasks; with the same preset and seed there is nothing of that kind.
--
-- --resume goes on with a pack that was stopped; no finished dialogue is played again.

local args = require "lib.args"
local dialogues = require "training.dialogues"
local episode = require "agent.episode"
local formats = require "chat.formats"
local fs = require "khost.fs"
local log = require "khost.log"
local pipeline = require "run.pipeline"
local runs = require "run.runs"
local sched = require "khost.sched"
local tables = require "evaluation.table"
local watch = require "training.watch"

local ABOUT = { name = "recipes/teacher.lua", summary = "makes a pack of dialogues with tools" }
local OPTIONS = {
  { name = "--output", kind = "text", help = "the pack; dialogues.jsonl in the run's folder when absent" },
  { name = "--preset", kind = "text", default = "h200-tools",
    help = "numbers: [dialogues] of recipes/presets/NAME.toml" },
}
for _, option in ipairs(pipeline.with_run_options {}) do
  OPTIONS[#OPTIONS + 1] = option.name ~= "--preset" and option or nil
end

local stage = { name = dialogues.STAGE, summary = ABOUT.summary }

function stage.execute(run)
  local c, begin = run.config.dialogues, sched.now()
  local kept, kinds, reasons = dialogues.play(run, c, formats.learnt(run.config.prompt.calls))
  local path = run.output or run.folder .. "/dialogues.jsonl"
  local bytes = dialogues.write(path, kept, { target = run.config.machine.target, seed = run.seed })
  local used = watch.calls(episode.of_stages(run, { dialogues.STAGE }))
  log.print(("%s: %d of %d dialogues, %.1f MB, in %s"):format(path, #kept, c.count, bytes / 1e6,
    runs.duration(sched.now() - begin)))
  return { pack = path, kept = #kept, bytes = bytes, tables = {
    tables.of("Dialogues", { "kind", "kept", "of" }, kinds), tables.counts("Not kept", "reason", reasons),
    tables.counts("Calls by tool, kept or not", "tool", used.tools) } }
end

local function run(list)
  local options = args.parse(OPTIONS, list, ABOUT)
  local this = pipeline.open(options, ABOUT.name)
  this.output = options.output
  if this:result(stage.name) then
    args.misuse("--resume: this run is finished; `khost show` prints it")
  end
  this:stage(require "recipes.stages.synthesize")
  this:stage(stage)
  local folder = this.folder
  this:close("done")
  fs.eprint(("khost: %s\n"):format(folder))
  return 0
end

return { name = ABOUT.name, summary = ABOUT.summary, options = OPTIONS, run = run }
