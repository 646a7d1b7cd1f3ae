-- The expert as an agent with tools: it writes one variant after the other, asks for its verification and its time, as
-- a model would, and leaves the choice to the judge. It needs no model and no server.

local experts = require "policies.experts"

local rules = {}

local Conversation = {}
Conversation.__index = Conversation

local function call(id, name, arguments)
  return { id = ("%s_%d"):format(name, id), name = name, arguments = arguments }
end

--- Writes the next variant; the last answer has no call.
---@return table|nil drawn
function Conversation:draw()
  local expert = self.expert
  self.turn = self.turn + 1
  local variant = expert.ORDER[#expert.ORDER + 1 - self.turn]  -- the fastest first: time may run out
  if not variant then
    return { text = "The variants stand in the record; the fastest one counts.", calls = {}, cut = false, tokens = 0 }
  end
  local answer, message = expert.answer(self.task.graph, { variant = variant })
  if not answer then
    self.turn = #expert.ORDER
    return { text = "No rule writes this task: " .. tostring(message), calls = {}, cut = false, tokens = 0 }
  end
  return { text = ("Variant %s."):format(variant), cut = false, tokens = 0, calls = {
    call(self.turn, "Write", { file_path = "/workspace/" .. expert.PATH, content = answer.files[expert.PATH] }),
    call(self.turn, "Bash", { command = "python3 -m utils.verification && python3 -m utils.profiling",
      timeout = 300000 }) } }
end

function Conversation:observe()
  return true
end

function Conversation:record()
  return {}
end

--- A policy that reads a task's traced graph (`task.graph`).
---@param target? "cpu"|"cuda"   what it writes; "cpu"
---@return table
function rules.open(target)
  return { name = "expert", format = require "chat.openai", deterministic = true, begin = function(task)
    return setmetatable({ task = task, turn = 0, expert = experts.of(target) }, Conversation)
  end }
end

return rules
