-- Folders that a stranger filled: a candidate's workspace, a suite. No link in them is followed, and what is no regular
-- file (a pipe, a device) is not opened: whoever runs khost may read more than who wrote the folder.

local fs = require "khost.fs"
local sched = require "khost.sched"

local beneath = {}

beneath.MOST_BYTES = 64 * 2 ^ 20   -- of one file
local MOST_ENTRIES, MOST_DEPTH = 20000, 32   -- files and folders of a walk
local AT_ONCE = 32   -- folders that are read before others have their turn

local function name_of(folder)
  return type(folder) == "string" and folder or folder:path()
end

local REFUSED = { link = "a symbolic link, which is not followed here: put the file itself there",
  other = "neither a file nor a folder, and is not read" }

---@class (exact) BeneathOptions
---@field under? string      a folder below, instead of all
---@field depth? integer     folders below it that are entered; all when absent, and too many are a failure
---@field keep? fun(path: string, kind: "file"|"link"|"other"): boolean   what is wanted; all when absent
---@field enter? fun(path: string): boolean  which folders are entered; all when absent
---@field refused? fun(path: string, why: string)   told of links, pipes and devices, which are a failure when it is
---absent

--- Paths of regular files below a folder, sorted. A folder costs more than a file, and a service walks those of its
--- clients: all that lies there counts in the limit, and others have their turn meanwhile.
---@async
---@param folder string|khost.Folder
---@param options? BeneathOptions
---@return string[]|nil, string? message, string? code
function beneath.files(folder, options)
  options = options or {}
  local found, seen, folders = {}, 0, 0
  local function too_many(what)
    return nil, ("%s: %s"):format(name_of(folder), what), "limit"
  end
  local walk
  local function enter(whole, depth)
    if options.depth and depth > options.depth or options.enter and not options.enter(whole) then
      return true
    elseif depth > MOST_DEPTH then
      return too_many(("folders that lie deeper than %d folders"):format(MOST_DEPTH))
    end
    return walk(whole, depth)
  end
  local function keep(whole, kind)
    if options.keep and not options.keep(whole, kind) then
      return true
    elseif kind == "file" then
      found[#found + 1] = whole
    elseif options.refused then
      options.refused(whole, REFUSED[kind])
    else
      return nil, ("%s/%s is %s"):format(name_of(folder), whole, REFUSED[kind]), "bad_input"
    end
    return true
  end
  function walk(path, depth)
    folders = folders + 1
    if folders % AT_ONCE == 0 then sched.sleep(0) end
    local names, message, code = fs.list_beneath(folder, path)
    if not names then return nil, message, code end
    seen = seen + #names
    if seen > MOST_ENTRIES then return too_many(("more than %d files and folders"):format(MOST_ENTRIES)) end
    for _, entry in ipairs(names) do
      local kind, name = entry:match("^(%a+) (.*)$")
      local whole = path == "" and name or path .. "/" .. name
      local ok
      if kind == "folder" then
        ok, message, code = enter(whole, depth + 1)
      else
        ok, message, code = keep(whole, kind)
      end
      if not ok then return nil, message, code end
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
