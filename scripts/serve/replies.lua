-- What the service answers when there is nothing to give: refusals and failures, each with a status, a short stable
-- word and a sentence for people.

local answers = require "serve.answers"
local gate = require "serve.gate"

local replies = {}

replies.JSON = "application/json"
replies.VOID_RETRY_S = 5   -- until a judge that died stands again

-- Statuses of what is wrong with a body, by the code of whoever read it.
local BODY = { bad_input = 400, no_task = 404, no_right = 403, limit = 413, timeout = 408, gone = 400,
  busy = 503 }

-- What the queue says about a request that had no turn.
local NO_TURN = { turn_gone = { 400, "half_closed" }, turn_busy = { 429, "busy" }, turn_limit = { 429, "waiting" },
  turn_quota = { 429, "quota" } }

--- An answer made of a refusal of the gate.
---@param refusal table   gate.refusal
---@return table
function replies.refused(refusal)
  return { status = refusal.status, type = replies.JSON, body = answers.failure(refusal.code, refusal.message),
    headers = refusal.headers }
end

--- A failure.
---@param status integer
---@param code string
---@param message string
---@param retry_s? number   when to come back, in seconds
---@return table
function replies.failed(status, code, message, retry_s)
  return replies.refused(gate.refusal(status, code, message, retry_s and { ["retry-after"] = tostring(retry_s) }
    or nil))
end

--- A body that could not be taken.
---@param code string   of serve.bodies or of serve.request
---@param message string
---@return table
function replies.bad_body(code, message)
  return replies.failed(BODY[code] or 400, code, message, code == "busy" and replies.VOID_RETRY_S or nil)
end

--- The answer to a request that had no turn, or to which the judge had no answer.
---@param message string|nil
---@param code string|nil   of serve.turns
---@param retry_s number    seconds after which a turn may be had
---@return table
function replies.unanswered(message, code, retry_s)
  local status, word = unpack(NO_TURN[code] or { 503, "void" })
  local seconds = status == 503 and replies.VOID_RETRY_S or status == 429 and retry_s or nil
  return replies.failed(status, word, message or "the judge had no answer", seconds)
end

return replies
