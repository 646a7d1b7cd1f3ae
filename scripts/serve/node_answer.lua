-- What a judge on another machine answered, checked before anybody relies on it: its words become labels of metrics,
-- its seconds become a client's costs and quotas, and the whole becomes an answer to a client. What a judge says of a
-- candidate cannot be checked here; whether it is a judge's answer can.

local json = require "khost.json"
local verdicts = require "judge.verdict"

local node_answer = {}

local JUDGED = { evaluate = true, verify = true, profile = true }
local TEXTS = { "stage", "reason", "detail", "rules", "speed", "speed_reason", "text" }
local FLAGS = { "correct", "ok" }
local MOST_WORD = 200        -- bytes of what is a word
local WORDS = { stage = true, reason = true, rules = true, speed = true, speed_reason = true }
local MOST_SECONDS = 86400   -- of one step of one verdict

-- A number that may be added to others. JSON has neither NaN nor infinities, but 1e308 twice is one.
local function is_number(value, least, most)
  return type(value) == "number" and value >= least and value <= most
end

local function wrong_numbers(answer, name, least, most)
  local given = answer[name]
  if given ~= nil and type(given) ~= "table" then
    return name .. " is no object"
  end
  for key, value in pairs(given or {}) do
    if type(key) ~= "string" or #key > MOST_WORD or not is_number(value, least, most) then
      return ("%s holds what is no number from %g to %g"):format(name, least, most)
    end
  end
end

local function wrong_fields(answer)
  for _, name in ipairs(TEXTS) do
    local value = answer[name]
    if value ~= nil and (type(value) ~= "string" or WORDS[name] and #value > MOST_WORD) then
      return name .. " is no text of its length"
    end
  end
  for _, name in ipairs(FLAGS) do
    if answer[name] ~= nil and type(answer[name]) ~= "boolean" then
      return name .. " is neither true nor false"
    end
  end
  for _, name in ipairs { "evidence", "faster" } do
    if answer[name] ~= nil and type(answer[name]) ~= "table" then
      return name .. " is no object"
    end
  end
  local evidence = answer.evidence or {}
  if evidence.exclusive_s ~= nil and not is_number(evidence.exclusive_s, 0, MOST_SECONDS) then
    return "evidence.exclusive_s is no time"
  elseif evidence.artefact_hash ~= nil and type(evidence.artefact_hash) ~= "string" then
    return "evidence.artefact_hash is no text"
  end
end

--- What is wrong with an answer; nil for one that a judge may give.
---@param kind string     of the request
---@param answer table
---@return string|nil
function node_answer.wrong(kind, answer)
  -- It is written again for the client, for whom it may be nested as deep as the encoder goes, below two levels.
  local ok, message = pcall(json.encode, { { answer } })
  if not ok then
    return tostring(message)
  elseif not JUDGED[kind] then
    return nil
  elseif type(answer.status) ~= "string" or not verdicts.STATUS_OF[answer.status] then
    return "status is none of a judge's"
  elseif kind == "evaluate" and (type(answer.evidence) ~= "table" or type(answer.stage) ~= "string") then
    return "a verdict needs a stage and evidence"
  end
  return wrong_fields(answer) or wrong_numbers(answer, "wall_s", 0, MOST_SECONDS)
    or wrong_numbers(answer, "times", 0, MOST_SECONDS) or wrong_numbers(answer, "speedup", 0, 1e9)
end

return node_answer
