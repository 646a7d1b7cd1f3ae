-- A policy that is a Lua function: from the task and what was said so far to the next answer. For tests, for the
-- expert's row in tables, and as a load generator.

local script = {}

local Conversation = {}
Conversation.__index = Conversation

---@async
function Conversation:draw()
  local text = self.answer(self.task, self.said, self.stream)
  if text == nil then
    return nil, "the script has nothing more to say", "limit"
  end
  self.said[#self.said + 1] = { role = "assistant", text = text }
  return { text = text, cut = false, tokens = 0 }
end

---@param text string
---@return boolean
function Conversation:observe(text)
  self.said[#self.said + 1] = { role = "tool", text = text }
  return true
end

---@return table
function Conversation:record()
  return {}
end

---@param name string
---@param answer fun(task: table, said: {role: string, text: string}[], stream: table): string|nil
---@param format? table   the chat format that its answers follow; scripts/chat/tiny.lua
---@return table
function script.open(name, answer, format)
  return { name = name, format = format or require "chat.tiny", begin = function(task, stream)
    return setmetatable({ task = task, answer = answer, stream = stream, said = {} }, Conversation)
  end }
end

--- The expert as a policy: one answer, then done.
---@param variant? string          a name in its ORDER; the fastest, which is the last, when absent
---@param target? "cpu"|"cuda"     what it writes; "cpu"
---@return table
function script.expert(variant, target)
  local expert = require("policies.experts").of(target)
  local parse = require "agent.parse"
  variant = variant or expert.ORDER[#expert.ORDER]
  return script.open("expert " .. variant, function(task, said)
    if #said > 0 then
      return require("chat.tiny").DONE
    end
    local answer = task.graph and expert.answer(task.graph, { variant = variant })
    return answer and parse.render(answer.files) or "no rule for this task"
  end)
end

return script
