-- Glob: files by name, newest first.

local files = require "agent.tool_files"
local globs = require "agent.globs"
local ignore = require "agent.ignore"
local tools = require "agent.tools"

local MOST = 100

local function run(context, arguments)
  local folder, why, label = files.resolve(arguments.path or "/workspace")
  if not folder then
    return nil, why, label
  end
  local found, message, code = ignore.files(context.workspace, folder)
  if not found then
    return nil, message, code == "io" and "not_found" or code
  end
  local pattern = globs.pattern(files.below(arguments.pattern))
  local matching = {}
  for _, file in ipairs(found) do
    local name = folder == "" and file.path or file.path:sub(#folder + 2)
    if globs.match(pattern, name) then
      matching[#matching + 1] = file
    end
  end
  table.sort(matching, function(a, b)
    if a.mtime_s ~= b.mtime_s then
      return a.mtime_s > b.mtime_s
    end
    return a.path < b.path
  end)
  local lines = {}
  for i = 1, math.min(#matching, MOST) do
    lines[i] = "/workspace/" .. matching[i].path
  end
  if #matching > MOST then
    lines[#lines + 1] = ("[%d of %d files]"):format(MOST, #matching)
  end
  return #lines > 0 and table.concat(lines, "\n") or "[no files]"
end

return tools.define {
  name = "Glob",
  read_only = true,
  summary = "Lists files whose path matches a pattern (*, **, ?, [abc], {a,b}), newest first, at most 100.",
  parameters = {
    { name = "pattern", type = "string", required = true, summary = "for example kernels/**/*.cpp" },
    { name = "path", type = "string", summary = "folder to look in; the workspace when absent" },
  },
  run = run,
}
