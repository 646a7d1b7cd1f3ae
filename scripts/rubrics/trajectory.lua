-- Which trajectories are worth imitating: the paper's outcome filter (R > 0) and pattern filter (loops, calls that
-- violate a schema), each with a named reason and what shows it.

local verdicts = require "judge.verdict"

local rubric = {}

rubric.DEFAULTS = {
  reward_above = 0,
  limits = { turn_limit = false, token_limit = true, time_limit = true, cut = true, invalid_calls = true,
    stuck = true, env_error = true },   -- true: an episode that ended so is dropped
}

-- In this order; the first that applies is the reason.
local PATTERNS = {
  { label = "repeat_call", reason = "repeat_call" },
  { label = "repeat_error", reason = "repeat_error" },
  { label = "ping_pong", reason = "ping_pong" },
  { label = "unknown_tool", reason = "schema_unknown_tool" },
  { label = "bad_arguments", reason = "schema_bad_args" },
  { label = "missing_field", reason = "schema_bad_args" },
  { label = "extra_field", reason = "schema_bad_args" },
  { label = "wrong_type", reason = "schema_bad_args" },
  { label = "wrong_enum", reason = "schema_bad_args" },
  { label = "malformed_call", reason = "malformed_call" },
  { label = "write_refused", reason = "violation" },
}

local FORMAT = { "no_block", "no_path", "bad_path", "duplicate_path", "nested_fence", "unclosed", "cut", "empty_file" }

local function without_calls(trajectory)
  local count = 0
  for _, turn in ipairs(trajectory.turns or {}) do
    count = turn.tool and 0 or count + 1
    if count >= 3 then
      return true
    end
  end
  return false
end

-- The last thing that was written was never found right by the agent. Answers that are files are verified at once; with
-- tools the host says after which turns the files were ones that a verification of the agent had found right.
local function unverified(trajectory)
  local last, open
  for _, turn in ipairs(trajectory.turns or {}) do
    last = turn.tool == "files" and turn or last
    open = (open or turn.changes ~= nil) and not turn.verified
  end
  if last then
    return last.status == "failed"
  end
  return open == true
end

--- Whether to keep a trajectory; if not, the reason.
---@param trajectory table   as stored, with reward, status (its ending), labels, turns
---@param options? table     rubric.DEFAULTS
---@return boolean keep, string|nil reason
function rubric.keep(trajectory, options)
  options = options or rubric.DEFAULTS
  if not trajectory.reward then
    return false, "void"
  elseif trajectory.reward <= (options.reward_above or 0) then
    return false, "reward_not_positive"
  end
  local labels = trajectory.labels or {}
  for _, pattern in ipairs(PATTERNS) do
    if labels[pattern.label] then
      return false, pattern.reason
    end
  end
  for _, label in ipairs(FORMAT) do
    if labels[label] then
      return false, "format_" .. label
    end
  end
  if trajectory.verdict and verdicts.row(trajectory.verdict).word == "violation" then
    return false, "violation"
  elseif (options.limits or {})[trajectory.status] then
    return false, "limit_hit"
  elseif without_calls(trajectory) then
    return false, "monologue"
  elseif unverified(trajectory) then
    return false, "no_final_check"
  end
  return true
end

return rubric
