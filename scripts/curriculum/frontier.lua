-- Tasks that are neither mastered nor hopeless come more often: where rewards of the same task differ, group advantages
-- are not zero and something is learnt. Difficulty counts until a task was played: shallow stacks first.

local LEAST = 0.1        -- of the weight of the most useful task: nothing is forgotten
local UNPLAYED = 1       -- a task that was never played is worth as much as one on the frontier
local DEPTH_DISCOUNT = 0.7  -- of an unplayed task, for each operator beyond the first

local function spread(rewards, low, high)
  local sum, squares = 0, 0
  for _, reward in ipairs(rewards) do
    local share = (reward - low) / (high - low)
    sum, squares = sum + share, squares + share * share
  end
  local mean = sum / #rewards
  -- Of the greatest that rewards between low and high can have, which is a quarter.
  return math.min(1, 4 * math.max(0, squares / #rewards - mean * mean)), mean
end

return {
  name = "frontier",

  -- task: {depth?}. seen: {rewards = the latest ones, range = {low, high}}.
  weight = function(task, seen)
    if #seen.rewards == 0 then
      return UNPLAYED * DEPTH_DISCOUNT ^ ((task.depth or 1) - 1)
    end
    local low, high = seen.range[1], seen.range[2]
    local deviation, mean = spread(seen.rewards, low, high)
    -- Half for how much rewards differ, half for how far the mean is from either end.
    return math.max(LEAST, 0.5 * deviation + 0.5 * 4 * mean * (1 - mean))
  end,
}
