-- Grep: files or lines that match a regular expression, in the order of their paths.

local files = require "agent.tool_files"
local globs = require "agent.globs"
local ignore = require "agent.ignore"
local tools = require "agent.tools"

local MOST = 100
local MOST_BYTES = 30000
local TYPES = {
  c = { "c", "h" }, cpp = { "cpp", "cc", "cxx", "hpp", "hh", "h" }, cuda = { "cu", "cuh" }, py = { "py" },
  md = { "md" }, json = { "json" }, txt = { "txt" },
}

local function wanted(arguments, path)
  if arguments.glob then
    local name = arguments.glob:find("/", 1, true) and path or path:match("[^/]*$")
    if not globs.match(globs.pattern(arguments.glob), name) then
      return false
    end
  end
  if arguments.type then
    local extension = path:match("%.([^./]+)$")
    for _, known in ipairs(TYPES[arguments.type]) do
      if extension == known then
        return true
      end
    end
    return false
  end
  return true
end

local function candidates(context, arguments)
  local path, why, label = files.resolve(arguments.path or "/workspace")
  if not path then
    return nil, why, label
  end
  local entry, message, code = context.workspace:entry(path)
  if not entry then
    return nil, message, code == "io" and "not_found" or code
  end
  if not entry.folder then
    return { path }
  end
  local found, problem, reason = ignore.files(context.workspace, path)
  if not found then
    return nil, problem, reason
  end
  local paths = {}
  for _, file in ipairs(found) do
    if wanted(arguments, file.path) then
      paths[#paths + 1] = file.path
    end
  end
  return paths
end

-- Matching lines and those around them; matches are marked ":", others "-", gaps "--".
local function content(context, arguments, found)
  local out = {}
  local before = arguments["-B"] or arguments["-C"] or 0
  local after = arguments["-A"] or arguments["-C"] or 0
  for _, file in ipairs(found) do
    local lines = files.lines(context.workspace:read(file.path) or "")
    local hit, last = {}, nil
    for _, number in ipairs(file.lines) do
      hit[number] = true
    end
    for _, number in ipairs(file.lines) do
      for i = math.max(number - before, (last or 0) + 1, 1), math.min(number + after, #lines) do
        if (before > 0 or after > 0) and #out > 0 and i ~= (last or -1) + 1 then
          out[#out + 1] = "--"
        end
        local mark = hit[i] and ":" or "-"
        local shown = arguments["-n"] == false and "" or i .. mark
        out[#out + 1] = ("/workspace/%s%s%s%s"):format(file.path, mark, shown, files.cut(lines[i]))
        last = i
      end
    end
  end
  return out
end

local function run(context, arguments)
  if arguments.type and not TYPES[arguments.type] then
    return nil, "type must be one of c, cpp, cuda, json, md, py, txt", "wrong_enum"
  end
  local paths, why, label = candidates(context, arguments)
  if not paths then
    return nil, why, label
  end
  local found, message, code = context.workspace:grep(paths, arguments.pattern,
    { ignore_case = arguments["-i"], multiline = arguments.multiline })
  if not found then
    return nil, message, code == "bad_input" and "bad_pattern" or code
  end
  local mode, out = arguments.output_mode or "files_with_matches", {}
  if mode == "content" then
    out = content(context, arguments, found)
  else
    for i, file in ipairs(found) do
      out[i] = "/workspace/" .. file.path .. (mode == "count" and ":" .. #file.lines or "")
    end
  end
  local most = math.max(arguments.head_limit or MOST, 1)
  local total = #out
  for i = total, most + 1, -1 do
    out[i] = nil
  end
  if total > most then
    out[#out + 1] = ("[%d of %d lines]"):format(most, total)
  end
  return #out > 0 and files.shorten(context, table.concat(out, "\n"), MOST_BYTES, "grep") or "[no matches]"
end

return tools.define {
  name = "Grep",
  read_only = true,
  summary = "Searches files with a regular expression (PCRE). Gives paths, matching lines or counts.",
  parameters = {
    { name = "pattern", type = "string", required = true, summary = "regular expression" },
    { name = "path", type = "string", summary = "file or folder; the workspace when absent" },
    { name = "glob", type = "string", summary = "only files of this name pattern" },
    { name = "type", type = "string", summary = "only files of a kind: c, cpp, cuda, py, md, json, txt" },
    { name = "output_mode", type = "string", enum = { "files_with_matches", "content", "count" },
      summary = "files_with_matches when absent" },
    { name = "-i", type = "boolean", summary = "ignore case" },
    { name = "-n", type = "boolean", summary = "line numbers in content (on when absent)" },
    { name = "-A", type = "integer", summary = "lines after a match" },
    { name = "-B", type = "integer", summary = "lines before a match" },
    { name = "-C", type = "integer", summary = "lines around a match" },
    { name = "multiline", type = "boolean", summary = "a match may span lines" },
    { name = "head_limit", type = "integer", summary = "at most so many lines of answer, 100 when absent" },
  },
  run = run,
}
