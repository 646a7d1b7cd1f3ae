-- Whether a supervised start on an expert's answers to other tasks lets a code model learn kernels by reward, and what
-- temperature and varied prompts add. One run on one card:
--
--   tests/manual/long/supervised/tasks.py tasks.json
--   ./khost tests/manual/long/supervised_start.lua tasks.json MODEL_FOLDER report.json --seconds 600
--
-- 1. The expert's answers (three variants a task) are verified; what fails is left out. 2. The raw model answers the
-- tasks held out. 3. Supervised steps, with a look at the tasks held out after every ten, until a share of --enough
-- is right or --steps are done. 4. Arms from there (two temperatures; one fixed prompt against variants): draw,
-- verify, fit on the right answers so far. 5. The tasks held out again, for each arm. The report is written anew
-- after each part.

local args = require "lib.args"
local fs = require "khost.fs"
local json = require "khost.json"
local client = require "judge.client"
local log = require "khost.log"
local play = require "tests.manual.long.supervised.play"
local prompts = require "tests.manual.long.supervised.prompts"
local random = require "lib.random"
local sched = require "khost.sched"
local teacher = require "tests.manual.long.supervised.teacher"
local trainer = require "khost.trainer"

local ABOUT = { name = "supervised_start.lua", summary = "a supervised start, then draw, verify, fit in four arms" }

local OPTIONS = {
  { name = "tasks", required = true, help = "what tests/manual/long/supervised/tasks.py made" },
  { name = "model", required = true, help = "a Hugging Face folder of a model that speaks ChatML" },
  { name = "report", required = true, help = "the JSON file to write" },
  { name = "--seconds", kind = "number", default = 600, help = "no part begins after this many" },
  { name = "--no-raw", kind = "flag", help = "do not ask the raw model" },
  { name = "--steps", kind = "number", default = 40, help = "supervised steps at most" },
  { name = "--enough", kind = "number", default = 0.2, help = "share right on held-out tasks that ends them" },
  { name = "--arms", kind = "number", default = 4, help = "1: fixed .8; 2: and varied .8; 3: and fixed 1.1; 4: all" },
  { name = "--rounds", kind = "number", default = 3, help = "of each arm; 0: supervised steps only" },
  { name = "--lr", kind = "number", default = 2e-5, help = "learning rate" },
  { name = "--answer-tokens", kind = "number", default = 800, help = "longest answer" },
  { name = "--jobs", kind = "number", default = 14, help = "of the judge" },
  { name = "--verified", help = "a file for the expert's verified answers: read when it is there, else written" },
  { name = "--expert-only", kind = "flag", help = "end when the expert's answers are verified; no model is opened" },
  { name = "--target", default = "cuda", help = "cuda, or cpu to try the script without a GPU" },
}

local ARMS = {
  { name = "fixed .8", temperature = 0.8, varied = false },
  { name = "varied .8", temperature = 0.8, varied = true },
  { name = "fixed 1.1", temperature = 1.1, varied = false },
  { name = "varied 1.1", temperature = 1.1, varied = true },
}

local Run = {}
Run.__index = Run

-- Waits for tasks and raises the first failure.
local function join(tasks)
  local _, failures = sched.wait(tasks)
  if failures[1] then
    error(failures[1].message, 0)
  end
end

local function round(value)
  return type(value) == "number" and tonumber(("%.4g"):format(value)) or value
end

function Run:say(text)
  log.print(("%6.1f s  %s"):format(sched.now() - self.began, text))
end

-- Notes an event and writes the report, so that nothing is lost when the run is ended.
function Run:note(name, event)
  event.event, event.s = name, round(sched.now() - self.began)
  for key, value in pairs(event) do
    event[key] = round(value)
  end
  self.report.events[#self.report.events + 1] = event
  assert(fs.write(self.options.report, json.encode(self.report)))
end

function Run:late()
  return sched.now() - self.began > self.options.seconds
end

-- 1. The expert's verified answers, from the file of an earlier run where there is one.
function Run:verified()
  local file = self.options.verified
  if file and fs.exists(file) then
    return teacher.load(file, self.data)
  end
  local begin = sched.now()
  local verified, counts, failed, refused = teacher.verify(self.judge, self.data, 2 * self.options.jobs)
  for key, count in pairs(counts) do
    self:say(("expert, %s: %d of %d"):format(key, count.right, count.of))
  end
  self:note("expert", { counts = counts, failed = failed, refused = refused, judge_s = sched.now() - begin })
  if file then
    teacher.save(file, verified)
  end
  return verified
end

function Run:open_actor(number)
  return assert(trainer.open { model = self.options.model, seed = number, device = self.device, slots = self.slots,
    dtype = self.device == "cuda" and "bf16" or "fp32", positions = self.positions, recompute = true, lease = "",
    threads = self.device == "cuda" and 8 or 2 })
end

local function tell(result)
  return ("right %d of %d (%.3f), tasks %d of %d, entropy %.3f, distinct %.2f, drawn %.1f s, judged %.1f s %s"):format(
    result.right, result.answers, result.pass, result.tasks_right, result.tasks, result.entropy, result.distinct,
    result.draw_s, result.judge_s, json.encode(result.by))
end

function Run:play(actor, tasks, how)
  how.max_tokens, how.at_once = self.options.answer_tokens, 2 * self.options.jobs
  return play.round(actor:policy(), self.judge, self.prompts, tasks, how)
end

-- Answers on the tasks held out, with the fixed prompt. The first wrong ones are kept to be read.
function Run:held_out(actor, name, count, temperature)
  local result, answers = self:play(actor, self.data.held, { count = count, temperature = temperature, seed = 900,
    varied = false })
  self:say(("held out, %s, temperature %.1f: %s"):format(name, temperature, tell(result)))
  result.name, result.wrong = name, {}
  for _, answer in ipairs(answers) do
    if not answer.correct and #result.wrong < 12 and (#result.wrong == 0 or
      result.wrong[#result.wrong].task ~= answer.task.id) then
      result.wrong[#result.wrong + 1] = { task = answer.task.id, status = answer.status, reason = answer.reason,
        detail = (answer.detail or ""):sub(1, 200), text = answer.text:sub(1, 1500) }
    end
  end
  self:note("held_out", result)
  return result
end

local function episode(prompt, answer)
  local tokens, mask = {}, {}
  for index, token in ipairs(prompt) do
    tokens[index], mask[index] = token, 0
  end
  for _, token in ipairs(answer) do
    tokens[#tokens + 1], mask[#mask + 1] = token, 1
  end
  return { tokens = tokens, mask = mask, reward = 1 }
end

-- Updates on parts of 16 episodes; at most `steps` of them. The last update's metrics.
function Run:fit(actor, episodes, epochs, seed)
  local begin, updates, tokens, first, last = sched.now(), 0, 0, nil, nil
  local batch = trainer.pack(episodes, { tokens = 16384 })
  for part in batch:split(16, epochs, { seed = seed }) do
    last = assert(actor:update(part, trainer.rft { reduce = "token-mean" }, { lr = self.options.lr, max_norm = 1,
      warmup = 5 }))
    first, updates, tokens = first or last, updates + 1, tokens + (last.tokens or 0)
  end
  return { updates = updates, fit_s = round(sched.now() - begin), first_loss = round(first.loss),
    loss = round(last.loss), entropy = round(last.entropy), tokens_per_s = round(last.tokens_per_s), metrics = first }
end

-- Every verified answer under the fixed prompt or a variant, in turn. Left out is what is too long, or takes scratch
-- memory, of which the prompts' rules say nothing.
function Run:supervised_episodes(verified)
  local episodes, left_out, longest = {}, 0, 0
  for index, answer in ipairs(verified) do
    local tokens = self.prompts:answer(answer.code)
    local variant = index % 2 == 0 and 0 or index % prompts.VARIANTS + 1
    local prompt = self.prompts:of(answer.task, variant)
    local long = #tokens > self.options.answer_tokens or #prompt + #tokens > self.positions
    if long or answer.code:find("khost::workspace", 1, true) then
      left_out = left_out + 1
    else
      longest = math.max(longest, #prompt + #tokens)
      episodes[#episodes + 1] = episode(prompt, tokens)
    end
  end
  self:note("supervised_data", { episodes = #episodes, left_out = left_out, longest = longest })
  self:say(("%d supervised answers, %d left out, longest %d tokens"):format(#episodes, left_out, longest))
  return episodes
end

-- The next `count` episodes of an order that begins anew at its end.
local function portion(episodes, from, count)
  local picked = {}
  for offset = 0, count - 1 do
    picked[#picked + 1] = episodes[(from + offset) % #episodes + 1]
  end
  return picked
end

-- 3. All actors take the same steps, so that each arm starts from the same weights; the first is looked at.
function Run:supervise(episodes)
  local stream, order = random.stream("supervised order"), episodes
  for index = #order, 2, -1 do
    local other = stream:integer(1, index)
    order[index], order[other] = order[other], order[index]
  end
  local steps, result = 0
  repeat
    local part = portion(order, steps * 16, 160)
    local fitted = self:fit(self.actors[1], part, 1, steps + 1)
    local others = {}
    for index = 2, #self.actors do
      others[#others + 1] = sched.spawn(function()
        return self:fit(self.actors[index], part, 1, steps + 1)
      end)
    end
    steps = steps + 10
    result = self:held_out(self.actors[1], ("after %d supervised steps"):format(steps), 4, 0.8)
    join(others)
    fitted.steps = steps
    self:say(("supervised step %d: loss %.3f to %.3f, entropy %.3f, %.1f s"):format(steps, fitted.first_loss,
      fitted.loss, fitted.entropy, fitted.fit_s))
    self:note("supervised", fitted)
  until steps >= self.options.steps or result.pass >= self.options.enough or self:late()
  return steps
end

-- Right answers that are new go to the arm's buffer, at most six a task, each with the prompt it was drawn with.
function Run:keep(arm, answers)
  local fresh = 0
  for _, answer in ipairs(answers) do
    local id = answer.task.id
    local key, count = id .. "\n" .. tostring(answer.code), arm.have[id] or 0
    if answer.correct and not arm.have[key] and count < 6 then
      arm.have[key], arm.have[id], fresh = true, count + 1, fresh + 1
      arm.covered = arm.covered + (count == 0 and 1 or 0)
      arm.buffer[#arm.buffer + 1] = episode(self.prompts:of(answer.task, answer.variant), answer.tokens)
    end
  end
  return fresh
end

-- 4. A round of an arm: draw, verify, and fit while the next arm draws.
function Run:arm_round(arm, number)
  if arm.fitting then
    join { arm.fitting }
    arm.fitting = nil
  end
  local result, answers = self:play(arm.actor, self.data.train, { count = 4, temperature = arm.temperature,
    seed = 100 + number, varied = arm.varied })
  local fresh = self:keep(arm, answers)
  self:say(("%s, round %d: %s, new %d, covered so far %d"):format(arm.name, number, tell(result), fresh, arm.covered))
  result.arm, result.round, result.fresh, result.covered, result.buffer = arm.name, number, fresh, arm.covered,
    #arm.buffer
  self:note("round", result)
  if #arm.buffer > 0 then
    arm.fitting = sched.spawn(function()
      local fitted = self:fit(arm.actor, arm.buffer, 2, number)
      fitted.arm, fitted.round = arm.name, number
      self:note("fit", fitted)
    end)
  end
end

function Run:arms()
  local arms = {}
  for index, actor in ipairs(self.actors) do
    local arm = ARMS[index]
    arms[index] = { name = arm.name, temperature = arm.temperature, varied = arm.varied, actor = actor, have = {},
      buffer = {}, covered = 0 }
  end
  for number = 1, self.options.rounds do
    for _, arm in ipairs(arms) do
      if not self:late() then
        self:arm_round(arm, number)
      end
    end
  end
  for _, arm in ipairs(arms) do
    if arm.fitting then
      join { arm.fitting }
    end
  end
  for _, arm in ipairs(arms) do
    if not self:late() then
      self:held_out(arm.actor, "arm " .. arm.name, 8, 0.8)
    end
  end
end

-- Verified answers short enough to be worked examples of prompt variants.
local function example_pool(verified)
  local pool = {}
  for _, answer in ipairs(verified) do
    if answer.variant ~= "separate" and #answer.code < 1400 then
      pool[#pool + 1] = { family = answer.task.family, source = answer.task.source, code = answer.code }
    end
  end
  return pool
end

function Run:all()
  self.actors = {}
  local verified
  local checking = sched.spawn(function()
    verified = self:verified()
  end)
  if self.options.expert_only then
    join { checking }
    return
  end
  for index = 1, math.min(#ARMS, self.options.arms) do
    self.actors[index] = self:open_actor(index)
    self:say(("actor %d open: %s"):format(index, json.encode(self.actors[index]:stats())))
  end
  join { checking }
  self.prompts = prompts.open(self.actors[1]:policy(), self.data, example_pool(verified))
  self:note("open", { prompt_tokens = #self.prompts:of(self.data.held[1], 0), actors = #self.actors })
  -- 2. The raw model.
  for _, how in ipairs(not self.options.no_raw and { { 8, 0.8 }, { 4, 1.0 }, { 4, 1.2 } } or {}) do
    self:held_out(self.actors[1], "raw", how[1], how[2])
  end
  local steps = self:supervise(self:supervised_episodes(verified))
  if self.options.rounds > 0 then
    self:held_out(self.actors[1], ("start, %d steps"):format(steps), 8, 0.8)
    self:held_out(self.actors[1], ("start, %d steps"):format(steps), 4, 1.1)
    self:arms()
  end
  self:note("end", { asked = self.judge:counts().asked, reused = self.judge:counts().reused })
end

--- The run with a judge that the caller opened.
---@param options table
---@param judge table
---@param machine {device: string, slots: integer, positions: integer}
local function run_with(options, judge, machine)
  local data = assert(json.decode(assert(fs.read(options.tasks))))
  for _, list in ipairs { data.supervised, data.train, data.held } do
    for _, task in ipairs(list) do
      task.name = task.id
    end
  end
  local self = setmetatable({ options = options, judge = judge, data = data, began = sched.now(),
    device = machine.device, slots = machine.slots, positions = machine.positions,
    report = { options = options, events = {} } }, Run)
  self:all()
  return 0
end

local function run(list)
  local options = args.parse(OPTIONS, list, ABOUT)
  local judge = assert(client.open(nil, { jobs = options.jobs, target = options.target, tolerance = "calibrated" }))
  local code = run_with(options, judge, { device = options.target, slots = 96, positions = 2560 })
  judge:close()
  return code
end

return { name = ABOUT.name, summary = ABOUT.summary, run = run, run_with = run_with }
