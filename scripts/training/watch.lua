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
  return ("%s, step %d: reward %s, pass %s, entropy %s a token and %s an answer, distinct %s, covered %d of %d%s; "
    .. "played in %.1f s, updated in %.1f s"):format(stage, facts.step, number("%.2f", facts.reward),
    number("%.2f", facts.pass_rate), number("%.3f", facts.nats_token), number("%.1f", facts.nats_answer),
    number("%.2f", facts.distinct_texts), facts.covered, tasks, validated, metrics.rollout_s, metrics.update_s)
end

return watch
