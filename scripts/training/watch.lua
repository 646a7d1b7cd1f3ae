-- What tells whether a policy still explores: how surprised it is by its own answers, how many of them differ, and how
-- many tasks have had a right answer so far.

local verdicts = require "judge.verdict"

local watch = {}

-- The text of all answers of an episode.
local function text_of(episode)
  local parts = {}
  for index, turn in ipairs(type(episode.turns) == "table" and episode.turns or {}) do
    parts[index] = turn.text or ""
  end
  return table.concat(parts, "\0")
end

--- Means over episodes. nats_token: of -log p of a drawn token under the temperature it was drawn with, which estimates
--- the entropy; nats_answer: the same summed over an episode's drawn tokens (a small number a token is still much over
--- an answer); distinct_texts: the share of different texts among the answers to each task. Absent where nothing was
--- drawn.
---@param episodes table[]
---@return {nats_token?: number, nats_answer?: number, distinct_texts?: number}
function watch.spread(episodes)
  local surprise, tokens, drawn, texts, kinds, spoken = 0, 0, 0, {}, 0, 0
  for _, e in ipairs(episodes) do
    local before = tokens
    for at, bit in ipairs(e.logprobs and e.mask or {}) do
      if bit == 1 or bit == true then
        surprise, tokens = surprise - e.logprobs[at], tokens + 1
      end
    end
    drawn = drawn + (tokens > before and 1 or 0)
    local text = text_of(e)
    if text ~= "" then
      local key = e.task .. "\n" .. text
      spoken, kinds = spoken + 1, kinds + (texts[key] and 0 or 1)
      texts[key] = true
    end
  end
  return { nats_token = tokens > 0 and surprise / tokens or nil, nats_answer = drawn > 0 and surprise / drawn or nil,
    distinct_texts = spoken > 0 and kinds / spoken or nil }
end

-- What was wrong with a call although it was read.
local ILL_FORMED = { lenient_json = true, unclosed = true }

-- A call that its tool could take: it was read without a repair and it fits the tool's schema.
local function is_well_formed(call)
  return call.name ~= nil and call.status ~= "invalid" and not ILL_FORMED[call.label or ""]
end

--- How an agent called its tools. `calls`: what it tried, where an answer that was cut off counts as one, and so does
--- a first answer without a call, which leaves nothing to judge. `well_formed`: the share of them that were read as
--- they stood and that fit the tool's schema. `tools`: well-formed calls by tool.
---@param episodes table[]
---@return {calls: integer, well_formed?: number, tools: table<string, integer>, tools_used: integer}
function watch.calls(episodes)
  local tried, good, by_tool, kinds = 0, 0, {}, 0
  for _, e in ipairs(episodes) do
    for index, turn in ipairs(type(e.turns) == "table" and e.turns or {}) do
      for _, call in ipairs(turn.calls or {}) do
        tried = tried + 1
        if is_well_formed(call) then
          good, kinds = good + 1, kinds + (by_tool[call.name] and 0 or 1)
          by_tool[call.name] = (by_tool[call.name] or 0) + 1
        end
      end
      tried = tried + (not turn.calls and (index == 1 or turn.label ~= nil) and 1 or 0)
    end
  end
  return { calls = tried, well_formed = tried > 0 and good / tried or nil, tools = by_tool, tools_used = kinds }
end

--- Use by tool in one line, the most used first.
---@param by_tool table<string, integer>
---@return string
function watch.tools_text(by_tool)
  local names, parts = {}, {}
  for name in pairs(by_tool) do
    names[#names + 1] = name
  end
  table.sort(names, function(a, b)
    if by_tool[a] ~= by_tool[b] then
      return by_tool[a] > by_tool[b]
    end
    return a < b
  end)
  for index, name in ipairs(names) do
    parts[index] = ("%s %d"):format(name, by_tool[name])
  end
  return #parts > 0 and table.concat(parts, ", ") or "none"
end

local Coverage = {}
Coverage.__index = Coverage

--- The tasks that have had a right answer in a stage, up to a step that was finished before.
---@param run table
---@param stage string
---@param step integer
---@return table
function watch.coverage(run, stage, step)
  local self = setmetatable({ solved = {}, count = 0 }, Coverage)
  if step > 0 then
    for _, row in ipairs(assert(run.store:query([[SELECT DISTINCT t.task AS task FROM trajectories t JOIN verdicts v
        ON v.trajectory = t.id WHERE t.stage = ? AND t.step <= ? AND v.correct]], { stage, step }))) do
      self.solved[row.task], self.count = true, self.count + 1
    end
  end
  return self
end

--- Adds the right answers of a step.
---@param episodes table[]
---@return integer   tasks with a right answer so far
function Coverage:add(episodes)
  for _, e in ipairs(episodes) do
    if not self.solved[e.task] and verdicts.passed(e.verdict) then
      self.solved[e.task], self.count = true, self.count + 1
    end
  end
  return self.count
end

local function number(form, value)
  return value and form:format(value) or "-"
end

--- One line about a step.
---@param stage string
---@param facts table     of ppo.run
---@param metrics table   with rollout_s and update_s
---@param tasks integer   that can be covered
---@return string
function watch.line(stage, facts, metrics, tasks)
  local validated = facts.validation_pass and (", validation pass %.2f"):format(facts.validation_pass) or ""
  if (metrics.actor_clip_frac or 0) > 0 then
    validated = (", clipped %.3f of the last update%s"):format(metrics.actor_clip_frac, validated)
  end
  if facts.tools then
    validated = (", calls well-formed %s (%s)%s"):format(number("%.3f", facts.well_formed),
      watch.tools_text(facts.tools), validated)
  end
  return ("%s, step %d: reward %s, pass %s, entropy %s a token and %s an answer, distinct %s, covered %d of %d%s; "
    .. "played in %.1f s, updated in %.1f s"):format(stage, facts.step, number("%.2f", facts.reward),
    number("%.2f", facts.pass_rate), number("%.3f", facts.nats_token), number("%.1f", facts.nats_answer),
    number("%.2f", facts.distinct_texts), facts.covered, tasks, validated, metrics.rollout_s, metrics.update_s)
end

return watch
