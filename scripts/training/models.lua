-- Opens the models of a run: the base, and what earlier stages left as checkpoints.

local formats = require "chat.formats"
local fs = require "khost.fs"
local local_policy = require "policies.local"
local trainer = require "khost.trainer"

local models = {}

--- The folder of a model that a preset names, relative to khost's root.
---@param path string
---@return string
function models.folder(path)
  return path:sub(1, 1) == "/" and path or fs.root() .. "/" .. path
end

--- A trainer on the weights of a folder, with a fresh optimizer.
---@async
---@param run table
---@param folder string
---@return khost.Trainer
function models.open(run, folder)
  local machine = run.config.machine
  return assert(trainer.open { model = folder, seed = run.seed, device = machine.device, dtype = machine.dtype,
    threads = machine.threads > 0 and machine.threads or nil })
end

--- A trainer beside the run's own, for a model that only scores.
---@async
---@param run table
---@param folder string
---@return khost.Trainer
function models.apart(run, folder)
  return models.open(run, folder)
end

--- The policy that draws with a trainer's weights, in the chat format that its tokenizer speaks.
---@param run table
---@param actor khost.Trainer
---@param name string
---@return table
function models.policy(run, actor, name)
  local engine = actor:policy()
  return local_policy.open(engine, formats.of(engine), { name = name, temperature = run.config.ppo.temperature,
    tokens = run.config.model.tokens })
end

--- Saves what a stage made, as a model of its own.
---@async
---@param run table
---@param stage string
---@param role "actor"|"critic"
---@param model khost.Trainer
---@return string folder
function models.keep(run, stage, role, model)
  local folder = ("%s/checkpoints/%s/%s"):format(run.folder, stage, role)
  assert(model:save(folder, { stage = stage }))
  return folder
end

return models
