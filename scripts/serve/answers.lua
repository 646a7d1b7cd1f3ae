-- What a client is told of a verdict. Without the right to evidence nothing that happened on secret sets is in it: an
-- element that was wrong, its value, seeds and samples would make a verdict an oracle for whoever may ask again.

local json = require "khost.json"
local verdicts = require "judge.verdict"

local answers = {}

local VISIBLE = { "status", "stage", "reason", "correct", "rules", "own_share", "speed", "speed_reason",
  "times", "speedup", "faster", "slack_s" }
-- Stages before anything secret is drawn: what they say is of the candidate's own text, or of the task's.
local OPEN_STAGES = { task = true, build = true, plan = true }

--- A verdict as this client may see it.
---@param verdict table
---@param rights table<string, true>
---@return table
function answers.verdict(verdict, rights)
  if rights.evidence then
    return verdict
  end
  local seen = {}
  for _, field in ipairs(VISIBLE) do
    seen[field] = verdict[field]
  end
  seen.detail = OPEN_STAGES[verdict.stage] and verdict.detail or verdicts.row(verdict).sentence
  seen.evidence = { tolerance = (verdict.evidence or {}).tolerance }
  return seen
end

--- The body of an answer to POST /v1/verdict.
---@param judged {verdict: table, reward?: number, why?: string, parts?: table, scheme: string, script_hash?: string}
---@param rights table<string, true>
---@return string
function answers.body(judged, rights)
  return json.encode { reward = judged.reward or json.null, reason = judged.why or json.null, parts = judged.parts,
    scheme = judged.scheme, script_hash = judged.script_hash, task = judged.task,
    verdict = answers.verdict(judged.verdict, rights) } .. "\n"
end

--- The body of a refusal.
---@param code string
---@param message string
---@return string
function answers.failure(code, message)
  return json.encode { error = { code = code, message = message } } .. "\n"
end

return answers
