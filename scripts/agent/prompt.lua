-- What an agent with tools is told before it begins: the tools, the skill, the task.

local fs = require "khost.fs"

local prompt = {}

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
---@param describe? fun(toolset: Toolset): string   how a chat format tells of the tools; nil where the wire does
---@return {role: string, text: string}[]
function prompt.messages(task, describe)
  local skill = assert(fs.read(("%s/skills/%s/SKILL.md"):format(fs.root(), task.skill or "cpp-kernel")))
  local facts = assert(prompt.front_matter(skill))
  local system = ("You write fast kernels.\n\nSkill %s: %s"):format(facts.name, facts.description)
  if describe then
    system = system .. "\n\n" .. describe(task.toolset)
  end
  return { { role = "system", text = system }, { role = "user", text = (TASK:gsub("%%s", function()
    return task.source
  end)) } }
end

return prompt
