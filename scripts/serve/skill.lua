-- Installs khost's skills for an agent, in the layout of Agent Skills: DIR/NAME/SKILL.md, assets/ and references/.
-- Their helper scripts ask a service instead of the host that plays an episode.

local fs = require "khost.fs"
local template = require "run.template"

local skill = {}

local SERVICE = "scripts/serve/installed"

-- Copies a folder of khost's own; links in it are khost's too.
local function copy(from, to)
  local names, message = fs.list(from)
  if not names then
    return nil, message
  end
  local ok
  ok, message = fs.mkdirs(to)
  for _, name in ipairs(ok and names or {}) do
    local inner = name:match("^(.*)/$")
    if inner and inner ~= "__pycache__" then
      ok, message = copy(from .. "/" .. inner, to .. "/" .. inner)
    elseif not inner and name ~= ".gitkeep" then
      local text
      text, message = fs.read(from .. "/" .. name)
      ok = text and fs.write(to .. "/" .. name, text)
    end
    if not ok then
      return nil, message or ("%s/%s cannot be written"):format(to, name)
    end
  end
  return ok, message
end

--- Installs the skill of a target below a folder. An installed one is replaced file by file where `force` says so.
---@param folder string
---@param target "cpu"|"cuda"
---@param force? boolean
---@return string|nil path, string? message   of its SKILL.md
function skill.install(folder, target, force)
  local name = template.skill(target)
  local into, root = folder .. "/" .. name, fs.root()
  if fs.exists(into) and not force then
    return nil, ("%s exists; --force replaces what khost installs there"):format(into)
  end
  local ok, message = copy(root .. "/" .. template.folder(name), into .. "/assets/template")
  if ok then
    ok, message = copy(("%s/%s/utils"):format(root, SERVICE), into .. "/assets/template/utils")
  end
  local examples = ("%s/skills/%s/examples"):format(root, name)
  if ok and fs.exists(examples) == "folder" then
    ok, message = copy(examples, into .. "/references/examples")
  end
  if ok then
    ok, message = fs.write(into .. "/SKILL.md", template.manual(name)
      .. assert(fs.read(("%s/%s/SERVICE.md"):format(root, SERVICE))))
  end
  if not ok then
    return nil, message
  end
  return into .. "/SKILL.md"
end

return skill
