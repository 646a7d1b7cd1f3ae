-- What an agent with tools is told before it begins: the tools, the skill, the task.

local fs = require "khost.fs"

local prompt = {}

local TASK = [[
The workspace is /workspace. `model.py` in it is the reference; read SKILL.md for how kernels are written, checked and timed.
Write kernels that compute what Model.forward computes and are faster than eager PyTorch and torch.compile by at least 5 %.
When the best version stands in the workspace, answer without a call.

model.py:

%s]]

local BRIEF_TASK = [[
The workspace is /workspace. %s

model.py:

%s]]

-- What is wanted of a task, for a model that learns: `timed == false` marks tasks that are verified and not timed.
local WANTED = {
  timed = "Make model.py's forward faster than eager PyTorch and torch.compile by at least 5 %.",
  verified = "Compute what model.py's forward computes; this task is verified and not timed.",
}

-- One text after the other in the places of a form, whatever signs they hold.
local function filled(form, ...)
  local texts, at = { ... }, 0
  return (form:gsub("%%s", function()
    at = at + 1
    return texts[at]
  end))
end

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

local function read(skill, name)
  return assert(fs.read(("%s/skills/%s/%s"):format(fs.root(), skill, name)))
end

--- The first messages of an episode.
---@param task {source: string, toolset: Toolset, skill?: string, timed?: boolean}   skill: a folder below skills/
---@param describe? fun(toolset: Toolset): string   how a chat format tells of the tools; nil where the wire does
---@param brief? boolean   the skill's DIGEST.md instead of its name, and a short task: models that are trained here
---@return {role: string, text: string}[]
function prompt.messages(task, describe, brief)
  local skill = task.skill or "cpp-kernel"
  local system, user
  if brief then
    system = read(skill, "DIGEST.md"):gsub("\n$", "")
    user = filled(BRIEF_TASK, task.timed == false and WANTED.verified or WANTED.timed, task.source)
  else
    local facts = assert(prompt.front_matter(read(skill, "SKILL.md")))
    system = ("You write fast kernels.\n\nSkill %s: %s"):format(facts.name, facts.description)
    user = filled(TASK, task.source)
  end
  if describe then
    system = system .. "\n\n" .. describe(task.toolset)
  end
  return { { role = "system", text = system }, { role = "user", text = user } }
end

return prompt
