-- The expert's answers as supervised data: written, verified by the judge, kept in a file.

local expert = require "policies.expert_cuda"
local fs = require "khost.fs"
local json = require "khost.json"
local play = require "tests.manual.long.supervised.play"

local teacher = {}

-- Every variant of the supervised tasks; of those held out the fastest alone, as a witness that they can be solved.
local function written(data)
  local answers, refused = {}, 0
  for _, list in ipairs { data.supervised, data.held } do
    for _, task in ipairs(list) do
      for _, variant in ipairs(expert.ORDER) do
        local answer = expert.answer(task.graph, { variant = variant })
        if not answer then
          refused = refused + 1
        elseif list ~= data.held or variant == "vector" then
          answers[#answers + 1] = { task = task, variant = variant, code = answer.files[expert.PATH] }
        end
      end
    end
  end
  return answers, refused
end

--- Verifies all that the expert writes.
---@param judge table
---@param data {supervised: table[], held: table[]}
---@param at_once integer   verdicts at once
---@return table[] verified   {task, variant, code} of the supervised tasks that are right
---@return table counts       "family variant" -> {right, of}
---@return table[] failed     what was wrong, with the verdict's words
---@return integer refused    variants for which there is no rule
function teacher.verify(judge, data, at_once)
  local answers, refused = written(data)
  play.judge(judge, answers, at_once)
  local verified, counts, failed = {}, {}, {}
  for _, answer in ipairs(answers) do
    local key = answer.task.family .. " " .. answer.variant
    counts[key] = counts[key] or { right = 0, of = 0 }
    counts[key].of = counts[key].of + 1
    if not answer.correct then
      failed[#failed + 1] = { task = answer.task.id, variant = answer.variant, status = answer.status,
        reason = answer.reason, detail = (answer.detail or ""):sub(1, 400), code = answer.code }
    else
      counts[key].right = counts[key].right + 1
      if answer.task.family ~= "held" then
        verified[#verified + 1] = answer
      end
    end
  end
  return verified, counts, failed, refused
end

---@param file string
---@param verified table[]
function teacher.save(file, verified)
  local list = {}
  for index, answer in ipairs(verified) do
    list[index] = { id = answer.task.id, variant = answer.variant, code = answer.code }
  end
  assert(fs.write(file, json.encode(list)))
end

--- What an earlier run verified. Raises where the file names a task that the data do not have.
---@param file string
---@param data {supervised: table[]}
---@return table[] verified
function teacher.load(file, data)
  local tasks, answers = {}, {}
  for _, task in ipairs(data.supervised) do
    tasks[task.id] = task
  end
  for index, entry in ipairs(assert(json.decode(assert(fs.read(file))))) do
    local task = tasks[entry.id]
    if not task then
      error(("%s: task %s is not among the supervised tasks; remove the file"):format(file, entry.id))
    end
    answers[index] = { task = task, variant = entry.variant, code = entry.code }
  end
  return answers
end

return teacher
