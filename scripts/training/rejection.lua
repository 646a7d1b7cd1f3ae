-- Sorts trajectories by a rubric (scripts/rubrics/NAME.lua), and counts what the filter costs.

local rejection = {}

--- Reasons by reward, for a reader who asks what the filter costs. What is dropped gets its reason as `drop_reason`.
---@param trajectories table[]
---@param keep fun(trajectory: table): boolean, string?   a rubric's
---@return table[] kept, table[] dropped, table<string, table<string, integer>> by_reason
function rejection.sort(trajectories, keep)
  local kept, dropped, by_reason = {}, {}, {}
  for _, trajectory in ipairs(trajectories) do
    local good, reason = keep(trajectory)
    local list = good and kept or dropped
    list[#list + 1] = trajectory
    if not good then
      trajectory.drop_reason = reason
      local level = tostring(trajectory.reward or "void")
      by_reason[reason] = by_reason[reason] or {}
      by_reason[reason][level] = (by_reason[reason][level] or 0) + 1
    end
  end
  return kept, dropped, by_reason
end

--- Which turns of a trajectory are worth imitating: not one that was invalid or failed, and none that left files which
--- the agent's own verification refuted later. What such a turn was followed by may be worth learning, it is not.
---@param turns table[]   as stored
---@return boolean[]
function rejection.good_turns(turns)
  local refuted, good = {}, {}
  for _, turn in ipairs(turns) do
    refuted[turn.workspace or ""] = turn.verified == false or refuted[turn.workspace or ""]
  end
  for index, turn in ipairs(turns) do
    local wrong = turn.changes ~= nil and turn.workspace ~= nil and refuted[turn.workspace]
    good[index] = not wrong and turn.status ~= "failed" and turn.status ~= "invalid" and turn.status ~= "error"
  end
  return good
end

return rejection
