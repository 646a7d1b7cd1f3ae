-- Episodes of the next step that begin while the last verdicts of this one come in. The weights before this step's
-- update draw them, so they are one step off the policy that learns from them: with ppo.old_logprobs = "sampler" their
-- ratios say so.
--
-- Nothing may be drawn while weights change, so `settle` lets no further episode begin and waits for the last token of
-- those that have begun. Their verdicts may come during the update.

local episode = require "agent.episode"
local sched = require "khost.sched"

local ahead = {}

local Ahead = {}
Ahead.__index = Ahead

--- Of one stage.
---@param limit integer   episodes at once, of both steps
---@return table
function ahead.open(limit)
  return setmetatable({ slots = sched.semaphore(limit), tasks = {} }, Ahead)
end

-- One episode; nil where it must be played again by its own step: it has not begun before the update, or it failed.
local function play(self, batch, setting, job)
  if batch.closed then
    return nil
  end
  batch.begun = batch.begun + 1
  local told = false
  local function tell()
    if not told then
      told = true
      batch.drawn:put(true)
    end
  end
  local own = setmetatable({ drawn = tell }, { __index = setting })
  local ok, record = pcall(episode.play, own, job.task, job.index)
  if not ok and record == sched.CANCELLED then
    error(record, 0)
  end
  tell()
  if not ok or episode.failed_through_us(record) then
    return nil
  end
  record.id = assert(setting.store:append("trajectories", record))
  return record
end

--- Lets episodes of the next step begin, behind all that wait for a slot already. What the store has is not played.
---@param setting Setting   of the next step
---@param jobs {task: table, index: integer}[]
function Ahead:begin(setting, jobs)
  local batch = { closed = false, begun = 0, drawn = sched.channel(math.max(1, #jobs)) }
  local known = #jobs > 0 and setting.store:trajectories(setting.stage, setting.step) or {}
  self.batch, self.tasks = batch, {}
  for _, job in ipairs(jobs) do
    if not known[job.index] then
      self.tasks[job.index] = sched.spawn(function()
        return self.slots:use(play, self, batch, setting, job)
      end)
    end
  end
end

--- Before an update: no further episode begins, and none of those that have draws any more.
---@async
function Ahead:settle()
  local batch = self.batch
  if batch then
    batch.closed = true
    for _ = 1, batch.begun do
      batch.drawn:take()
    end
    self.batch = nil
  end
end

--- The episodes that were begun for the step that is played now, to be waited for by their index. They are handed out
--- once.
---@return table<integer, khost.Task>
function Ahead:taken()
  local tasks = self.tasks
  self.tasks = {}
  return tasks
end

--- Ends what nobody will wait for: the stage ends before its last step.
function Ahead:close()
  for _, task in pairs(self:taken()) do
    task:cancel()
  end
end

return ahead
