-- The paper's ablation "without robust reward" (section 4.3.2): the raw speed-up over torch.compile, -1 when the
-- candidate is not correct.

local terms = require "rewards.terms"
local verdicts = require "judge.verdict"

local function score(episode)
  local verdict, why = terms.verdict(episode)
  if not verdict then
    return nil, why
  end
  if not verdicts.passed(verdict) then
    return -1, { speedup = 0 }
  end
  local speedup = terms.speedup_over(verdict, "compile")
  if not speedup or verdict.speed == "unresolved" then
    return nil, ("correct, but the speed over torch.compile is %s"):format(speedup and "unresolved" or "not measured")
  end
  return speedup, { speedup = speedup }
end

return {
  name = "speedup",
  -- A ratio has no natural top; beyond this one a verdict is more likely wrong than fast.
  range = { -1, 1000 },
  score = score,
}
