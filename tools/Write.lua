-- Write: a whole file; an existing one must have been read.

local files = require "agent.tool_files"
local tools = require "agent.tools"

local function run(context, arguments)
  local path, why, label = files.target(context, arguments.file_path)
  if not path then
    return nil, why, label
  end
  local exists = context.workspace:entry(path) ~= nil
  if exists then
    local known, problem, reason = files.current(context, path)
    if not known then
      return nil, problem, reason
    end
  end
  local saved, failure, code = files.save(context, path, arguments.content)
  if not saved then
    return nil, failure, code
  end
  return ("%s /workspace/%s (%d lines, %d bytes)"):format(exists and "overwrote" or "created", path,
    #files.lines(arguments.content), #arguments.content)
end

return tools.define {
  name = "Write",
  summary = "Writes a file of the workspace, replacing what is there. An existing file must have been read first.",
  parameters = {
    { name = "file_path", type = "string", required = true, summary = "absolute path, /workspace/..." },
    { name = "content", type = "string", required = true, summary = "the whole content" },
  },
  run = run,
}
