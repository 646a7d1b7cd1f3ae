-- A policy that says again what a stored trajectory said, turn by turn: to see whether an environment still answers the
-- same, and as a load that needs no model.

local script = require "policies.script"

local replay = {}

-- The answers of a trajectory. Calls that came as data are given as data.
local function answers_of(trajectory)
  local list = {}
  for index, turn in ipairs(trajectory.turns or {}) do
    list[index] = { text = turn.text or "", calls = turn.calls }
  end
  return list
end

-- An answer as a policy draws it.
local function drawn_of(answer)
  local calls
  for index, call in ipairs(answer.calls or {}) do
    calls = calls or {}
    calls[index] = { id = call.id, name = call.name, arguments = call.arguments or {}, label = call.label }
  end
  return { text = answer.text, cut = false, tokens = 0, calls = calls }
end

--- A policy over a trajectory as the store gives it.
---@param trajectory table   with turns
---@param format table       the chat format that its answers follow; chat.openai when its calls were data
---@return table
function replay.open(trajectory, format)
  local answers = answers_of(trajectory)
  local base = script.open("replay " .. tostring(trajectory.id or trajectory.name or ""), function(_, said)
    local count = 1
    for _, message in ipairs(said) do
      count = count + (message.role == "assistant" and 1 or 0)
    end
    return answers[count] and answers[count].text
  end, format)
  local begin = base.begin
  function base.begin(task, stream)
    local conversation = begin(task, stream)
    local at = 0
    local draw = conversation.draw
    function conversation.draw(self, limit)
      local drawn, message, code = draw(self, limit)
      at = at + 1
      return drawn and drawn_of(answers[at]), message, code
    end
    return conversation
  end
  return base
end

--- Where an episode that was played again differs from the one that was stored.
---@param stored table
---@param again table
---@return {turn: integer, stored?: string, again?: string}[]
function replay.differences(stored, again)
  local list = {}
  for index = 1, math.max(#stored.turns, #again.turns) do
    local a, b = stored.turns[index], again.turns[index]
    local first, second = a and a.observation, b and b.observation
    if first ~= second then
      list[#list + 1] = { turn = index, stored = first, again = second }
    end
  end
  return list
end

return replay
