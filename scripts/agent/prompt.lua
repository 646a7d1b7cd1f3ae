-- What an agent with tools is told before it begins: the tools, the skill, the task.

local fs = require "khost.fs"
local json = require "khost.json"

local prompt = {}

local TOOLS = [[
# Tools

You may call one or more functions to work on the task. Their signatures are within <tools></tools>:
<tools>
%s
</tools>

For each call return a JSON object with the function's name and arguments within <tool_call></tool_call>:
<tool_call>
{"name": NAME, "arguments": ARGUMENTS}
</tool_call>]]

local TASK = [[
The workspace is /workspace. `model.py` in it is the reference; read SKILL.md for how kernels are written, checked and timed.
Write kernels that compute what Model.forward computes and are faster than eager PyTorch and torch.compile by at least 5 %.
When the best version stands in the workspace, answer without a call.

model.py:

%s]]

--- The front matter of a skill: its name and description.
---@param text string   of a SKILL.md
---@return {name: string, description: string}|nil, string? message
function prompt.front_matter(text)
  local head = text:match("^%-%-%-\n(.-)\n%-%-%-\n")
  if not head then
    return nil, "SKILL.md has no front matter"
  end
  local name, description = head:match("name:%s*([^\n]+)"), head:match("description:%s*([^\n]+)")
  if not name or not description then
    return nil, "SKILL.md names no name or no description"
  end
  return { name = name, description = description }
end

--- The first messages of an episode.
---@param task {source: string, toolset: Toolset, skill?: string}   skill: a folder below skills/
---@return {role: string, text: string}[]
function prompt.messages(task)
  local schemas = {}
  for index, schema in ipairs(task.toolset:schemas()) do
    schemas[index] = json.encode(schema)
  end
  local skill = assert(fs.read(("%s/skills/%s/SKILL.md"):format(fs.root(), task.skill or "cpp-kernel")))
  local facts = assert(prompt.front_matter(skill))
  local system = ("You write fast kernels.\n\nSkill %s: %s\n\n%s"):format(facts.name, facts.description,
    TOOLS:format(table.concat(schemas, "\n")))
  return { { role = "system", text = system }, { role = "user", text = (TASK:gsub("%%s", function()
    return task.source
  end)) } }
end

return prompt
