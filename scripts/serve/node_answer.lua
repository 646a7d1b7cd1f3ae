-- What a judge on another machine answered, checked before anybody relies on it: its words become labels of metrics,
-- its seconds become a client's costs and quotas, and the whole becomes an answer to a client. What a judge says of a
-- candidate cannot be checked here; whether it is a judge's answer can: whoever reads it later relies on the fields
-- that a judge always gives, and a faulty or older node may give others.

local json = require "khost.json"
local verdicts = require "judge.verdict"

local node_answer = {}

local JUDGED = { evaluate = true, verify = true, profile = true }
local TEXTS = { "stage", "reason", "detail", "rules", "speed", "speed_reason", "text" }
local FLAGS = { "correct", "ok" }
local NEEDED = { "stage", "reason", "detail", "correct", "speed", "speed_reason", "times", "speedup", "faster",
  "evidence", "wall_s" }
local NEEDED_BY_AGENTS = { "ok", "text" }
local SPEEDS = { none = true, measured = true, unresolved = true }
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
    if type(answer[name]) ~= "table" then
      return name .. " is no object"
    end
  end
  for _, decided in pairs(answer.faster) do
    if type(decided) ~= "boolean" then
      return "faster holds what is neither true nor false"
    end
  end
  local evidence = answer.evidence
  if evidence.exclusive_s ~= nil and not is_number(evidence.exclusive_s, 0, MOST_SECONDS) then
    return "evidence.exclusive_s is no time"
  end
  for _, name in ipairs { "artefact_hash", "tolerance" } do
    if evidence[name] ~= nil and type(evidence[name]) ~= "string" then
      return ("evidence.%s is no text"):format(name)
    end
  end
end

-- What rests on others: a verdict's flag on its status, a speed-up on its times.
local function wrong_relations(answer)
  if answer.correct ~= verdicts.passed(answer) then
    return "correct is not what the status says"
  elseif not SPEEDS[answer.speed] then
    return "speed is none of a judge's"
  elseif answer.own_share ~= nil and not is_number(answer.own_share, 0, 1) then
    return "own_share is no number from 0 to 1"
  elseif answer.slack_s ~= nil and not is_number(answer.slack_s, 0, MOST_SECONDS) then
    return "slack_s is no time"
  end
  for side in pairs(answer.speedup) do
    if not answer.times[side .. "_s"] or not answer.times.candidate_s then
      return "speedup has a side without its times"
    end
  end
end

local function wrong_verdict(kind, answer)
  if type(answer.status) ~= "string" or not verdicts.STATUS_OF[answer.status] then
    return "status is none of a judge's"
  end
  for _, list in ipairs { NEEDED, kind ~= "evaluate" and NEEDED_BY_AGENTS or {} } do
    for _, name in ipairs(list) do
      if answer[name] == nil then
        return ("%s is missing"):format(name)
      end
    end
  end
  return wrong_fields(answer) or wrong_numbers(answer, "wall_s", 0, MOST_SECONDS)
    or wrong_numbers(answer, "times", 0, MOST_SECONDS) or wrong_numbers(answer, "speedup", 0, 1e9)
    or wrong_relations(answer)
end

local function is_list_of(list, is_item)
  local count = 0
  for _, item in pairs(type(list) == "table" and list or {}) do
    count = count + 1
    if not is_item(item) then
      return false
    end
  end
  return type(list) == "table" and count == #list
end

local function is_table(value) return type(value) == "table" end

local function is_count(value) return is_number(value, 0, 1e18) end

local function is_tensor(fact)
  return type(fact) == "table" and type(fact.name) == "string" and type(fact.dtype) == "string"
    and is_list_of(fact.size, is_count)
end

-- Of a task that could not be tried without its memory the judge says why, and no shapes.
local function wrong_structure(structure)
  if structure.dry_run ~= nil then
    return type(structure.dry_run) ~= "string" and "structure.dry_run is no text" or nil
  end
  for _, name in ipairs { "inputs", "outputs" } do
    if not is_list_of(structure[name], is_tensor) then
      return ("structure.%s is no list of tensors"):format(name)
    end
  end
  for _, name in ipairs { "input_bytes", "state_bytes", "output_bytes", "flops", "operators" } do
    if not is_count(structure[name]) then
      return ("structure.%s is no number"):format(name)
    end
  end
end

local function wrong_check(facts)
  for _, name in ipairs { "structure", "run", "again", "compile", "failure" } do
    if facts[name] ~= nil and type(facts[name]) ~= "table" then
      return name .. " is no object"
    end
  end
  local failure, run = facts.failure, facts.run or {}
  if not failure and not facts.structure then
    return "a check needs structure or failure"
  elseif (run.eager_s ~= nil or run.cut_short) and not is_number(run.eager_s, 0, MOST_SECONDS) then
    return "run.eager_s is no time"
  end
  for _, name in ipairs(failure and { "stage", "code", "message" } or {}) do
    if type(failure[name]) ~= "string" then
      return ("failure.%s is no text"):format(name)
    end
  end
  return facts.structure and wrong_structure(facts.structure) or nil
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
  elseif JUDGED[kind] then
    return wrong_verdict(kind, answer)
  elseif kind == "check" then
    return wrong_check(answer)
  elseif kind == "trace" and not is_list_of(answer.nodes, is_table) then
    return "nodes is no list of objects"
  end
end

return node_answer
