-- The speed-up over torch.compile, but at most CLIP, so that one easy operator cannot outweigh the others; -1 when the
-- candidate is not correct.

local speedup = require "rewards.speedup"

local CLIP = 3

local function score(episode)
  local total, parts = speedup.score(episode)
  return total and math.min(total, CLIP), parts
end

return {
  name = "clipped_speedup",
  range = { -1, CLIP },
  score = score,
}
