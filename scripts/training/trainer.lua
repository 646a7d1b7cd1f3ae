-- khost.trainer for a run's own training. Where this process leads other ranks (training.ranks), they are told what
-- happens to each trainer and each batch and do the same; where it trains alone, khost.trainer itself answers.

local native = require "khost.trainer"
local ranks = require "training.ranks"

local shared = {}
for name, value in pairs(native) do
  shared[name] = value
end

-- Both hold `native`, what this process has of them, and `id`, by which the others know theirs.
local Trainer, Batch = {}, {}
Trainer.__index, Batch.__index = Trainer, Batch

local SENT = 32  -- episodes in one message

local function adopt(class, object, group)
  local self = setmetatable({ native = object, group = group }, class)
  self.id = group:name(self)
  return self
end

-- Options as the other ranks take them. They need no tokenizer, only the number of its tokens.
local function plain(options)
  local copy = {}
  for name, value in pairs(options) do
    copy[name] = value
  end
  copy.tokenizer = nil
  if type(options.model) == "table" and type(options.tokenizer) == "userdata" and not options.model.vocabulary then
    copy.model = { vocabulary = options.tokenizer:size() }
    for name, value in pairs(options.model) do
      copy.model[name] = value
    end
  end
  return copy
end

--- As khost.trainer's.
---@async
---@param options khost.OpenTrainer
---@return table|khost.Trainer|nil, string? message, string? code
function shared.open(options)
  local group, own = ranks.current(), {}
  if not group then
    return native.open(options)
  end
  for name, value in pairs(options) do
    own[name] = value
  end
  own.threads = group:threads(options.threads)
  local opened, message, code = native.open(own)
  if not opened then
    return nil, message, code
  end
  local self = adopt(Trainer, opened, group)
  group:together { op = "open", id = self.id, options = plain(own) }
  return self
end

function Trainer:critic()
  local critic = adopt(Trainer, self.native:critic(), self.group)
  self.group:together { op = "critic", id = critic.id, of = self.id }
  return critic
end

function Trainer:policy() return self.native:policy() end

function Trainer:tokenizer() return self.native:tokenizer() end

function Trainer:stats() return self.native:stats() end

function Trainer:update(batch, objective, options)
  return self.group:together({ op = "update", trainer = self.id, batch = batch.id, kind = objective.kind,
    objective = objective.options, options = options }, function()
    return self.native:update(batch.native, objective.native, options)
  end)
end

-- Moments stand in slices on all ranks; weights alone are written by this one.
function Trainer:save(folder, note, options)
  if options and options.optimizer == false then
    return self.native:save(folder, note, options)
  end
  return self.group:together({ op = "save", trainer = self.id, folder = folder }, function()
    return self.native:save(folder, note, options)
  end)
end

-- What cannot be loaded here is not tried elsewhere.
function Trainer:load(folder, options)
  local note, message, code = self.native:load(folder, options)
  if note then
    self.group:together { op = "load", trainer = self.id, folder = folder, options = options }
  end
  return note, message, code
end

function Trainer:close()
  self.native:close()
  self.group:together { op = "close", trainer = self.id }
end

-- An objective as both sides can make it.
local function objective_of(kind)
  return function(options)
    local made = native[kind](options)
    return ranks.current() and { kind = kind, options = options, native = made } or made
  end
end

shared.rft, shared.value, shared.ppo = objective_of "rft", objective_of "value", objective_of "ppo"

--- As khost.trainer's.
---@param episodes khost.PackEpisode[]
---@param options? table
---@return table|khost.Batch
function shared.pack(episodes, options)
  local group, made = ranks.current(), native.pack(episodes, options)
  if not group then
    return made
  end
  local self, sent = adopt(Batch, made, group), {}
  for index, one in ipairs(episodes) do
    sent[#sent + 1] = { tokens = one.tokens, mask = one.mask, logprobs = one.logprobs, reward = one.reward,
      group = one.group }
    if #sent == SENT or index == #episodes then
      group:together { op = "episodes", id = self.id, episodes = sent }
      sent = {}
    end
  end
  group:together { op = "pack", id = self.id, options = options }
  return self
end

function Batch:fill(column, source)
  local named = type(source) == "string"
  return self.group:together({ op = "fill", batch = self.id, column = column, trainer = not named and source.id or nil,
    source = named and source or nil }, function()
    return self.native:fill(column, named and source or source.native)
  end)
end

function Batch:advantages(options)
  return self.group:together({ op = "advantages", batch = self.id, options = options }, function()
    return self.native:advantages(options)
  end)
end

-- The parts, each a batch of its own, in the same order everywhere.
function Batch:split(trajectories, epochs, options)
  local parts, ids, at = {}, {}, 0
  for part in self.native:split(trajectories, epochs, options) do
    parts[#parts + 1] = adopt(Batch, part, self.group)
    ids[#parts] = parts[#parts].id
  end
  self.group:together { op = "split", batch = self.id, ids = ids, trajectories = trajectories, epochs = epochs,
    options = options }
  return function()
    at = at + 1
    return parts[at]
  end
end

function Batch:select(trajectories)
  local part = adopt(Batch, self.native:select(trajectories), self.group)
  self.group:together { op = "select", id = part.id, batch = self.id, trajectories = trajectories }
  return part
end

function Batch:evaluate(network)
  return self.group:together({ op = "evaluate", batch = self.id, trainer = network.id }, function()
    return self.native:evaluate(network.native)
  end)
end

function Batch:metrics() return self.native:metrics() end

function Batch:column(name) return self.native:column(name) end

local SHAPE = { vocabulary = 16, width = 64, layers = 1, heads = 4, kv_heads = 2, head_width = 16, mlp_width = 128,
  positions = 32 }

--- Shares one update of a toy between the ranks, so that what cannot be exchanged is known before anything is played.
---@async
---@param device "cpu"|"cuda"
function shared.rehearse(device)
  local toy, why = shared.open { model = SHAPE, seed = 1, device = device }
  local episodes, done = {}, nil
  for index = 1, 4 do
    episodes[index] = { tokens = { 1, 2, 3, index }, mask = { 0, 0, 1, 1 }, reward = 0 }
  end
  if toy then
    done, why = toy:update(shared.pack(episodes, { tokens = 8 }), shared.rft {}, { lr = 1e-3 })
    toy:close()
  end
  if not done then
    error(("ranks cannot share an update on device %s: %s"):format(device, tostring(why)), 0)
  end
end

return shared
