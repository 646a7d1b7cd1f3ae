-- One round of answers: drawn, judged (verified, not timed) and summed up.

local sched = require "khost.sched"

local prompts = require "tests.manual.long.supervised.prompts"

local play = {}

play.PATH = "kernels/k.cu"

-- Answers of one task and prompt are drawn as one request, so that the prompt is read once.
local function requests_of(tasks, how)
  local list = {}
  for index, task in ipairs(tasks) do
    if how.varied then
      for answer = 1, how.count do
        list[#list + 1] = { task = task, variant = (how.seed + 5 * index + answer) % prompts.VARIANTS + 1, count = 1,
          seed = how.seed * 100 + answer }
      end
    else
      list[#list + 1] = { task = task, variant = 0, count = how.count, seed = how.seed }
    end
  end
  return list
end

local function draw(policy, made, how, requests)
  local drawn = sched.map(requests, function(request)
    return assert(policy:generate_group(made:of(request.task, request.variant), request.count, {
      max_tokens = how.max_tokens, temperature = how.temperature, seed = request.seed, stop = { "<|im_end|>" } }))
  end, { limit = 128, on_failure = "raise" })
  local answers = {}
  for index, request in ipairs(requests) do
    for _, completion in ipairs(drawn[index]) do
      answers[#answers + 1] = { task = request.task, variant = request.variant, tokens = completion.tokens,
        logprobs = completion.logprobs, text = completion.text or "",
        code = completion.finish == "stop" and completion.text:match("```%w*\n(.-)```") or nil }
    end
  end
  return answers
end

--- Judges answers and writes status, correct and detail into them.
---@param judge table
---@param answers {task: table, code?: string}[]
---@param limit integer   at once
function play.judge(judge, answers, limit)
  sched.map(answers, function(answer)
    if not answer.code then
      answer.status, answer.correct = "no_block", false
      return true
    end
    local verdict = judge:verdict(answer.task, { [play.PATH] = answer.code }, { measure = false, reuse = true })
    answer.status, answer.correct, answer.reason, answer.detail = verdict.status, verdict.correct, verdict.reason,
      verdict.detail
    return true
  end, { limit = limit, on_failure = "raise" })
end

-- `entropy`: the mean of -log p over the drawn tokens, which estimates the entropy of what was drawn from, at its
-- temperature.
local function summary(answers)
  local by, tasks, order = {}, {}, {}
  local tokens, surprise, right = 0, 0, 0
  for _, answer in ipairs(answers) do
    local id = answer.task.id
    if not tasks[id] then
      tasks[id] = { right = 0, texts = {}, distinct = 0, answers = 0, unseen = #(answer.task.unseen or {}) > 0 }
      order[#order + 1] = id
    end
    local task = tasks[id]
    task.answers = task.answers + 1
    if not task.texts[answer.text] then
      task.texts[answer.text], task.distinct = true, task.distinct + 1
    end
    if answer.correct then
      task.right, right = task.right + 1, right + 1
    end
    by[answer.status] = (by[answer.status] or 0) + 1
    tokens = tokens + #answer.tokens
    for _, logprob in ipairs(answer.logprobs) do
      surprise = surprise - logprob
    end
  end
  local covered, distinct, rights, unseen = 0, 0, {}, { right = 0, answers = 0 }
  for _, id in ipairs(order) do
    local task = tasks[id]
    covered = covered + (task.right > 0 and 1 or 0)
    distinct = distinct + task.distinct
    rights[id] = task.right
    if task.unseen then
      unseen.right, unseen.answers = unseen.right + task.right, unseen.answers + task.answers
    end
  end
  return { answers = #answers, right = right, pass = right / #answers, tasks = #order, tasks_right = covered, by = by,
    distinct = distinct / #answers, tokens = tokens, entropy = surprise / math.max(tokens, 1), rights = rights,
    unseen = unseen.answers > 0 and unseen or nil }
end

---@class (exact) PlayOptions
---@field count integer        answers a task
---@field temperature number
---@field seed integer
---@field varied boolean       prompts drawn among the variants, else the fixed one
---@field max_tokens integer
---@field at_once integer      verdicts at once

--- Draws and judges `count` answers for each task.
---@param policy khost.Policy
---@param judge table
---@param made table           prompts
---@param tasks table[]
---@param how PlayOptions
---@return table summary, table[] answers
function play.round(policy, judge, made, tasks, how)
  local begin = sched.now()
  local answers = draw(policy, made, how, requests_of(tasks, how))
  local drawn = sched.now()
  play.judge(judge, answers, how.at_once)
  local result = summary(answers)
  result.draw_s, result.judge_s = drawn - begin, sched.now() - drawn
  result.temperature, result.varied, result.seed = how.temperature, how.varied, how.seed
  return result, answers
end

return play
