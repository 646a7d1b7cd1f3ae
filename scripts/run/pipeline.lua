-- A run of recipes: configuration, store, judge, reward and models, shared by the stages. A stage that the store says
-- is finished is not run again; a run that was killed goes on where it was.

local args = require "lib.args"
local config = require "khost.config"
local fs = require "khost.fs"
local client = require "judge.client"
local live = require "run.live"
local ledger = require "training.ledger"
local log = require "khost.log"
local plan = require "run.plan"
local reward = require "run.reward"
local runs = require "run.runs"
local sched = require "khost.sched"
local share = require "run.share"
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
  { name = "--ranks", kind = "number", default = 0, help = "processes that share each update; 0: machine.ranks" },
  { name = "--plan", kind = "flag", help = "print stages, verdicts, tokens, minutes and disk, and run nothing" },
}

-- Of runs that train on a plan.
local OF_TRAINING = { ["--ranks"] = true, ["--plan"] = true }

--- A recipe's own options, and those of every run but `--ranks` and `--plan`: for recipes that train nothing, and whose
--- cost no preset tells.
---@param own table[]
---@return table[]
function pipeline.with_run_options(own)
  local list = { unpack(own) }
  for _, option in ipairs(pipeline.OPTIONS) do
    if not OF_TRAINING[option.name] then
      list[#list + 1] = option
    end
  end
  return list
end

local function load_config(options)
  local set = { unpack(options.set) }
  if (options.ranks or 0) ~= 0 then
    set[#set + 1] = ("machine.ranks=%g"):format(options.ranks)
  end
  local c, message = config.load { preset = options.preset, set = set }
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
  local record = assert(store.create(root, { name = options.preset:match("([^/]+)$"):gsub("%.toml$", ""),
    recipe = recipe, preset = options.preset, seed = options.seed, config = config.plain(c) }))
  -- What was expected stands in the run before it begins. A preset that no plan is made of has no unit costs.
  local merged = config.plain(c)
  if merged.plan then
    assert(record:put("state", "plan", plan.seconds(merged)))
  end
  return record
end

--- Opens the run that the options name, or a new one.
---@async
---@param options table   what args.parse made of pipeline.OPTIONS; a recipe without `ranks` trains nothing
---@param recipe string
---@param judging? table   judge.client; one is opened when absent
---@return table
function pipeline.open(options, recipe, judging)
  local c = load_config(options)
  share.join(options, c)
  local record = open_store(options, recipe, c)
  local info = record:info()
  local self = setmetatable({ store = record, config = info.config, seed = info.seed, folder = record:folder(),
    models = {} }, Run)
  assert(log.open { folder = self.folder })
  sched.seed(self.seed)
  self.ranks = share.start(options, self.config.machine)
  local scheme, message = reward.open("rewards." .. self.config.reward.scheme, record)
  if not scheme then
    args.misuse(("reward.scheme %s: %s"):format(self.config.reward.scheme, message))
  end
  self.reward = scheme
  self.loop = assert(live.open("loop", "agent.loop", record, live.has_function "run"))
  local process, unavailable = judging, nil
  if not process then
    process, unavailable = client.open(self.config)
  end
  if not process then
    args.misuse(unavailable)
  end
  self.judging, self.ledger = process, ledger.new()
  log.print(("run %s"):format(self.folder))
  return self
end

--- Looks for changes of the scripts that may be edited during a run: the reward and the agent loop. Call once at the
--- beginning of a step.
---@param stage string
---@param step integer
---@return string hash   of the scripts that score this step
function Run:at_step(stage, step)
  self.loop:at_step(stage, step)
  return self.reward:at_step(stage, step)
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

--- A path of this run's folder, or one that a preset or an older run names, as a whole path.
---@param path string   "checkpoints/rft/actor"
---@return string
function Run:path(path)
  return path:match("^checkpoints/") and self.folder .. "/" .. path or path
end

-- Whether the models that a finished stage made are there. They are not where only the store was kept.
local function has_models(self, result)
  for _, role in ipairs { "actor", "critic" } do
    local path = result[role]
    if type(path) == "string" and path:match("^checkpoints/") and not fs.exists(self:path(path)) then
      return false
    end
  end
  return true
end

-- A finished stage whose models are missing: its updates are made again from the episodes that the store has, which
-- takes no sampling and no verdicts.
local function replay(self, stage, done)
  log.print(("== %s: finished before, its models are missing: replayed"):format(stage.name))
  self.replaying = true
  local made = self:execute(stage)
  self.replaying = nil
  self:written()
  for _, role in ipairs { "actor", "critic" } do
    if made[role] ~= done[role] then
      error(("stage %s: the replay made %s %s, the store names %s"):format(stage.name, role, tostring(made[role]),
        tostring(done[role])), 0)
    end
  end
  return done
end

--- What a stage makes of a run, which ends with the first rank that is gone.
---@async
---@param stage {execute: fun(run: table): table}
---@return table|nil
function Run:execute(stage)
  if self.ranks then
    return self.ranks:guard(stage.execute, self)
  end
  return stage.execute(self)
end

--- Whether a stage must end before its last step, so that what is planned for the stages behind it fits into
--- plan.minutes; never where the preset has no such limit.
---@param stage string
---@param steps integer   that it has made in this process
---@return boolean
function Run:late(stage, steps)
  local taken, here = {}, sched.now() - (self.stage_began or sched.now())
  for _, name in ipairs(plan.ORDER) do
    local done = self:result(name)
    taken[name] = done and done.seconds
  end
  local late, reckoned = plan.late(self.config, stage, taken, here, steps > 0 and here / steps or 0)
  if late then
    reckoned.stage = stage
    log.warn("stage_ends_early", reckoned)
  end
  return late
end

--- Runs a stage unless it is finished.
---@async
---@param stage {name: string, execute: fun(run: table): table}
---@return table result
function Run:stage(stage)
  local done = self:result(stage.name)
  if done and not has_models(self, done) then
    return replay(self, stage, done)
  elseif done then
    log.print(("== %s: finished before"):format(stage.name))
    return done
  end
  log.print("== " .. stage.name)
  self.store:begin_stage(stage.name)
  self.ledger:begin(self)
  local begin = sched.now()
  self.stage_began = begin
  local result = self:execute(stage) or {}
  self:written()
  result.seconds = sched.now() - begin
  result.spent = self.ledger:finish(self, result.seconds)
  local _, trouble = self.store:finish_stage(stage.name, result)
  if trouble then
    error(trouble, 0)
  end
  for _, tab in ipairs(result.tables or {}) do
    log.print("\n" .. tab.title .. "\n" .. tables.text(tab.columns, tab.rows))
  end
  log.print(("   %s in %s: %s\n"):format(stage.name, runs.duration(result.seconds), ledger.text(result.spent)))
  return result
end

-- Of one step of a stage, inside of the run's folder.
function Run:checkpoint_path(stage, step, role)
  return ("checkpoints/%s/%s-%d"):format(stage, role, step)
end

function Run:checkpoint_folder(stage, step, role)
  return self:path(self:checkpoint_path(stage, step, role))
end

-- Whether steps are kept as weights alone, of validated steps. Then a killed run makes the updates of its stage again
-- from stored episodes; moments of actor and critic would take several times the disk and the time.
local function weights_only(self)
  return self.config.model.checkpoint == "weights"
end

--- Saves the models of a step. With model.checkpoint = "moments" both with their optimizers, so that a killed run goes
--- on from there, and older optimizer states are dropped; with "weights" the actor of validated steps, written aside.
---@async
function Run:checkpoint(stage, step, models)
  if weights_only(self) then
    if self:keeps(step) then
      self:written()
      self.writing = sched.spawn(function()
        local begin = sched.now()
        assert(models.actor:save(self:checkpoint_folder(stage, step, "actor"), { step = step }, { optimizer = false }))
        self.ledger:add("writing", sched.now() - begin)
      end)
    end
    return
  end
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

--- Waits for the checkpoint that is being written aside, and raises what became of it.
---@async
function Run:written()
  local writing = self.writing
  self.writing = nil
  if writing then
    local _, failures = sched.wait { writing }
    if failures[1] then
      error(failures[1].message, 0)
    end
  end
end

--- Whether a step is validated; its actor stays, since tables use the last validation before a collapse.
---@param step integer
---@return boolean
function Run:keeps(step)
  local every = self.config.validate.every
  return every > 0 and step % every == 0
end

--- Loads the newest checkpoint of a stage into the models; the step it belongs to, 0 for none: then the updates of
--- earlier steps are made again from their stored episodes.
---@async
---@return integer
function Run:restore(stage, models)
  local state = not weights_only(self) and self.store:get("state", stage .. " step")
  if not state then
    return 0
  end
  for _, role in ipairs { "actor", "critic" } do
    local folder = self:checkpoint_folder(stage, state.step, role)
    if models[role] and not fs.exists(folder) then
      return 0
    end
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
  if self.ranks then
    self.ranks:rest()
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
      log.print(plan.text(config.plain(load_config(options)), stage.name))
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
