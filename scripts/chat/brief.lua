-- Formats of tool calls under a short system message, for models that are trained here: every tool in one line instead
-- of a JSON schema, and the digest of the skill. Answers and observations are those of the format itself.

local chatml = require "chat.chatml"

local brief = {}

local TOOLS = [[
# Tools

Call these functions to work on the task. Text needs no type; "?" marks what may be left out:
%s

]]

--- The short form of a format of tool calls.
---@param format table   chat.hermes, chat.xml
---@return table
function brief.of(format)
  local form = {}
  for name, value in pairs(format.form) do
    form[name] = value
  end
  form.brief = true
  function form.describe(toolset)
    return (TOOLS:gsub("%%s", function() return toolset:signatures() end)) .. form.how
  end
  return chatml.format(form)
end

return brief
