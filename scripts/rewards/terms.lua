-- Building blocks of reward schemes: reading a verdict, and named terms for `rewards.schedule{ {term, weight}, … }`.
-- Every term returns nil and a reason when the episode must not be scored.

local verdicts = require "judge.verdict"

local terms = {}

--- The verdict of an episode that may be scored.
---@param episode table
---@return table|nil verdict, string? reason
function terms.verdict(episode)
  local verdict = episode.verdict
  if not verdict then
    return nil, "the episode has no verdict"
  end
  local scored, why = verdicts.scored(verdict)
  return scored and verdict or nil, why
end

--- Which baselines it beat by more than 5 %; none where the speed is unresolved.
---@param verdict table
---@return {eager: boolean, compile: boolean}
function terms.faster(verdict)
  return { eager = verdicts.is_faster(verdict, "eager"), compile = verdicts.is_faster(verdict, "compile") }
end

--- How many times faster than a baseline, or nil when it is not correct or that was not measured.
---@param verdict table
---@param baseline "eager"|"compile"
---@return number|nil
function terms.speedup_over(verdict, baseline)
  return verdicts.speedup(verdict, baseline)
end

local function of_verdict(name, fn)
  return {
    name = name,
    score = function(episode)
      local verdict, why = terms.verdict(episode)
      if not verdict then
        return nil, why
      end
      return fn(verdict, episode)
    end,
  }
end

--- 1 when correct, else -1.
terms.correct = of_verdict("correct", function(verdict)
  return verdicts.passed(verdict) and 1 or -1
end)

--- 1 when it compiled, else 0: a foothold for models that cannot yet write code.
terms.builds = of_verdict("builds", function(verdict)
  local status = verdicts.row(verdict).word
  return (status == "build_failed" or status == "violation") and 0 or 1
end)

--- Natural logarithm of the speed-up over torch.compile, between -2 and 2; 0 when not correct or not timed.
terms.log_speedup = of_verdict("log_speedup", function(verdict)
  local speedup = terms.speedup_over(verdict, "compile")
  if not speedup or speedup <= 0 then
    return 0
  end
  return math.max(-2, math.min(2, math.log(speedup)))
end)

--- Minus one for each turn beyond the first, as a small price of wandering.
terms.turns = of_verdict("turns", function(_, episode)
  local turns = type(episode.turns) == "table" and #episode.turns or episode.turn_count or 1
  return -math.max(0, turns - 1)
end)

return terms
