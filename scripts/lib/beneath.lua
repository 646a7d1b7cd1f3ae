-- Folders that a stranger filled: a candidate's workspace, a suite. No link in them is followed, and what is no regular
-- file (a pipe, a device) is not opened: whoever runs khost may read more than who wrote the folder.

local fs = require "khost.fs"

local beneath = {}

beneath.MOST_BYTES = 64 * 2 ^ 20   -- of one file
local MOST_FILES, MOST_DEPTH = 20000, 32

local function name_of(folder)
  return type(folder) == "string" and folder or folder:path()
end

local REFUSED = { link = "a symbolic link, which is not followed here: put the file itself there",
  other = "neither a file nor a folder, and is not read" }

---@class (exact) BeneathOptions
---@field under? string      a folder below, instead of all
---@field depth? integer     folders below it that are entered; all when absent
---@field keep? fun(path: string, kind: "file"|"link"|"other"): boolean   what is wanted; all when absent
---@field enter? fun(path: string): boolean  which folders are entered; all when absent
---@field refused? fun(path: string, why: string)   told of links, pipes and devices, which are a failure when it is
---absent

--- Paths of regular files below a folder, sorted.
---@param folder string|khost.Folder
---@param options? BeneathOptions
---@return string[]|nil, string? message, string? code
function beneath.files(folder, options)
  options = options or {}
  local found = {}
  local function walk(path, depth)
    local names, message, code = fs.list_beneath(folder, path)
    if not names then return nil, message, code end
    for _, entry in ipairs(names) do
      local kind, name = entry:match("^(%a+) (.*)$")
      local whole = path == "" and name or path .. "/" .. name
      if kind == "folder" then
        if depth < (options.depth or MOST_DEPTH) and (not options.enter or options.enter(whole)) then
          local ok
          ok, message, code = walk(whole, depth + 1)
          if not ok then return nil, message, code end
        end
      elseif not options.keep or options.keep(whole, kind) then
        if kind == "file" then
          found[#found + 1] = whole
        elseif options.refused then
          options.refused(whole, REFUSED[kind])
        else
          return nil, ("%s/%s is %s"):format(name_of(folder), whole, REFUSED[kind]), "bad_input"
        end
      end
      if #found > MOST_FILES then
        return nil, ("%s: more than %d files"):format(name_of(folder), MOST_FILES), "limit"
      end
    end
    return true
  end
  local ok, message, code = walk(options.under or "", 0)
  if not ok then return nil, message, code end
  table.sort(found)
  return found
end

--- The text of a file below a folder; nil and no message when there is none.
---@param folder string|khost.Folder
---@param path string
---@return string|nil, string? message, string? code
function beneath.read(folder, path)
  local text, message, code = fs.read_beneath(folder, path, beneath.MOST_BYTES)
  if code == "io" and not beneath.kind(folder, path) then return nil end
  return text, message, code
end

--- "file", "folder", "link", "other", or nil when there is nothing of that name.
---@param folder string|khost.Folder
---@param path string
---@return string|nil
function beneath.kind(folder, path)
  local parent, name = path:match("^(.*)/([^/]+)$")
  for _, entry in ipairs(fs.list_beneath(folder, parent or "") or {}) do
    local kind, other = entry:match("^(%a+) (.*)$")
    if other == (name or path) then return kind end
  end
end

return beneath
