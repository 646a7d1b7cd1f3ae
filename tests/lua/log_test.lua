-- khost.log and khost.progress as scripts see them.
local fs = require "khost.fs"
local json = require "khost.json"
local log = require "khost.log"
local progress = require "khost.progress"
local t = require "tests.lua.harness"

local FOLDER = "/tmp/khost-log-spec"

local function last_line()
  local last
  for line in fs.read(FOLDER .. "/log.jsonl"):gmatch("[^\n]+") do last = line end
  return json.decode(last)
end

local spec = {}

function spec.events_become_json_lines()
  fs.remove_tree(FOLDER)
  assert(log.open { folder = FOLDER, level = "error" })
  log.info("stage_done", { stage = "ppo", reward = 0.5 })
  local line = last_line()
  t.expect(line.event, "stage_done")
  t.expect(line.level, "info")
  t.expect(line.reward, 0.5)
  log.debug("bare")
  t.expect(last_line().event, "bare")
  log.warn("odd", {})
  t.expect(last_line().level, "warn")
  t.raises("fields must have names", log.info, "x", { 1, 2 })
  t.raises("did you mean 'debug'", log.open, { level = "debg" })
end

function spec.with_adds_fields_to_every_event()
  fs.remove_tree(FOLDER)
  assert(log.open { folder = FOLDER, level = "error" })
  local logger = log.with { stage = "rft", step = 1 }
  logger:info("batch", { step = 2 })
  t.expect(last_line().stage, "rft")
  t.expect(last_line().step, 2)
  logger:debug("x")
  logger:warn("y")
  t.expect(last_line().event, "y")
end

function spec.metrics_write_event_files()
  fs.remove_tree(FOLDER)
  assert(log.open { folder = FOLDER, level = "error" })
  log.metric("ppo/reward", 0.5, 3)
  local files = fs.glob(FOLDER .. "/tensorboard/events.out.tfevents.*")
  t.expect(#files, 1)
  t.is_true(fs.read(files[1]):find("ppo/reward", 1, true))
end

function spec.a_folder_that_cannot_be_made_is_a_failure()
  local done, _, code = log.open { folder = "/proc/khost" }
  t.expect(done, nil)
  t.expect(code, "io")
end

function spec.bars_count_note_and_finish()
  local bar = progress.begin("spec", 3)
  bar:add()
  bar:add(2, { reward = 0.5 })
  bar:note("almost")
  bar:finish("done")
  bar:finish()
  progress.begin("without a total"):add(5)
  t.raises("argument 1", progress.begin)
end

return spec
