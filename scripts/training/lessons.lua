-- What a supervised start learns from: tasks that no other set shares a chain or a combination of operators with, the
-- expert's answers to them, and dialogues of an answer, what the judge said of it, and the next answer.
--
-- The combination of a task is the sorted list of its operators: "relu tanh" and "tanh relu" are one. A task is a
-- lesson only where its combination is in none of the sets that are trained on, validated or held out; those sets give
-- their chains for that, nothing else. Operators may be shared: what no lesson shows a model hardly ever finds.

local corpus = require "policies.corpus"
local experts = require "policies.experts"
local operators = require "synthesis.operators"
local random = require "lib.random"
local sched = require "khost.sched"
local template = require "run.template"
local verdicts = require "judge.verdict"

local lessons = {}

local MOST_TRIES = 4000

--- The sorted operators of a chain.
---@param chain string
---@return string
function lessons.combination(chain)
  local names = {}
  for name in chain:gmatch("%S+") do
    names[#names + 1] = name
  end
  table.sort(names)
  return table.concat(names, " ")
end

--- Combinations of all tasks that the store has, whatever set they are of and whether the filter kept them.
---@param run table
---@return table<string, true>
function lessons.taken(run)
  local found = {}
  for _, row in ipairs(assert(run.store:list("tasks"))) do
    if row.chain then
      found[lessons.combination(row.chain)] = true
    end
  end
  return found
end

local function distinct(list)
  local seen, out = {}, {}
  for _, name in ipairs(list) do
    if not seen[name] then
      seen[name], out[#out + 1] = true, name
    end
  end
  return out
end

-- The names of all operators that tasks of some families can hold, in the table's order, with those families.
local function operators_of(families)
  local kinds, list = {}, {}
  for _, family in ipairs(families) do
    local form = operators.FAMILIES[family]
    for _, kind in ipairs(distinct { form.last or form.body[1], unpack(form.body) }) do
      kinds[kind] = kinds[kind] or {}
      table.insert(kinds[kind], family)
    end
  end
  for _, entry in ipairs(operators.LIST) do
    if kinds[entry.kind] then
      list[#list + 1] = { name = entry.name, families = kinds[entry.kind] }
    end
  end
  return list
end

---@class (exact) LessonOptions
---@field count integer
---@field stream lib.Random
---@field length integer[]
---@field by_family? boolean   families in turn instead of drawn
---@field families? string[]    instead of the preset's tasks.families; a name that stands twice is drawn twice as often
---@field least? integer       every operator of the families is in so many tasks at least; 0
---@field timed? boolean        of the sizes and the weight of timed tasks
---@field name? string          what their ids begin with; "lesson"

--- Tasks for lessons. Raises where the families have too few combinations that are free.
---@param run table
---@param o LessonOptions
---@return table[] tasks   ComposedTask with an id
function lessons.tasks(run, o)
  local c, used, list, counts = run.config.tasks, lessons.taken(run), {}, {}
  local names = o.families or c.families
  local families = distinct(names)
  local function draw(from, must)
    for _ = 1, MOST_TRIES do
      local task = corpus.task(o.stream, "base", { families = from, length = o.length, heavy = o.timed,
        shapes = o.timed and c.shapes or c.small_shapes })
      local key = lessons.combination(task.chain)
      if not used[key] and (not must or (" " .. key .. " "):find(" " .. must .. " ", 1, true)) and
        experts.of(run.config.machine.target).answer(task.graph) then
        used[key] = true
        return task
      end
    end
  end
  local function add(task)
    if not task then
      return false
    end
    task.id = ("%s-%03d"):format(o.name or "lesson", #list + 1)
    list[#list + 1] = task
    for name in task.chain:gmatch("%S+") do
      counts[name] = (counts[name] or 0) + 1
    end
    return true
  end
  for _, operator in ipairs((o.least or 0) > 0 and operators_of(families) or {}) do
    while (counts[operator.name] or 0) < o.least and add(draw(operator.families, operator.name)) do
      sched.sleep(0)
    end
  end
  while #list < o.count do
    if not add(draw(o.by_family and { families[#list % #families + 1] } or names)) then
      error(("lessons: %d of %d tasks found; raise tasks.length or name fewer lessons"):format(#list, o.count), 0)
    end
  end
  return list
end

-- Scratch memory is an argument that no prompt explains.
local function explained(answer, path)
  return answer and not answer.files[path]:find("workspace", 1, true)
end

-- Every variant of the expert for every task, and for some a wrong answer with a mistake on purpose.
local function written(run, tasks, share)
  local expert, answers = experts.of(run.config.machine.target), {}
  for index, task in ipairs(tasks) do
    for _, variant in ipairs(expert.ORDER) do
      local answer = expert.answer(task.graph, { variant = variant })
      if explained(answer, expert.PATH) then
        answers[#answers + 1] = { task = task, variant = variant, code = answer.files[expert.PATH] }
      end
    end
    local stream = random.stream(("%d lesson fault %d"):format(run.seed, index))
    if stream:number() < share then
      local wrong = expert.answer(task.graph, { fault_rate = 0.6, random = stream })
      if explained(wrong, expert.PATH) and #wrong.faults > 0 then
        answers[#answers + 1] = { task = task, variant = "fault", code = wrong.files[expert.PATH] }
      end
    end
  end
  return answers
end

--- The expert's answers, each verified by the judge: {task, variant, code, correct, feedback}.
---@async
---@param run table
---@param tasks table[]
---@param options {share: number, limit: integer, say?: fun()}   share: of tasks that get a wrong answer too
---@return table[] answers
function lessons.answers(run, tasks, options)
  local expert, answers = experts.of(run.config.machine.target), written(run, tasks, options.share)
  local skill = template.skill(run.config.machine.target)
  sched.map(answers, function(answer)
    local whole = template.with({ [expert.PATH] = answer.code }, skill)
    -- Of a wrong answer the agent's feedback is wanted; a judge that has no inputs for that gives a verdict.
    local seen = answer.variant == "fault" and run.judging:feedback("verify", answer.task, whole)
      or run.judging:verdict(answer.task, whole, { measure = false, reuse = true })
    answer.verdict, answer.correct = seen, verdicts.passed(seen)
    if options.say then
      options.say()
    end
    return true
  end, { limit = options.limit, on_failure = "raise" })
  return answers
end

local function say(tokens, mask, list, bit)
  for _, token in ipairs(list) do
    tokens[#tokens + 1], mask[#mask + 1] = token, bit
  end
end

---@class (exact) EpisodeOptions
---@field seed integer
---@field tokens integer          of the longest conversation
---@field answer_tokens integer   of the longest answer that the model may give
---@field share number            of right answers that go on to `done`
---@field done string
---@field render fun(code: string): string   a file as an answer carries it

--- Episodes for supervision. A right answer is imitated; where the task also has a wrong one, its feedback and the
--- right answer behind it are a second episode in which the wrong answer is read and not imitated; and a share of the
--- right ones goes on to "done".
---@param chat table            chat.files or chat.tiny, opened
---@param format table
---@param answers table[]       what lessons.answers returned
---@param options EpisodeOptions
---@return table[] episodes, table<string, integer> left_out   by reason
function lessons.episodes(chat, format, answers, options)
  local episodes, left_out, wrong = {}, {}, {}
  for _, answer in ipairs(answers) do
    if not answer.correct and answer.variant == "fault" and not verdicts.is_void(answer.verdict) then
      wrong[answer.task.id] = answer
    end
  end
  local function add(turns, task, stream)
    local tokens, mask, longest = {}, {}, 0
    say(tokens, mask, chat:prompt(task, stream), 0)
    for _, turn in ipairs(turns) do
      local more = turn.observation and chat:observation(turn.observation) or chat:answer(turn.answer)
      say(tokens, mask, more, turn.learn and 1 or 0)
      longest = math.max(longest, turn.learn and #more or 0)
    end
    if #tokens > options.tokens or longest > options.answer_tokens then
      left_out.too_long = (left_out.too_long or 0) + 1
    else
      episodes[#episodes + 1] = { tokens = tokens, mask = mask, reward = 1, family = task.family }
    end
  end
  for index, answer in ipairs(answers) do
    local stream = random.stream(("%d lesson %d"):format(options.seed, index))
    local turns = { { answer = options.render(answer.code), learn = true } }
    if not answer.correct then
      local reason = answer.variant == "fault" and "fault" or "not_right"
      left_out[reason] = (left_out[reason] or 0) + 1
    else
      if stream:number() < options.share then
        turns[2] = { observation = format.feedback(answer.verdict) }
        turns[3] = { answer = options.done, learn = true }
      end
      add(turns, answer.task, stream)
      local before = wrong[answer.task.id]
      if before then
        wrong[answer.task.id] = nil
        add({ { answer = options.render(before.code) }, { observation = format.feedback(before.verdict) }, turns[1] },
          answer.task, stream)
      end
    end
  end
  return episodes, left_out
end

--- Episodes in an order in which families take turns as `names` says, so that a step sees each of them: those of a long
--- kernel, of which there are few, would be seen too seldom. All episodes stand in it, those of a family with few more
--- than once. What is of no named family keeps its share of the order.
---@param episodes {family?: string}[]
---@param names string[]   families; one that stands twice has two turns; none: the order is left as it is
---@return table[]   at least as many
function lessons.in_turns(episodes, names)
  local groups, turns = {}, {}
  for _, episode in ipairs(episodes) do
    local family = episode.family or ""
    groups[family] = groups[family] or { used = 0 }
    table.insert(groups[family], episode)
  end
  for _, name in ipairs(names) do
    if groups[name] then
      turns[#turns + 1], groups[name].named = name, true
    end
  end
  if #turns == 0 then
    return episodes
  end
  local order, taken = {}, 0
  local function all_used()
    for _, group in pairs(groups) do
      if group.used < #group then
        return false
      end
    end
    return true
  end
  while not all_used() do
    local group = groups[episodes[#order % #episodes + 1].family or ""]
    if group.named then
      group, taken = groups[turns[taken % #turns + 1]], taken + 1
    end
    group.used = group.used + 1
    order[#order + 1] = group[(group.used - 1) % #group + 1]
  end
  return order
end

return lessons
