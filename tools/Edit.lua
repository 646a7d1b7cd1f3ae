-- Edit: replaces exact text in a file that was read.

local files = require "agent.tool_files"
local tools = require "agent.tools"

local AROUND = 3

local function run(context, arguments)
  return files.edit(context, arguments.file_path, function(text, path)
    local changed, at, failed = files.replace(text, arguments.old_string, arguments.new_string, arguments.replace_all)
    if not changed then
      return nil, ("/workspace/%s: %s"):format(path, at), failed
    end
    local last = at + #files.lines(arguments.new_string) - 1
    return changed, ("changed /workspace/%s:\n%s"):format(path,
      files.numbered(files.lines(changed), at - AROUND, math.max(at, last) + AROUND))
  end)
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
