-- The paper's robust reward (section 3.2): milestones instead of ratios, so that an easy operator cannot outweigh
-- a hard one. `verdict.faster` already holds the test b(t, t0) = (t0 - t) / t0 > 5 %, decided by the judge.

local terms = require "rewards.terms"
local verdicts = require "judge.verdict"

local function score(episode)
  local verdict, why = terms.verdict(episode)
  if not verdict then
    return nil, why
  end
  if not verdicts.passed(verdict) then
    return -1, { correct = 0, eager = 0, compile = 0 }
  end
  local faster = terms.faster(verdict)
  local eager = faster.eager and 1 or 0
  -- Faster than torch.compile counts only together with faster than eager.
  local compile = faster.eager and faster.compile and 1 or 0
  return 1 + eager + compile, { correct = 1, eager = eager, compile = compile }
end

return {
  name = "milestone",
  range = { -1, 3 },
  score = score,
}
