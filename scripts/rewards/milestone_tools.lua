-- The milestone reward with an incentive to use several tools: a right candidate earns BONUS more where at least WANTED
-- different tools were called as they are declared. A departure from the paper, for a second run beside one without it;
-- tables score every model by the milestone reward alone.

local milestone = require "rewards.milestone"
local watch = require "training.watch"

local WANTED, BONUS = 4, 0.1

local function score(episode)
  local total, parts = milestone.score(episode)
  if not total then
    return nil, parts
  end
  local used = watch.calls({ episode }).tools_used
  parts.tools = total > 0 and used >= WANTED and BONUS or 0
  return total + parts.tools, parts
end

return {
  name = "milestone_tools",
  range = { -1, 3 + BONUS },
  score = score,
}
