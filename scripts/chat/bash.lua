-- The chat format of models without tool calls: one fenced block of bash in each answer. Files are read and written by
-- commands. An answer whose command says so ends the episode, since an answer without a block is a mistake.

local calls = require "agent.calls"
local chatml = require "chat.chatml"

local DONE = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"

local SHELL = [[
# Commands

Each answer holds a thought and exactly one command in a fenced block:

```bash
your command
```

Directory, variables and functions persist between commands. When the best version stands in the workspace, answer with

```bash
%s
```]]

local EXPLAINED = {
  no_block = "the answer has no ```bash block; write exactly one",
  several_blocks = "the answer has several ```bash blocks, and none of them was run; write exactly one",
  unclosed = "the ```bash block is not closed; nothing was run",
}

return chatml.format {
  read = calls.bash,
  respond = function(observations)
    return observations[1].text
  end,
  is_final = function(parsed)
    local call = parsed.calls[1]
    return call ~= nil and call.arguments.command:find("^%s*" .. DONE .. "%s*$") ~= nil
  end,
  describe = function()
    return SHELL:format(DONE)
  end,
  explain = function(label)
    return EXPLAINED[label] or label
  end,
}
