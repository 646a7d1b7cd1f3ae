-- Edit: replaces exact text in a file that was read.

local files = require "agent.tool_files"
local tools = require "agent.tools"

local AROUND = 3

local function run(context, arguments)
  local path, why, label = files.target(context, arguments.file_path)
  if not path then
    return nil, why, label
  end
  local text, problem, reason = files.current(context, path)
  if not text then
    return nil, problem, reason
  end
  local changed, at, failed = files.replace(text, arguments.old_string, arguments.new_string,
    arguments.replace_all)
  if not changed then
    return nil, ("/workspace/%s: %s"):format(path, at), failed
  end
  local saved, failure, code = files.save(context, path, changed)
  if not saved then
    return nil, failure, code
  end
  local lines = files.lines(changed)
  local last = at + #files.lines(arguments.new_string) - 1
  return ("changed /workspace/%s:\n%s"):format(path,
    files.numbered(lines, at - AROUND, math.max(at, last) + AROUND))
end

return tools.define {
  name = "Edit",
  summary = "Replaces exact text in a file that was read. old_string must occur once, unless replace_all is set.",
  parameters = {
    { name = "file_path", type = "string", required = true, summary = "absolute path, /workspace/..." },
    { name = "old_string", type = "string", required = true, summary = "text to replace, without line numbers" },
    { name = "new_string", type = "string", required = true, summary = "text to put in its place" },
    { name = "replace_all", type = "boolean", summary = "replace every occurrence" },
  },
  run = run,
}
