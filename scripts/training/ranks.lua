-- The processes that train one run together. Rank 0 plays, judges, keeps the store and the console; the others hold the
-- same models and the same batches, and pass over their part of each. What rank 0 does to a model or a batch
-- (training.trainer) it tells them, and they do it too (training.follow).
--
-- Rank 0 starts the others itself, on this machine, or joins those that torchrun or srun started beside it.

local args = require "lib.args"
local fs = require "khost.fs"
local json = require "khost.json"
local log = require "khost.log"
local machine = require "khost.machine"
local sched = require "khost.sched"
local trainer = require "khost.trainer"

local ranks = {}

local STILL_S = 60       -- between two words of rank 0: an exchange may wait for ten minutes, an episode takes longer
local NAMED_S = 5        -- until the process whose end an exchange saw first has been looked after
local FOREVER_S = 1e9
local FOLLOWER = "/scripts/training/rank.lua"

local Group = {}
Group.__index = Group

local group  -- what this process leads

-- Ends the program without a traceback, which says nothing about a process that is gone.
local function leave(code, text)
  error(setmetatable({ exit = code, message = text }, { __tostring = function() return text end }), 0)
end

local function number_of(name)
  return tonumber(fs.env(name) or "")
end

--- Whether a launcher started this process as one of several. A batch script of Slurm itself is no such process.
---@return boolean
function ranks.launched()
  local size = fs.env "RANK" and number_of "WORLD_SIZE" or fs.env "SLURM_STEP_ID" and fs.env "SLURM_PROCID"
    and number_of "SLURM_NTASKS"
  return size ~= nil and size > 1
end

-- Cards of this machine that this process may use.
local function cards()
  local visible, count = fs.env "CUDA_VISIBLE_DEVICES", 0
  for _, name in ipairs(not visible and fs.list "/dev" or {}) do
    count = count + (name:match "^nvidia%d+$" and 1 or 0)
  end
  for _ in (visible or ""):gmatch "[^,]+" do
    count = count + 1
  end
  return count
end

--- What keeps so many ranks from training on this machine.
---@param count integer
---@param device "cpu"|"cuda"
---@return string|nil
function ranks.problem(count, device)
  if count < 1 or count % 1 ~= 0 then
    return ("machine.ranks is %s, expected a whole number from 1"):format(tostring(count))
  elseif device == "cuda" and count > 1 and not ranks.launched() and cards() < count then
    return ("machine.ranks is %d, and this machine shows %d cards; each rank needs its own"):format(count, cards())
  end
end

--- What this process leads, or nil: then it trains alone.
---@return table|nil
function ranks.current()
  return group
end

local function lead(joined, here)
  group = setmetatable({ size = joined.size, here = here, lock = sched.semaphore(1), names = 0, known = {},
    alive = setmetatable({}, { __mode = "v" }), fallen = sched.channel(joined.size + 1) }, Group)
  return group
end

local function start_still(self)
  sched.detach("ranks", function()
    while not self.loss do
      sched.sleep(STILL_S)
      local ok, message = pcall(self.together, self, { op = "still" })
      if message == sched.CANCELLED then
        error(message, 0)
      elseif not ok then
        self:lose(message)
      end
    end
  end)
end

--- Joins the ranks that a launcher started beside this process, if one did. On another rank than the first it returns
--- when the run is over, by leaving the program.
---@async
---@param count integer   what the user asked for; 0: as many as there are
---@return table|nil
function ranks.join(count)
  if group or not ranks.launched() then
    return group
  end
  local joined = assert(trainer.ranks { whole = true })
  if count > 0 and count ~= joined.size then
    args.misuse(("--ranks %d, but the launcher started %d processes; leave --ranks away"):format(count, joined.size))
  elseif joined.rank > 0 then
    require("training.follow").run()
    leave(0, ("rank %d of %d: the run is over"):format(joined.rank, joined.size))
  end
  local self = lead(joined, number_of "LOCAL_WORLD_SIZE" or number_of "SLURM_NTASKS_PER_NODE" or joined.size)
  start_still(self)
  return self
end

-- The end of a process of ours as a sentence.
local function how_ended(rank, size, ended, message)
  local who = ("rank %d of %d"):format(rank, size)
  if not ended then
    return ("%s: %s"):format(who, message)
  elseif ended.code > 128 then
    return ("%s was killed by signal %d"):format(who, ended.code - 128)
  end
  return ("%s ended with code %d: %s"):format(who, ended.code, ended.output:match "khost: ([^\n]*)"
    or ended.output:match "([^\n]*)%s*$")
end

local function start_process(rank, size, port, fallen)
  sched.detach(("rank %d"):format(rank), function()
    local ended, message = machine.run({ fs.build_dir() .. "/khost", fs.root() .. FOLLOWER, tostring(rank),
      tostring(size), tostring(port) }, { timeout_s = FOREVER_S, output_bytes = 1e6 })
    fallen(how_ended(rank, size, ended, message))
  end)
end

--- Starts the other ranks on this machine, each with a card of its own where models are kept on cards, and joins them.
---@async
---@param count integer
---@param device "cpu"|"cuda"
---@return table|nil   nil where one rank is enough
function ranks.start(count, device)
  if group or count == 1 then
    return group
  end
  local problem = ranks.problem(count, device)
  if problem then
    args.misuse(problem)
  end
  local self = lead({ size = count }, count)
  self.started = true
  local port = trainer.free_port()
  for rank = 1, count - 1 do
    start_process(rank, count, port, function(message) self:lose(message) end)
  end
  self:guard(function()
    return assert(trainer.ranks { rank = 0, size = count, port = port, whole = true })
  end)
  start_still(self)
  log.print(("%d ranks share each update"):format(count))
  return self
end

--- Threads of tensor work of each rank, of those that a machine gives them all.
---@param threads? integer   all cores when absent
---@return integer
function Group:threads(threads)
  return math.max(1, math.floor((threads or machine.facts().cores or 1) / self.here))
end

--- A number by which all ranks know an object of this one.
---@param object table
---@return integer
function Group:name(object)
  self.names = self.names + 1
  self.alive[self.names], self.known[self.names] = object, true
  return self.names
end

-- Objects that nothing here holds any more.
local function forgotten(self)
  local list = {}
  for id in pairs(self.known) do
    if not self.alive[id] then
      list[#list + 1], self.known[id] = id, nil
    end
  end
  return list
end

--- Tells the other ranks what to do and does `work` at the same time, since what they do waits for it.
---@async
---@param command table   of training.follow
---@param work? fun(): ...
---@return any ...   of work
function Group:together(command, work)
  return self.lock:use(function()
    local gone = forgotten(self)
    command.forget = #gone > 0 and gone or nil
    assert(trainer.tell(json.encode(command)))
    if work then
      return work()
    end
  end)
end

--- A rank is gone: what runs under `guard` ends.
---@param message string
function Group:lose(message)
  if not self.loss then
    self.loss = ("%s; the run ends here, and --resume goes on with it"):format(message)
    self.fallen:put(self.loss)
  end
end

--- Does something that ends with the first rank that is gone, by an error that names it.
---@async
---@param fn fun(...): any
---@return any
function Group:guard(fn, ...)
  if self.loss then
    leave(1, self.loss)
  end
  local given, count, raised = { ... }, select("#", ...), nil
  local function work()
    local ok, result = pcall(fn, unpack(given, 1, count))
    if not ok then
      raised = result  -- as it is: a race hands on its text
      error(result, 0)
    end
    return result
  end
  local ok, reason, result = pcall(sched.race, { work, function() error(self.fallen:take(), 0) end })
  if ok then
    return result
  end
  raised = raised or reason
  if raised ~= sched.CANCELLED and not self.loss and tostring(raised):find("another rank is gone", 1, true) then
    -- An exchange sees the end of a process before that has been looked after; those of a launcher are its own.
    if self.started then
      sched.timeout(NAMED_S, self.fallen.take, self.fallen)
    else
      self.loss = ("%s; the launcher says which, and --resume goes on with the run"):format(tostring(raised))
    end
  end
  if self.loss then
    leave(1, self.loss)
  end
  error(raised, 0)
end

--- There is nothing to do for the other ranks: when this process ends now, nothing is wrong.
---@async
function Group:rest()
  if not self.loss then
    self:together { op = "rest" }
  end
end

return ranks
