-- Opens the models of a run: the base, and what earlier stages left as checkpoints.

local formats = require "chat.formats"
local fs = require "khost.fs"
local local_policy = require "policies.local"
local prompts = require "training.prompts"
local sched = require "khost.sched"
local trainer = require "training.trainer"

local models = {}

--- The folder of a model that a preset names, relative to khost's root.
---@param path string
---@return string
function models.folder(path)
  return path:sub(1, 1) == "/" and path or fs.root() .. "/" .. path
end

--- What is wrong with the configured base model, before anything is spent on a run of it.
---@param c table   merged configuration
---@return string|nil
function models.problem(c)
  local path = c.model.path
  if path == "" and c.machine.target ~= "cpu" then
    return "model.path is empty, and a base model can only be made for target cpu; --set model.path=FOLDER names one "
      .. "(`khost fetch-model` makes such a folder)"
  elseif path ~= "" and not fs.exists(models.folder(path) .. "/config.json") then
    return ("model.path %s has no config.json; --set model.path=FOLDER names a folder of a Hugging Face model")
      :format(path)
  end
end

-- Options of a trainer that the preset and the machine decide. `model.tokens` bounds a conversation, so the engine
-- keeps room for as many positions and no more.
local function options_of(run, folder)
  local machine, model = run.config.machine, run.config.model
  return { model = folder, seed = run.seed, device = machine.device, dtype = machine.dtype,
    threads = machine.threads > 0 and machine.threads or nil, slots = model.slots, recompute = model.recompute,
    memory_share = model.memory_share,
    positions = model.slots and model.tokens or nil }
end

--- A trainer on the weights of a folder, with a fresh optimizer. The one that the run opened before is used again where
--- the folder is a checkpoint of the same model: on a card opening takes much longer than reading weights.
---@async
---@param run table
---@param folder string
---@return khost.Trainer
function models.open(run, folder)
  folder = run:path(folder)
  local before = run.models.actor
  if before and run.models.folder == folder and before:stats().step == 0 then
    return before  -- opened before, and not a step since
  elseif before and fs.exists(folder .. "/manifest.json") == "file" then
    if before:load(folder, { optimizer = false }) then
      run.models.folder = folder
      return before
    end
  end
  if before then
    models.close(run)
  end
  local actor, message = trainer.open(options_of(run, folder))
  if not actor then
    error(("model %s: %s"):format(folder, tostring(message)), 0)
  end
  run.models.actor, run.models.folder = actor, folder
  return actor
end

--- A trainer beside the run's own, for a model that only scores.
---@async
---@param run table
---@param folder string
---@return khost.Trainer
function models.apart(run, folder)
  return assert(trainer.open(options_of(run, run:path(folder))))
end

--- Gives up the run's open trainer and the policies that draw with it, so that their memory is free.
---@param run table
function models.close(run)
  local actor, engines = run.models.actor, run.models.engines or {}
  run.models.actor, run.models.folder, run.models.engines = nil, nil, nil
  if actor then
    run.ledger:drew(actor)
    for _, engine in ipairs(engines) do
      engine:close()
    end
    actor:close()
  end
end

--- Whether the agent of a run calls tools; else its answers are files.
---@param run table
---@return boolean
function models.calls_tools(run)
  return (run.config.prompt or {}).answers == "tools"
end

-- A model that reads graphs speaks its own format. One that speaks ChatML answers with files, under the prompts of the
-- run; as an agent it calls tools where the preset says prompt.answers = "tools".
local function format_of(run, engine, agent)
  local format = formats.of(engine)
  if format.answers_are_files then
    return format
  elseif agent and models.calls_tools(run) then
    return formats.learnt(run.config.prompt.calls)
  end
  run.models.format = run.models.format or prompts.format(run)
  return run.models.format
end

--- The policy that draws with a trainer's weights, in the chat format that its tokenizer speaks.
---@param run table
---@param actor khost.Trainer
---@param name string
---@param how? {format?: table, fixed?: boolean, agent?: boolean}   fixed: without prompt variants, as validation and
---  evaluation ask; agent: it plays several turns, with tools where the preset says so
---@return table
function models.policy(run, actor, name, how)
  local engine = actor:policy()
  run.models.engines = run.models.engines or {}
  table.insert(run.models.engines, engine)
  return local_policy.open(engine, how and how.format or format_of(run, engine, how and how.agent), { name = name,
    temperature = run.config.ppo.temperature, tokens = run.config.model.tokens, fixed = how and how.fixed })
end

--- Saves what a stage made, as a model of its own: weights alone, since the next stage begins with a fresh optimizer.
---@async
---@param run table
---@param stage string
---@param role "actor"|"critic"
---@param model khost.Trainer
---@return string folder   in the run's folder: Run:path makes it whole
function models.keep(run, stage, role, model)
  local folder, begin = ("checkpoints/%s/%s"):format(stage, role), sched.now()
  assert(model:save(run:path(folder), { stage = stage }, { optimizer = false }))
  run.ledger:add("writing", sched.now() - begin)
  return folder
end

return models
