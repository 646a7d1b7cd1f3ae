-- Dialogues with tools for a supervised start: the teacher plays them in the real environment on lessons' tasks
-- (policies.teacher), what went as planned and passed the judge is kept, and a pack holds them as calls and
-- observations, so that any format of calls and any tokenizer can be trained on them.
--
-- A pack is a file of JSON lines: a head, then a dialogue a line. The head's hash is that of all other lines.

local episode = require "agent.episode"
local fs = require "khost.fs"
local json = require "khost.json"
local lessons = require "training.lessons"
local progress = require "khost.progress"
local random = require "lib.random"
local rejection = require "training.rejection"
local sched = require "khost.sched"
local teacher = require "policies.teacher"
local verdicts = require "judge.verdict"

local dialogues = {}

dialogues.STAGE = "dialogues"
local MARK = "khost_dialogues"

-- The tasks of the lessons: many that are verified only, some that are timed.
local function tasks_of(run, c)
  local function draw(name, count, timed)
    local tasks = lessons.tasks(run, { count = count, stream = random.stream(("%s %s"):format(run.seed, name)),
      length = run.config.tasks.length, timed = timed, name = name })
    for _, task in ipairs(tasks) do
      task.timed = timed
    end
    return tasks
  end
  return draw("dialogue", c.tasks, false), c.timed > 0 and draw("dialogue-timed", c.timed, true) or {}
end

local PICKS = 6  -- tasks that are tried for a dialogue of one kind

-- A task for which the teacher has a plan of a kind, or nil.
local function pick(run, tasks, kind, stream, turns)
  for _ = 1, #tasks > 0 and PICKS or 0 do
    local task = stream:pick(tasks)
    if teacher.plan(task, kind, random.stream "pick", run.config.machine.target, turns) then
      return task
    end
  end
end

-- What is played: kinds by their shares, on tasks that fit. Slow variants are improved where there is a clock; where no
-- task fits a kind, the dialogue is straight.
local function jobs_of(run, c)
  local verified, timed = tasks_of(run, c)
  local all, jobs = {}, {}
  for _, list in ipairs { verified, timed } do
    for _, task in ipairs(list) do
      all[#all + 1] = task
    end
  end
  for index = 1, c.count do
    local stream = random.stream(("%s dialogue %d"):format(run.seed, index))
    local drawn = stream:number()
    local kind = drawn < c.slow and "slow" or drawn < c.slow + c.fault and "fault" or "straight"
    local task = pick(run, kind == "slow" and timed or all, kind, stream, c.turns)
    local copy = { dialogue = task and kind or "straight" }
    for name, value in pairs(task or stream:pick(all)) do
      copy[name] = value
    end
    jobs[index] = copy
  end
  return jobs
end

-- Text in front of the calls of an answer.
local function thought_of(turn)
  local text = turn.text or ""
  local at = turn.calls and text:find("<tool_call>", 1, true)
  return at and (text:sub(1, at - 1):gsub("\n$", "")) or text
end

-- A trajectory as a pack keeps it.
local function dialogue_of(task, record)
  local turns, good = {}, rejection.good_turns(record.turns)
  for index, turn in ipairs(record.turns) do
    local calls
    for place, call in ipairs(turn.calls or {}) do
      calls = calls or {}
      calls[place] = { name = call.name, arguments = call.arguments }
    end
    turns[index] = { thought = thought_of(turn), calls = calls, observation = turn.observation, learn = good[index] }
  end
  return { task = { id = task.id, source = task.source, chain = task.chain, family = task.family, timed = task.timed },
    kind = task.dialogue, turns = turns, reward = record.reward }
end

-- Why a dialogue is not kept; nil for a good one.
local function fault_of(record)
  if verdicts.is_void(record.verdict) then
    return "void"
  elseif record.status ~= "final_answer" then
    return record.turn_count == 0 and "no_plan" or "not_as_planned"
  elseif not verdicts.passed(record.verdict) then
    return "not_right"
  end
end

--- Plays the dialogues of a run; those that the store has are not played again.
---@async
---@param run table     run.pipeline
---@param c table       [dialogues] of the preset
---@param format table  of tool calls
---@param count? fun(text: string): integer   tokens of a text
---@return table[] kept, table[] counts   counts: {kind, kept, of}, and by reason why not
function dialogues.play(run, c, format, count)
  local jobs, known = jobs_of(run, c), run.store:trajectories(dialogues.STAGE, 0)
  local policy = teacher.open(run.config.machine.target, format, { turns = c.turns, count = count })
  local setting = episode.of_run(run, { policy = policy, stage = dialogues.STAGE, step = 0, turns = c.turns,
    observation_tokens = c.observation_tokens,
    measure = false, reuse = true, pick = "final", replay = run.replaying })
  local bar = progress.begin("dialogues", #jobs)
  local records = sched.map(jobs, function(job, index)
    local record = episode.kept(setting, job, index, known)
    bar:add(1)
    return record
  end, { limit = run.config.machine.episodes, on_failure = "raise" })
  bar:finish()
  local kept, kinds, reasons = {}, {}, {}
  for index, job in ipairs(jobs) do
    local why = fault_of(records[index])
    local row = kinds[job.dialogue] or { kind = job.dialogue, kept = 0, of = 0 }
    kinds[job.dialogue], row.of = row, row.of + 1
    if why then
      reasons[why] = (reasons[why] or 0) + 1
    else
      kept[#kept + 1], row.kept = dialogue_of(job, records[index]), row.kept + 1
    end
  end
  local rows = {}
  for _, kind in ipairs(teacher.KINDS) do
    rows[#rows + 1] = kinds[kind]
  end
  return kept, rows, reasons
end

--- Writes a pack.
---@param path string
---@param list table[]   of dialogues.play
---@param facts table    what is said of it in its head: target, seed, preset
---@return integer bytes
function dialogues.write(path, list, facts)
  local lines = {}
  for index, one in ipairs(list) do
    lines[index] = json.encode(one)
  end
  local body = table.concat(lines, "\n") .. "\n"
  local head = { [MARK] = 1, count = #list, hash = fs.sha256(body) }
  for name, value in pairs(facts) do
    head[name] = value
  end
  local text = json.encode(head) .. "\n" .. body
  assert(fs.write(path, text))
  return #text
end

--- Reads a pack. Raises for a file that is none, whose hash differs, or of another target.
---@param path string
---@param target "cpu"|"cuda"
---@return table[] list, table head
function dialogues.read(path, target)
  local text, message = fs.read(path)
  local first, body = (text or ""):match("^([^\n]*)\n(.*)$")
  local head = first and json.decode(first)
  if type(head) ~= "table" or head[MARK] ~= 1 then
    error(("dialogues.pack %s: %s; recipes/teacher.lua makes a pack"):format(path,
      message or "no pack of dialogues"), 0)
  elseif head.hash ~= fs.sha256(body) then
    error(("dialogues.pack %s: its lines do not have the hash that its head names"):format(path), 0)
  elseif head.target ~= target then
    error(("dialogues.pack %s: for target %s; this run's is %s"):format(path, tostring(head.target), target), 0)
  end
  local list = {}
  for line in body:gmatch("[^\n]+") do
    list[#list + 1] = json.decode(line)
  end
  return list, head
end

---@class (exact) DialogueOptions
---@field target "cpu"|"cuda"
---@field tokens integer          of the longest conversation
---@field answer_tokens integer   of the longest answer that the model may give
---@field taken? table<string, true>   lessons.taken: combinations of operators that no dialogue may have

-- One dialogue as tokens with a mask, and its longest imitated answer.
local function tokens_of(chat, format, one, target)
  local task = episode.task_for(target, format, one.task)
  local tokens, mask, longest = {}, {}, 0
  local function say(list, learn)
    for _, token in ipairs(list) do
      tokens[#tokens + 1], mask[#mask + 1] = token, learn and 1 or 0
    end
    longest = math.max(longest, learn and #list or 0)
  end
  say(chat:prompt(task), false)
  for index, turn in ipairs(one.turns) do
    say(chat:answer(format.render(turn.thought, turn.calls or {}, task.toolset)), turn.learn)
    if turn.observation and one.turns[index + 1] then
      say(chat:observation(turn.observation), false)
    end
  end
  return { tokens = tokens, mask = mask, reward = 1 }, longest
end

--- Episodes for supervision in a format of calls: turns that are not worth imitating are read and masked.
---@param chat table     the format, opened over a tokenizer
---@param format table
---@param list table[]   of a pack, or of dialogues.play
---@param o DialogueOptions
---@return table[] episodes, table<string, integer> left_out   by reason
function dialogues.episodes(chat, format, list, o)
  local episodes, left_out = {}, {}
  for _, one in ipairs(list) do
    local reason
    if o.taken and o.taken[lessons.combination(one.task.chain)] then
      reason = "shares_a_combination"
    else
      local made, longest = tokens_of(chat, format, one, o.target)
      reason = (#made.tokens > o.tokens or longest > o.answer_tokens) and "too_long" or nil
      episodes[#episodes + 1] = not reason and made or nil
    end
    if reason then
      left_out[reason] = (left_out[reason] or 0) + 1
    end
  end
  return episodes, left_out
end

return dialogues
