-- The model that the run begins with: the one that the preset names, or one made now; and how good it is.
--
-- A departure from the paper, which begins with a capable model (see recipes/base.lua).

local base = require "training.base"
local config = require "khost.config"
local models = require "training.models"
local pipeline = require "run.pipeline"
local toy = require "training.toy"
local validate = require "training.validate"

local stage = { name = "base", summary = "the model that learning begins with" }

local function make(run)
  local preset = assert(config.load { preset = "base" })
  local c = config.plain(preset).base
  c.operators = #c.operators > 0 and c.operators or nil
  local folder = run.folder .. "/checkpoints/base"
  local result = base.make(c, run.judging, folder, { machine = run.config.machine, on_step = function(step, values)
    assert(run.store:metrics("base", step, values))
  end })
  return folder, result
end

-- A model that calls tools must speak ChatML, which no small base model does: a toy with random weights.
local function make_toy(run)
  local c, folder = run.config.toy, run.folder .. "/checkpoints/base"
  toy.write(folder, toy.texts(run.config), { width = c.width, layers = c.layers, vocabulary = c.vocabulary,
    positions = run.config.model.tokens, seed = run.seed })
  return folder
end

function stage.execute(run)
  run:need("filter")
  local path = run.config.model.path
  local folder, made = models.folder(path), nil
  local problem = models.problem(run.config)
  if problem then
    error("base: " .. problem, 0)
  end
  if path == "" and models.calls_tools(run) then
    folder = make_toy(run)
  elseif path == "" then
    folder, made = make(run)
  end
  local actor = models.open(run, folder)
  local policy = models.policy(run, actor, "base", { fixed = true })
  local seen = validate.play(run, "base", 0, policy, { turns = 1,
    answer_tokens = run.config.single_turn.answer_tokens, limit = run.config.machine.episodes })
  local parameters = actor:stats().parameters
  return { folder = folder, made = made, validation_pass = seen.validation_pass,
    validation_reward = seen.validation_reward, tables = { { title = "Base model",
      columns = { "folder", "parameters", "validation pass" },
      rows = { { path == "" and "checkpoints/base" or path, tostring(parameters),
        ("%.2f"):format(seen.validation_pass) } } } } }
end

return pipeline.standalone(stage)
