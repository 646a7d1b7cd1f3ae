-- What a workspace holds before anybody wrote into it: the headers that come with the C++ skill.

local fs = require "khost.fs"

local template = {}

template.FOLDER = "skills/cpp-kernel/template"
template.HEADERS = { "kernels/fast.h" }

--- A candidate's files together with the template's headers, which they hide when they have the same path.
---@param files table<string, string>
---@return table<string, string>
function template.with(files)
  local all = {}
  for _, path in ipairs(template.HEADERS) do
    all[path] = assert(fs.read(("%s/%s/%s"):format(fs.root(), template.FOLDER, path)))
  end
  for path, text in pairs(files) do
    all[path] = text
  end
  return all
end

return template
