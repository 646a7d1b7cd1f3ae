-- Rules that the file tools share: paths, what was read in this session, and messages that help when text is not found.

local fs = require "khost.fs"
local sandbox = require "khost.sandbox"

local files = {}

local INSIDE = "/workspace"
local MOST_COLUMNS = 2000

local MAGIC = {
  { "\127ELF", "ELF" }, { "\137PNG", "PNG" }, { "%PDF", "PDF" }, { "PK\3\4", "zip" },
  { "\31\139", "gzip" }, { "!<arch>", "archive" },
}

--- The path relative to the workspace, or nil, message, label.
---@param path string absolute, or relative to the workspace
---@return string|nil, string?, string?
function files.resolve(path)
  local relative = path
  if path == INSIDE then
    relative = ""
  elseif path:sub(1, #INSIDE + 1) == INSIDE .. "/" then
    relative = path:sub(#INSIDE + 2)
  elseif path:sub(1, 1) == "/" then
    return nil, ("%s lies outside %s, where the file tools work; Bash reaches other readable paths")
      :format(path, INSIDE), "outside_workspace"
  end
  if ("/" .. relative .. "/"):find("/../", 1, true) then
    return nil, path .. ": write the path without ..", "outside_workspace"
  end
  return (relative:gsub("/+", "/"):gsub("^%./", ""):gsub("/$", ""))
end

--- Type of a binary file, nil for text.
function files.binary_type(text)
  for _, magic in ipairs(MAGIC) do
    if text:sub(1, #magic[1]) == magic[1] then
      return magic[2]
    end
  end
  return text:sub(1, 8192):find("\0", 1, true) and "data" or nil
end

--- Remembers that the agent knows this content of a file.
function files.remember(context, path, text)
  context.state.read = context.state.read or {}
  context.state.read[path] = fs.sha256(text)
end

--- The content of a file that the agent may change now: it was read in this session and is as it was then.
---@return string|nil, string?, string?
function files.current(context, path)
  local text, message, code = context.workspace:read(path)
  if not text then
    return nil, message, code == "io" and "not_found" or code
  end
  local known = (context.state.read or {})[path]
  if not known then
    return nil, ("%s/%s has not been read in this session: Read it first"):format(INSIDE, path), "not_read"
  end
  if known ~= fs.sha256(text) then
    return nil, ("%s/%s has changed since it was read (by a command, or by a former edit elsewhere): "
      .. "Read it again"):format(INSIDE, path), "changed"
  end
  return text
end

--- The path, relative to the workspace, of a file that the agent may write: not one that belongs to the task. Or nil,
--- message, label.
---@param context table
---@param path string absolute, or relative to the workspace
---@return string|nil, string?, string?
function files.target(context, path)
  local relative, why, label = files.resolve(path)
  if not relative then
    return nil, why, label
  end
  if relative == "" then
    return nil, "a file is needed, not the workspace itself", "bad_path"
  end
  if context.workspace:protected(relative) then
    return nil, ("%s/%s is protected: the task's files, the skill and its utilities stay as they are; "
      .. "write in kernels/ and model_new.py"):format(INSIDE, relative), "protected"
  end
  return relative
end

--- Writes and remembers.
---@return boolean|nil, string?, string?
function files.save(context, path, text)
  local ok, message, code = context.workspace:write(path, text)
  if not ok then
    return nil, message, code
  end
  files.remember(context, path, text)
  return true
end

--- Lines without their ends, the last empty one left out.
function files.lines(text)
  local lines = {}
  for line in (text:sub(-1) == "\n" and text or text .. "\n"):gmatch("(.-)\n") do
    lines[#lines + 1] = line
  end
  return text == "" and {} or lines
end

--- One line as it is shown: a long one is cut before the limit, but not inside a character.
---@param line string
---@return string
function files.cut(line)
  if #line <= MOST_COLUMNS then
    return line
  end
  local stop = MOST_COLUMNS
  while stop > 0 and line:byte(stop + 1) >= 128 and line:byte(stop + 1) < 192 do
    stop = stop - 1
  end
  return line:sub(1, stop) .. (" ... [%d more bytes]"):format(#line - stop)
end

--- Text of at most so many bytes: when it is longer, its head and its tail with a notice between them, and all of it in
--- a file that the notice names.
---@param context table
---@param text string
---@param most_bytes integer
---@param name string   of the file, made unique
---@return string
function files.shorten(context, text, most_bytes, name)
  if #text <= most_bytes then
    return text
  end
  context.state.shortened = (context.state.shortened or 0) + 1
  local path = (".khost/%s-%d.txt"):format(name:gsub("[^%w_]", "_"), context.state.shortened)
  local kept = context.workspace:write(path, text)
  return sandbox.clean(text, most_bytes) .. (kept and ("\n[all of it: %s/%s]"):format(INSIDE, path) or "")
end

function files.numbered(lines, first, last)
  local shown = {}
  for i = math.max(1, first), math.min(last, #lines) do
    shown[#shown + 1] = ("%6d\t%s"):format(i, lines[i])
  end
  return table.concat(shown, "\n")
end

--- Positions of the plain text `part`, not overlapping, with the line numbers they begin at.
function files.find_all(text, part)
  local found, from, line, counted = {}, 1, 1, 1
  while true do
    local begin, stop = text:find(part, from, true)
    if not begin then
      return found
    end
    for _ in text:sub(counted, begin - 1):gmatch("\n") do
      line = line + 1
    end
    counted = begin
    found[#found + 1] = { begin = begin, stop = stop, line = line }
    from = stop + 1
  end
end

local function squeeze(line)
  return (line:gsub("%s+", " "):gsub("^ ", ""):gsub(" $", ""))
end

-- Line of `lines` where the most lines of `wanted` in a row are equal up to blanks.
local function closest(lines, wanted)
  local best, best_score = nil, 0
  for i = 1, #lines do
    local score = 0
    for k, line in ipairs(wanted) do
      local here = lines[i + k - 1]
      if here and squeeze(line) ~= "" and squeeze(here) == squeeze(line) then
        score = score + 1
      end
    end
    if score > best_score then
      best, best_score = i, score
    end
  end
  return best, best_score
end

local function reason(text, old, lines, wanted, at)
  if old:find("^%s*%d+\t") then
    return "the text begins with a line number copied from Read: leave the numbers and the tab out"
  end
  if text:find("\r\n", 1, true) and text:gsub("\r\n", "\n"):find((old:gsub("\r\n", "\n")), 1, true) then
    return "lines of the file end in \\r\\n"
  end
  if not at then
    return "no line of it is in the file"
  end
  for k, line in ipairs(wanted) do
    local here = lines[at + k - 1] or ""
    if here ~= line then
      if squeeze(here) ~= squeeze(line) then
        return ("it differs first at line %d"):format(at + k - 1)
      end
      if here:gsub("%s+$", "") == line:gsub("%s+$", "") then
        return ("line %d differs in blanks at its end"):format(at + k - 1)
      end
      local tabs = here:find("\t", 1, true) and not line:find("\t", 1, true)
      return tabs and ("line %d is indented with tabs"):format(at + k - 1)
        or ("line %d differs in its blanks"):format(at + k - 1)
    end
  end
  return "it differs in the line ends"
end

--- Replaces in memory, exact bytes only. Returns the new text and the line of the first change, or nil, message, label.
---@return string|nil, integer|string, string?
function files.replace(text, old, new, all)
  if old == new then
    return nil, "old_string and new_string are equal", "no_change"
  end
  if old == "" then
    return nil, "old_string is empty; Write makes a new file", "empty_old_string"
  end
  local found = files.find_all(text, old)
  if #found == 0 then
    local lines, wanted = files.lines(text), files.lines(old)
    local at = closest(lines, wanted)
    local message = "old_string was not found: " .. reason(text, old, lines, wanted, at)
    if at then
      message = message .. "; closest region:\n" .. files.numbered(lines, at - 1, at + #wanted)
    end
    return nil, message, "not_found"
  end
  if #found > 1 and not all then
    local at = {}
    for i, match in ipairs(found) do
      at[i] = match.line
    end
    return nil, ("old_string occurs %d times (lines %s): add surrounding lines to make it unique, or set "
      .. "replace_all"):format(#found, table.concat(at, ", ")), "ambiguous"
  end
  local parts, from = {}, 1
  for _, match in ipairs(found) do
    parts[#parts + 1] = text:sub(from, match.begin - 1)
    parts[#parts + 1] = new
    from = match.stop + 1
  end
  parts[#parts + 1] = text:sub(from)
  return table.concat(parts), found[1].line
end

--- A glob relative to the workspace, also when it was written as an absolute path.
function files.below(pattern)
  return (pattern:gsub("^" .. INSIDE .. "/", ""))
end

--- Changes one file that was read: its text goes through `change(text, path)`, which gives the new text and what the
--- agent is told, or nil, a message and a label; then it is saved.
---@param context table
---@param file_path string
---@param change fun(text: string, path: string): string|nil, string, string?
---@param read? fun(context: table, path: string): string|nil, string?, string?   instead of `current`
---@return string|nil told, string? message, string? label
function files.edit(context, file_path, change, read)
  local path, why, label = files.target(context, file_path)
  if not path then
    return nil, why, label
  end
  local text, problem, because = (read or files.current)(context, path)
  if not text then
    return nil, problem, because
  end
  local changed, told, failed = change(text, path)
  if not changed then
    return nil, told, failed
  end
  local saved, failure, code = files.save(context, path, changed)
  if not saved then
    return nil, failure, code
  end
  return told
end

return files
