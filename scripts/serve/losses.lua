-- Whose fault it is that judges were lost with a job. A node that is silent for its lease counts as dead, and a
-- candidate with which two died ends judges. But a network may have been silent instead: a node that comes back with
-- the identity that it had was not dead. A judge that a candidate ended starts again with another identity.

local losses = {}

local Losses = {}
Losses.__index = Losses

local MOST_LOSSES = 2
local MOST_BEGUN = 4      -- losses of one job, with those by nodes that came back
local MOST_GIVEN = 20     -- times that a job is handed out, begun or not
local HELD_LEASES = 3     -- for which a silent node may still come back before the candidate is blamed

---@param lease_s number
---@return table
function losses.new(lease_s)
  return setmetatable({ held_s = HELD_LEASES * lease_s, silent = {}, held = {} }, Losses)
end

--- A job that nobody has lost yet.
---@param job table   id, kind, body, done, since, order
---@return table
function losses.job(job)
  job.lost_by, job.returned_by, job.silent = {}, {}, {}
  job.losses, job.back, job.given = 0, 0, 0
  return job
end

--- Counts the loss of a job that its node had begun.
---@param job table
---@param node string
---@param silent boolean   nothing is known of the node but that it is silent
function Losses:add(job, node, silent)
  job.losses, job.lost_by[node] = job.losses + 1, true
  job.alone = job.alone or not job.broken
  if silent then
    job.silent[node] = true
    self.silent[node] = self.silent[node] or {}
    self.silent[node][job] = true
  end
end

--- How a job that was lost ends: "crash"; "lost", by which nothing is said; "void", which blames nobody; "held", where
--- a silent node may still come back. nil: another node gets it.
---@param job table
---@return "crash"|"lost"|"void"|"held"|nil
function losses.ending(job)
  if job.given >= MOST_GIVEN or job.losses + job.back >= MOST_BEGUN then
    return "void"
  elseif job.losses < MOST_LOSSES then
    return nil
  elseif job.broken or job.back > 0 then
    return "void"
  elseif job.kind ~= "evaluate" then
    return "lost"
  end
  return next(job.silent) and "held" or "crash"
end

--- Keeps a job until its silent nodes have come back, or had the time for it.
---@param job table
---@param now number
---@param why string
function Losses:hold(job, now, why)
  job.node, job.since, job.why = nil, now, why
  self.held[job] = true
end

--- The jobs whose nodes did not come back in time.
---@param now number
---@return table[]
function Losses:due(now)
  local list = {}
  for job in pairs(self.held) do
    list[#list + 1] = now - job.since > self.held_s and job or nil
  end
  return list
end

--- A node that is not known any more says something: what was lost by its silence was not lost by its death. The jobs
--- that waited for that.
---@param node string
---@return table[] waited
function Losses:come_back(node)
  local waited = {}
  for job in pairs(self.silent[node] or {}) do
    job.losses, job.back, job.silent[node] = job.losses - 1, job.back + 1, nil
    waited[#waited + 1] = self.held[job] and job or nil
  end
  self.silent[node] = nil
  return waited
end

--- A job that has ended, or that nobody wants any more.
---@param job table
function Losses:forget(job)
  self.held[job] = nil
  for node in pairs(job.silent) do
    local jobs = self.silent[node]
    jobs[job] = nil
    self.silent[node] = next(jobs) and jobs or nil
  end
end

return losses
