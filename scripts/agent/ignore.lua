-- Which files a search leaves out: hidden ones, and those that .gitignore files of the workspace name, as ripgrep does.
-- We match by ourselves, so that the answer is the same on machines with and without that program.

local files = require "agent.tool_files"
local globs = require "agent.globs"

local ignore = {}

local FILE = ".gitignore"

-- One line of a .gitignore, or nil for a comment.
local function rule_of(line)
  line = line:gsub("\r$", ""):gsub("([^\\])%s+$", "%1")
  if line:match("^%s*$") or line:sub(1, 1) == "#" then
    return nil
  end
  local rule = { keep = line:sub(1, 1) == "!" }
  line = rule.keep and line:sub(2) or line
  line = line:gsub("^\\([#!])", "%1")
  rule.folder = line:sub(-1) == "/"
  line = line:gsub("/$", "")
  rule.anchored = line:find("/", 1, true) ~= nil
  rule.pattern = globs.pattern((line:gsub("^/", "")))
  return rule
end

-- The rules of each folder that has some, by the folder's path ("" is the workspace).
local function rules_of(workspace, found)
  local by_folder = {}
  for _, file in ipairs(found) do
    local folder = file.path == FILE and "" or file.path:match("^(.*)/%.gitignore$")
    if folder then
      local rules = {}
      for _, line in ipairs(files.lines(workspace:read(file.path) or "")) do
        rules[#rules + 1] = rule_of(line)
      end
      by_folder[folder] = rules
    end
  end
  return by_folder
end

-- What the rules say about one name on the way to a file: true (left out), false (kept) or nil. Later rules win, and
-- those of deeper folders.
local function said(by_folder, path, is_folder)
  if next(by_folder) == nil then
    return nil
  end
  local verdict
  local folder, from = "", 1
  while folder do
    local inside = folder == "" and path or path:sub(#folder + 2)
    for _, rule in ipairs(by_folder[folder] or {}) do
      local name = rule.anchored and inside or inside:match("[^/]*$")
      if (is_folder or not rule.folder) and globs.match(rule.pattern, name) then
        verdict = not rule.keep
      end
    end
    local slash = path:find("/", from, true)
    folder, from = slash and path:sub(1, slash - 1), slash and slash + 1
  end
  return verdict
end

-- Whether a folder is left out, or lies in one that is: nothing inside of it comes back. `known` keeps the answers.
local function folder_left_out(by_folder, path, known)
  if known[path] == nil then
    local above = path:match("^(.*)/[^/]*$")
    known[path] = above ~= nil and folder_left_out(by_folder, above, known) or path:find("^%.") ~= nil
      or path:match("[^/]*$"):find("^%.") ~= nil or said(by_folder, path, true) == true
  end
  return known[path]
end

local function left_out(by_folder, path, known)
  local folder, name = path:match("^(.*)/([^/]*)$")
  if (name or path):find("^%.") or folder and folder_left_out(by_folder, folder, known) then
    return true
  end
  return said(by_folder, path, false) == true
end

--- The files below a folder that a search looks at, in the order of their paths.
---@param workspace khost.Workspace
---@param folder string   "" is all
---@return table[]|nil entries, string? message, string? code
function ignore.files(workspace, folder)
  local all, message, code = workspace:files("")
  if not all then
    return nil, message, code
  end
  if folder ~= "" then
    local entry, why, label = workspace:entry(folder)
    if not entry then
      return nil, why, label
    end
  end
  local by_folder, kept, known = rules_of(workspace, all), {}, {}
  for _, file in ipairs(all) do
    local below = folder == "" or file.path == folder or file.path:sub(1, #folder + 1) == folder .. "/"
    if below and not left_out(by_folder, file.path, known) then
      kept[#kept + 1] = file
    end
  end
  return kept
end

return ignore
