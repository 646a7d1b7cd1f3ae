-- Building blocks of reward schemes: reading a verdict, and named terms for `rewards.schedule{ {term, weight}, … }`.
-- Every term returns nil and a reason when the episode must not be scored.

local terms = {}

-- What a candidate is answerable for. Whatever is not listed (void, bad_task) voids the episode.
local SCORED = {
  ok = true, build_failed = true, wrong = true, crash = true, timeout = true, oom = true, policy = true,
  suspect = true,
}

--- The verdict of an episode that may be scored.
---@param episode table
---@return table|nil verdict, string? reason
function terms.verdict(episode)
  local verdict = episode.verdict
  if not verdict then
    return nil, "the episode has no verdict"
  end
  if not SCORED[verdict.status] then
    return nil, ("verdict is %s: %s"):format(tostring(verdict.status), verdict.reason or "no reason")
  end
  return verdict
end

--- Which baselines it beat by more than 5 %. A suspect verdict is below what the hardware can do: correct for all we
--- know, but never rewarded for speed.
---@param verdict table
---@return {eager: boolean, compile: boolean}
function terms.faster(verdict)
  local faster = verdict.status ~= "suspect" and verdict.faster or {}
  return { eager = faster.eager == true, compile = faster.compile == true }
end

--- How many times faster than a baseline, or nil when that was not measured.
---@param verdict table
---@param baseline "eager"|"compile"
---@return number|nil
function terms.speedup_over(verdict, baseline)
  if verdict.status == "suspect" then
    return nil
  end
  local speedup = verdict.speedup and verdict.speedup[baseline]
  if speedup then
    return speedup
  end
  local times = verdict.times or {}
  if times.candidate_s and times.candidate_s > 0 and times[baseline .. "_s"] then
    return times[baseline .. "_s"] / times.candidate_s
  end
  return nil
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
  return verdict.correct and 1 or -1
end)

--- 1 when it compiled, else 0: a foothold for models that cannot yet write code.
terms.builds = of_verdict("builds", function(verdict)
  return (verdict.status == "build_failed" or verdict.status == "policy") and 0 or 1
end)

--- Natural logarithm of the speed-up over torch.compile, between -2 and 2; 0 when not correct or not timed.
terms.log_speedup = of_verdict("log_speedup", function(verdict)
  local speedup = verdict.correct and terms.speedup_over(verdict, "compile")
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
