-- When an episode of an agent ends, and what in it looks like going in circles.

local limits = {}

limits.DEFAULTS = {
  turns = 150,          -- the paper's; 200 in evaluation
  seconds = 3600,
  answer_tokens = 4096, -- of one answer
  invalid_calls = 3,    -- in a row
  repeats = 4,          -- the same action with the same observation
  repeat_errors = 3,    -- the same action that failed
  stop_when_stuck = false,  -- in training the turn limit acts, and the label is for filters
}

--- The defaults with some of them replaced; unknown names raise.
---@param given? table
---@return table
function limits.new(given)
  local result = {}
  for name, value in pairs(limits.DEFAULTS) do
    result[name] = value
  end
  for name, value in pairs(given or {}) do
    if limits.DEFAULTS[name] == nil then
      error("unknown limit " .. tostring(name), 2)
    end
    result[name] = value
  end
  return result
end

local function count_tail(steps, same)
  local count = 0
  for index = #steps, 1, -1 do
    if not same(steps[index]) then
      break
    end
    count = count + 1
  end
  return count
end

--- A label when the last steps repeat themselves: repeat_call, repeat_error or ping_pong. Steps hold what was done,
--- what came back without times and ids, and whether it failed; what an agent thinks is no difference.
---@param steps {action: string, observation: string, failed: boolean, polling?: boolean}[]
---@param limit table
---@return string|nil
function limits.stuck(steps, limit)
  local last = steps[#steps]
  if not last or last.polling then
    return nil
  end
  local same = count_tail(steps, function(s)
    return s.action == last.action and s.observation == last.observation
  end)
  if last.failed and same >= limit.repeat_errors then
    return "repeat_error"
  elseif same >= limit.repeats then
    return "repeat_call"
  end
  local n = #steps
  if n >= 6 and steps[n].action ~= steps[n - 1].action then
    for offset = 0, 3 do
      local a, b = steps[n - offset], steps[n - offset - 2]
      if a.action ~= b.action or a.observation ~= b.observation then
        return nil
      end
    end
    return "ping_pong"
  end
end

return limits
