-- Which node of a pool gets which job. A job with which a node or its judge was lost is judged alone: its node works on
-- nothing else meanwhile, so that no other candidate can be the cause where a judge is lost again, and none is harmed.

local placing = {}

-- Whether a node may have a job: one that has not lost it, unless there is no other.
local function may_have(nodes, job, id)
  return not job.lost_by[id] or next(nodes, next(nodes)) == nil
end

--- How many jobs, or nodes, there are by id.
---@param by_id table<string, table>
---@return integer
function placing.count_of(by_id)
  local count = 0
  for _ in pairs(by_id) do
    count = count + 1
  end
  return count
end

-- Keeps a node free for a job that is judged alone: of those that may have it one that has not given it back, with as
-- few jobs as there are.
local function reserve(nodes, job)
  local best, least
  for id, node in pairs(nodes) do
    if node.only == job.id then
      return
    elseif not node.only and may_have(nodes, job, id) then
      local cost = placing.count_of(node.jobs) + (job.returned_by[id] and 1e6 or 0)
      if not best or cost < least or cost == least and node.order < best.order then
        best, least = node, cost
      end
    end
  end
  if best then
    best.only = job.id
  end
end

-- The place of the waiting node that gets a job; nil where none does now. One that has not given the job back is
-- better.
local function place_for(nodes, takers, job)
  local alone, second = job.alone, nil
  if alone then
    reserve(nodes, job)
  end
  for place, one in ipairs(takers) do
    local node = nodes[one.node]
    local free = not alone and not node.only or alone and node.only == job.id and next(node.jobs) == nil
    if free and may_have(nodes, job, one.node) then
      if not job.returned_by[one.node] then
        return place
      end
      second = second or place
    end
  end
  return second
end

--- Gives the jobs that wait to the nodes that do.
---@param pool table   serve.pool
function placing.hand(pool)
  local index = 1
  while index <= #pool.waiting do
    local job = pool.waiting[index]
    local place = place_for(pool.nodes, pool.takers, job)
    if place then
      local taker = table.remove(pool.takers, place)
      table.remove(pool.waiting, index)
      job.node, job.begun, job.given, job.missed, job.since = taker.node, false, job.given + 1, 0, pool.now()
      pool.nodes[taker.node].jobs[job.id] = job
      taker.job = job
      taker.turn:put(true)
    else
      index = index + 1
    end
  end
end

--- No node is kept free for a job any more.
---@param nodes table<string, {only?: string}>
---@param job table
function placing.release(nodes, job)
  for _, node in pairs(nodes) do
    node.only = node.only ~= job.id and node.only or nil
  end
end

return placing
