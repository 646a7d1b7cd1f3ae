-- The chat format of models that call tools with JSON in <tool_call> blocks (Hermes, Qwen2.5, Qwen3).

local call_text = require "agent.call_text"
local calls = require "agent.calls"
local chatml = require "chat.chatml"

local TOOLS = [[
# Tools

You may call one or more functions to work on the task. Their signatures are within <tools></tools>:
<tools>
%s
</tools>

]]

local HOW = [[
For each call return a JSON object with the function's name and arguments within <tool_call></tool_call>:
<tool_call>
{"name": NAME, "arguments": ARGUMENTS}
</tool_call>]]

return chatml.format {
  read = calls.hermes,
  write = call_text.hermes,
  respond = chatml.tool_responses,
  how = HOW,
  describe = function(toolset)
    return (TOOLS:gsub("%%s", function() return chatml.schemas(toolset) end)) .. HOW
  end,
}
