-- What a hunt begins with: workspaces of a corpus (tests/data/kernels), as bodies of requests.

local fs = require "khost.fs"
local json = require "khost.json"

local candidates = {}

-- What stands in a folder, or in folders below it for a path that ends with "*".
local function files_of(folder)
  local files = { ["model_new.py"] = fs.read(folder .. "/model_new.py") }
  for _, name in ipairs(fs.list(folder .. "/kernels") or {}) do
    if not name:find("/$") then
      files["kernels/" .. name] = fs.read(folder .. "/kernels/" .. name)
    end
  end
  return files
end

--- The candidates of groups of a corpus, in the order of their names. What has no kernel to change is left out.
---@param corpus string
---@param groups string[]   "cpu/good", "cpu/cheat", "cuda/good", …
---@return {name: string, source: string, files: table<string, string>, expected: table}[]
function candidates.load(corpus, groups)
  local list = {}
  for _, group in ipairs(groups) do
    for _, entry in ipairs(fs.list(corpus .. "/" .. group) or {}) do
      local name = group .. "/" .. entry:gsub("/$", "")
      local folder = corpus .. "/" .. name
      local source, files = fs.read(folder .. "/model.py"), files_of(folder)
      local expected = fs.read(folder .. "/expected.json")
      local kernels = 0
      for path in pairs(files) do
        kernels = kernels + (path:find("^kernels/") and 1 or 0)
      end
      if source and expected and kernels > 0 then
        list[#list + 1] = { name = name, source = source, files = files, expected = json.decode(expected) }
      end
    end
  end
  table.sort(list, function(a, b) return a.name < b.name end)
  return list
end

return candidates
