-- The chat format of models that call tools with <function=…> and <parameter=…> (Qwen3-Coder and later).

local call_text = require "agent.call_text"
local calls = require "agent.calls"
local chatml = require "chat.chatml"
local tools = require "agent.tools"

local TOOLS = [[
# Tools

You may call functions to work on the task. Their signatures are within <tools></tools>:
<tools>
%s
</tools>

]]

local HOW = [[
For each call write, with every value on lines of its own and nothing escaped:
<tool_call>
<function=NAME>
<parameter=KEY>
VALUE
</parameter>
</function>
</tool_call>]]

local known  -- what the types of values are taken from

return chatml.format {
  read = function(text, options)
    known = known or tools.load()
    return calls.xml(text, { cut = options.cut, toolset = known })
  end,
  write = call_text.xml,
  respond = chatml.tool_responses,
  how = HOW,
  describe = function(toolset)
    return (TOOLS:gsub("%%s", function() return chatml.schemas(toolset) end)) .. HOW
  end,
}
