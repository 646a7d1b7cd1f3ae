-- A run of recipes: configuration, store, judge, reward and models, shared by the stages. A stage that the store says
-- is finished is not run again; a run that was killed goes on where it was.

local args = require "lib.args"
local config = require "khost.config"
local fs = require "khost.fs"
local client = require "judge.client"
local log = require "khost.log"
local reward = require "lib.reward"
local runs = require "lib.runs"
local sched = require "khost.sched"
local store = require "khost.store"
local tables = require "evaluation.table"

local pipeline = {}

local Run = {}
Run.__index = Run

pipeline.OPTIONS = {
  { name = "--preset", kind = "text", default = "smoke", help = "numbers of the run: recipes/presets/NAME.toml" },
  { name = "--set", kind = "list", help = "override a key: --set single_turn.steps=2" },
  { name = "--seed", kind = "number", default = 1, help = "of every draw" },
  { name = "--resume", kind = "text", optional_value = "latest", help = "go on with a run: its name, or the latest" },
  { name = "--plan", kind = "flag", help = "print stages, verdicts, tokens, minutes and disk, and run nothing" },
}

local function load_config(options)
  local c, message = config.load { preset = options.preset, set = options.set }
  if not c then
    args.misuse(message)
  end
  return c
end
pipeline.load_config = load_config

local function open_store(options, recipe, c)
  local root = c.machine.runs
  root = root:sub(1, 1) == "/" and root or fs.root() .. "/" .. root
  if options.resume then
    local folder, message = store.find(root, options.resume ~= "latest" and options.resume or nil)
    if not folder then
      args.misuse("--resume: " .. message)
    end
    local record, why, code = store.open(folder)
    if not record then
      args.misuse(("--resume: %s%s"):format(why, code == "busy" and "; it is being written by another process" or ""))
    end
    return record
  end
  return assert(store.create(root, { name = options.preset:match("([^/]+)$"):gsub("%.toml$", ""), recipe = recipe,
    preset = options.preset, seed = options.seed, config = config.plain(c) }))
end

--- Opens the run that the options name, or a new one.
---@async
---@param options table   what args.parse made of pipeline.OPTIONS
---@param recipe string
---@return table
function pipeline.open(options, recipe)
  local c = load_config(options)
  local record = open_store(options, recipe, c)
  local info = record:info()
  local self = setmetatable({ store = record, config = info.config, seed = info.seed, folder = record:folder(),
    models = {} }, Run)
  assert(log.open { folder = self.folder })
  sched.seed(self.seed)
  local scheme, message = reward.open("rewards." .. self.config.reward.scheme, record)
  if not scheme then
    args.misuse(("reward.scheme %s: %s"):format(self.config.reward.scheme, message))
  end
  self.reward = scheme
  local process, unavailable = client.open(self.config)
  if not process then
    args.misuse(unavailable)
  end
  self.judging = process
  log.print(("run %s"):format(self.folder))
  return self
end

--- The result of a finished stage; nil when it is not finished.
---@param name string
---@return table|nil
function Run:result(name)
  local stage = self.store:stage(name)
  if stage and stage.status == "done" then
    return stage.result or {}
  end
end

--- The result of a stage that must have run before.
---@param name string
---@return table
function Run:need(name)
  return self:result(name) or args.misuse(("stage %s is not finished in this run; run recipes/stages/%s.lua first")
    :format(name, name))
end

--- Runs a stage unless it is finished.
---@async
---@param stage {name: string, execute: fun(run: table): table}
---@return table result
function Run:stage(stage)
  local done = self:result(stage.name)
  if done then
    log.print(("== %s: finished before"):format(stage.name))
    return done
  end
  log.print("== " .. stage.name)
  self.store:begin_stage(stage.name)
  local begin = sched.now()
  local result = stage.execute(self) or {}
  result.seconds = sched.now() - begin
  local _, trouble = self.store:finish_stage(stage.name, result)
  if trouble then
    error(trouble, 0)
  end
  for _, tab in ipairs(result.tables or {}) do
    log.print("\n" .. tab.title .. "\n" .. tables.text(tab.columns, tab.rows))
  end
  log.print(("   %s in %s\n"):format(stage.name, runs.duration(result.seconds)))
  return result
end

function Run:checkpoint_folder(stage, step, role)
  return ("%s/checkpoints/%s/%s-%d"):format(self.folder, stage, role, step)
end

--- Saves the models of a step and drops the optimizer states of older ones.
---@async
function Run:checkpoint(stage, step, models)
  for _, role in ipairs { "actor", "critic" } do
    if models[role] then
      assert(models[role]:save(self:checkpoint_folder(stage, step, role), { step = step }))
      if step > 1 and not self:keeps(step - 1) then
        fs.remove_tree(self:checkpoint_folder(stage, step - 1, role))
      end
    end
  end
  assert(self.store:put("state", stage .. " step", { step = step }))
end

--- Whether a step is validated; its actor stays, since tables use the last validation before a collapse.
---@param step integer
---@return boolean
function Run:keeps(step)
  local every = self.config.validate.every
  return every > 0 and step % every == 0
end

--- Loads the newest checkpoint of a stage into the models; the step it belongs to, 0 for none.
---@async
---@return integer
function Run:restore(stage, models)
  local state = self.store:get("state", stage .. " step")
  if not state then
    return 0
  end
  for _, role in ipairs { "actor", "critic" } do
    if models[role] then
      assert(models[role]:load(self:checkpoint_folder(stage, state.step, role)))
    end
  end
  return state.step
end

--- Tasks of one split, as the filter kept them.
---@param split string
---@return table[]
function Run:tasks(split)
  local list = {}
  for _, row in ipairs(assert(self.store:list("tasks", { where = { split = split, status = "kept" } }))) do
    list[#list + 1] = { id = row.id, name = row.name, source = row.source, graph = row.graph, family = row.family,
      timed = row.timed, compile_cache = row.compile_cache }
  end
  table.sort(list, function(a, b) return a.id < b.id end)
  return list
end

--- What a policy is trained on: timed tasks and drills.
---@return table[]
function Run:training()
  local list = self:tasks("train")
  for _, task in ipairs(self:tasks("drill")) do
    list[#list + 1] = task
  end
  return list
end

function Run:close(status)
  if self.judging then
    self.judging:close()
  end
  self.store:finish(status)
  self.store:close()
end

--- What a stage's file returns: a recipe of its own that works on a run which exists.
---@param stage {name: string, summary: string, execute: fun(run: table): table}
---@return table
function pipeline.standalone(stage)
  stage.run = function(list)
    local about = { name = "recipes/stages/" .. stage.name .. ".lua", summary = stage.summary }
    local options = args.parse(pipeline.OPTIONS, list, about)
    if options.plan then
      log.print(require("lib.plan").text(config.plain(load_config(options)), stage.name))
      return 0
    end
    local self = pipeline.open(options, about.name)
    if self:result(stage.name) then
      args.misuse(("stage %s of this run is finished; `khost show` prints it"):format(stage.name))
    end
    self:stage(stage)
    self:close("done")
    return 0
  end
  return stage
end

return pipeline
