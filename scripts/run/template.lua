-- What a workspace holds before anybody wrote into it: the template of the skill that goes with a target.

local fs = require "khost.fs"
local steady = require "lib.steady"

local template = {}

local SKILLS = { cpu = "cpp-kernel", cuda = "cuda-kernel" }

--- The skill of a target: a folder below skills/.
---@param target "cpu"|"cuda"
---@return string
function template.skill(target)
  return SKILLS[target] or error(("target %s: cpu or cuda expected"):format(tostring(target)), 2)
end

--- The folder that a workspace begins with, relative to khost's root.
---@param skill string
---@return string
function template.folder(skill)
  return ("skills/%s/template"):format(skill)
end

--- The text of a skill's SKILL.md.
---@param skill string
---@return string
function template.manual(skill)
  return steady.read(("%s/skills/%s/SKILL.md"):format(fs.root(), skill), fs.read)
end

-- What kernels of a skill may include: the files in kernels/ of its template.
local function headers(skill)
  local files = {}
  local folder = ("%s/%s/kernels"):format(fs.root(), template.folder(skill))
  for _, name in ipairs(steady.read(folder, fs.list)) do
    if name:sub(1, 1) ~= "." and name:sub(-1) ~= "/" then
      files["kernels/" .. name] = steady.read(folder .. "/" .. name, fs.read)
    end
  end
  return files
end

--- A candidate's files together with the template's headers, which they hide when they have the same path.
---@param files table<string, string>
---@param skill? string   cpp-kernel when absent
---@return table<string, string>
function template.with(files, skill)
  local all = headers(skill or SKILLS.cpu)
  for path, text in pairs(files) do
    all[path] = text
  end
  return all
end

return template
