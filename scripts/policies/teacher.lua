-- A teacher of tool use: the rule-based expert plays whole dialogues in the real environment, as a model should. It
-- follows a plan that is drawn from the episode's random numbers, and gives up where the environment answers something
-- else than the plan expects, so that what is kept shows what really happened.
--
--   straight   write a kernel, verify it, profile it where the task is timed, end
--   fault      write one with a mistake, see what the verification says, look, mend it, verify, end
--   slow       write a slow variant, verify and profile it, write the fast one, verify and profile that, end
--
-- Some dialogues begin with a look around or a list of steps, and some hold a call that no tool takes. Which turns are
-- worth imitating is training.rejection's to say: a call that is refused is none, and neither is a planted mistake.

local experts = require "policies.experts"
local repairs = require "policies.teacher.repairs"
local tools = require "agent.tools"

local teacher = {}

teacher.KINDS = { "straight", "fault", "slow" }

local VERIFY, PROFILE = "python3 -m utils.verification", "python3 -m utils.profiling"
-- Shares of dialogues with an extra.
local TOGETHER, TODO, LOOK, COMPILE, BAD_CALL = 0.3, 0.12, 0.12, 0.08, 0.12
local LOOK_AGAIN = 0.5                    -- of repairs, those that look at the place first
local FAULT_RATE, FAULT_TRIES = 0.35, 20  -- of a statement; kernels that are written until one has a mistake

local function bash(command)
  return { name = "Bash", arguments = { command = command } }
end

local function inside(path)
  return "/workspace/" .. path
end

local function write(path, code)
  return { name = "Write", arguments = { file_path = inside(path), content = (code:gsub("\n$", "")) } }
end

-- The operators of a task, for a thought about them.
local function operators_of(graph)
  local names = {}
  for index, node in ipairs(graph.nodes) do
    names[index] = node.op
  end
  return table.concat(names, ", ")
end

local function say(stream, list)
  return stream:pick(list)
end

---@class (exact) TeacherStep
---@field thought string
---@field calls? table[]      none: the end
---@field expect? "ok"|"fail"|"refused"   of what the last command said, or of the call itself

local Plan = {}
Plan.__index = Plan

-- Whether an extra of this share comes now.
function Plan:extra(share)
  return self.stream:number() < share and not self.bare
end

function Plan:add(thought, calls, expect)
  self.steps[#self.steps + 1] = { thought = thought, calls = calls, expect = expect }
end

-- Verification of what was written, in the same answer or in one of its own.
function Plan:write_and_verify(thought, calls, expect)
  if self.stream:number() < TOGETHER then
    calls[#calls + 1] = bash(VERIFY)
    self:add(thought, calls, expect)
    return
  end
  self:add(thought, calls)
  if expect == "ok" and self:extra(COMPILE) then
    self:add("First I see whether it compiles.", { bash("bash utils/compile.sh") }, "ok")
  end
  self:add(say(self.stream, { "Now I verify it.", "I compare it with model.py.", "Verification comes next." }),
    { bash(VERIFY) }, expect)
end

function Plan:profile()
  self:add(say(self.stream, { "It is correct. Now I time it.", "The values agree; how fast is it?" }),
    { bash(PROFILE) }, "ok")
end

function Plan:finish()
  self:add(say(self.stream, { "The kernel stands in %s and is verified.", "Done: %s is correct.",
    "%s is verified; nothing is left to do." }):format(self.path))
end

-- What may come before the first kernel.
function Plan:open()
  local stream = self.stream
  if self:extra(TODO) then
    local todos = { { content = "Write the kernel", status = "in_progress", activeForm = "Writing the kernel" },
      { content = "Verify it", status = "pending", activeForm = "Verifying it" } }
    if self.task.timed then
      todos[3] = { content = "Profile it", status = "pending", activeForm = "Profiling it" }
    end
    self:add("I note the steps.", { { name = "TodoWrite", arguments = { todos = todos } } })
  end
  if self:extra(LOOK) then
    self:add("I look around first.", { stream:pick { { name = "Glob", arguments = { pattern = "kernels/*" } },
      { name = "Grep", arguments = { pattern = "define KHOST_EXPORT", path = "/workspace/utils",
        output_mode = "content" } },
      { name = "Read", arguments = { file_path = "/workspace/model.py" } } } })
  end
end

local function answer_of(self, options)
  local answer = self.expert.answer(self.task.graph, options)
  -- Scratch memory is an argument that no prompt explains.
  if answer and not answer.files[self.path]:find("workspace", 1, true) then
    return answer.files[self.path], answer
  end
end

-- The variants that the expert can write without scratch memory, from slow to fast, and their texts by name.
local function variants_of(self)
  local names, texts = {}, {}
  for _, variant in ipairs(self.expert.ORDER) do
    texts[variant] = answer_of(self, { variant = variant })
    names[#names + 1] = texts[variant] and variant or nil
  end
  return names, texts
end

local BUILDERS = {}

function BUILDERS.straight(self)
  local names, texts = variants_of(self)
  if #names == 0 then
    return nil, "no_rule"
  end
  self:open()
  local variant = self.task.timed and names[#names] or self.stream:pick(names)
  self:write_and_verify(("The model computes %s. I write one kernel file."):format(operators_of(self.task.graph)),
    { write(self.path, texts[variant]) }, "ok")
  if self.task.timed then
    self:profile()
  end
  self:finish()
  return true
end

function BUILDERS.fault(self)
  local stream, names, texts = self.stream, variants_of(self)
  local variant, wrong, about = #names > 0 and stream:pick(names) or nil, nil, nil
  for _ = 1, variant and FAULT_TRIES or 0 do
    wrong, about = answer_of(self, { variant = variant, fault_rate = FAULT_RATE, random = stream })
    if wrong and wrong ~= texts[variant] then
      break
    end
    wrong = nil
  end
  if not wrong then
    return nil, "no_fault_fits"
  end
  self:open()
  self:write_and_verify(("The model computes %s. I write it down."):format(operators_of(self.task.graph)),
    { write(self.path, wrong) }, "fail")
  local repair = repairs.of(inside(self.path), wrong, texts[variant])
  if self:extra(LOOK_AGAIN) then
    local look = about.syntax and repairs.look or repairs.search
    self:add(about.syntax and "It does not compile. I look at the place."
      or "The values differ. I look at the statement.", look(inside(self.path), repair))
  end
  self:write_and_verify(repairs.thought(repair, about.syntax), { repair.call }, "ok")
  self:finish()
  return true
end

function BUILDERS.slow(self)
  local names, texts = variants_of(self)
  local slow, fast = texts[names[1]], texts[names[#names]]
  if #names < 2 or slow == fast then
    return nil, "no_rule"
  end
  local apart = names[1] == self.expert.ORDER[1]
  self:open()
  self:write_and_verify(("The model computes %s. The simplest version first: %s."):format(
    operators_of(self.task.graph), apart and "one pass an operator" or "one element at a time"),
    { write(self.path, slow) }, "ok")
  self:profile()
  self:write_and_verify(apart and "Every pass reads and writes the whole tensor. I fuse all of it and use wide loads."
    or "Single elements do not fill the bus. I use wide loads.", { write(self.path, fast) }, "ok")
  self:profile()
  self:finish()
  return true
end

-- A call as small models get it wrong: a field of another name, a field that is missing, a tool that is none.
local function broken(call, stream)
  local arguments = {}
  for name, value in pairs(call.arguments) do
    arguments[name] = value
  end
  local kind = stream:integer(1, 3)
  if kind == 1 and call.name == "Write" then
    arguments.path, arguments.file_path = arguments.file_path, nil
  elseif kind <= 2 then
    arguments[call.name == "Bash" and "command" or call.name == "Write" and "content" or "pattern"] = nil
  else
    return { name = call.name == "Bash" and "Shell" or "CreateFile", arguments = arguments }
  end
  return { name = call.name, arguments = arguments }
end

-- In some dialogues a call of Write or Bash goes wrong first.
local function plant_bad_call(self)
  if not self:extra(BAD_CALL) then
    return
  end
  local places = {}
  for index, step in ipairs(self.steps) do
    local call = step.calls and #step.calls == 1 and step.calls[1]
    places[#places + 1] = call and (call.name == "Write" or call.name == "Bash") and index or nil
  end
  if #places == 0 then
    return
  end
  local at = self.stream:pick(places)
  local step = self.steps[at]
  table.insert(self.steps, at, { thought = step.thought, calls = { broken(step.calls[1], self.stream) },
    expect = "refused" })
  step.thought = "That call did not fit the tool. Again, as it is declared."
end

--- The plan of a dialogue. One that is too long for the turns that an agent has is made again without extras.
---@param task table             with graph, timed
---@param kind string            of teacher.KINDS
---@param stream lib.Random
---@param target "cpu"|"cuda"
---@param turns integer          at most, the last answer included
---@return TeacherStep[]|nil steps, string? why   no_rule, no_fault_fits, too_long
function teacher.plan(task, kind, stream, target, turns)
  local expert = experts.of(target)
  for _, bare in ipairs { false, true } do
    local self = setmetatable({ task = task, stream = stream, expert = expert, path = expert.PATH, steps = {},
      bare = bare }, Plan)
    local ok, why = BUILDERS[kind](self)
    if not ok then
      return nil, why
    end
    plant_bad_call(self)
    if #self.steps <= turns then
      return self.steps
    end
  end
  return nil, "too_long"
end

local Conversation = {}
Conversation.__index = Conversation

-- Texts of which each refusal of a call has one (agent.tools).
local REFUSALS = { " is missing (fields: ", " is not a field (fields: ", "there is no tool " }

-- Whether what came back is what the plan expects. A step without a command is checked by those that follow it.
local function as_expected(step, text)
  if step.expect == "refused" then
    for _, part in ipairs(REFUSALS) do
      if text:find(part, 1, true) then
        return true
      end
    end
    return false
  end
  return not step.expect or (text:find("[exit code 0,", 1, true) ~= nil) == (step.expect == "ok")
end

---@async
function Conversation:draw()
  local step = self.steps and self.steps[self.at]
  if not step then
    return nil, self.trouble or "the plan is at its end", "limit"
  end
  self.at = self.at + 1
  return { text = self.render(step.thought, step.calls or {}, self.toolset), cut = false, tokens = 0 }
end

--- Takes what the environment said; where the plan expected something else there is nothing more to say.
function Conversation:observe(text)
  local step = self.steps[self.at - 1]
  if not as_expected(step, text) then
    self.steps, self.trouble = nil, "the plan expected " .. step.expect
  end
  return self.steps ~= nil
end

function Conversation:record()
  return {}
end

--- The teacher as a policy. Its tasks say which dialogue they want: `task.dialogue` of teacher.KINDS.
---@param target "cpu"|"cuda"
---@param format table   of tool calls, with `render`
---@param o {turns: integer, count?: fun(text: string): integer}   turns of a dialogue at most; tokens of a text, by
---  bytes when absent
---@return table
function teacher.open(target, format, o)
  return { name = "teacher", format = format, count = o.count or function(text) return math.ceil(#text / 3) end,
    begin = function(task, stream)
      local steps, why = teacher.plan(task, task.dialogue, stream, target, o.turns)
      return setmetatable({ steps = steps, trouble = why, at = 1, render = format.render,
        toolset = task.toolset or tools.load() }, Conversation)
    end }
end

return teacher
