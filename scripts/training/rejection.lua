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

return rejection
