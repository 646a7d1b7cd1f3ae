-- MultiEdit: several replacements in one file, in order, all or nothing.

local files = require "agent.tool_files"
local tools = require "agent.tools"

local function run(context, arguments)
  local edits = arguments.edits
  local function start_text(_, path)
    if #edits == 0 then
      return nil, "edits is empty", "no_change"
    elseif context.workspace:entry(path) then
      return files.current(context, path)
    elseif edits[1].old_string ~= "" then
      return nil, ("/workspace/%s does not exist; an empty first old_string creates it"):format(path), "not_found"
    end
    return ""
  end
  return files.edit(context, arguments.file_path, function(text, path)
    for i, edit in ipairs(edits) do
      local changed, at, failed
      if i == 1 and edit.old_string == "" and text == "" then
        changed = edit.new_string
      else
        changed, at, failed = files.replace(text, edit.old_string, edit.new_string, edit.replace_all)
      end
      if not changed then
        return nil, ("/workspace/%s is unchanged, edit %d failed: %s"):format(path, i, at), failed
      end
      text = changed
    end
    return text, ("changed /workspace/%s: %d edits"):format(path, #edits)
  end, start_text)
end

return tools.define {
  name = "MultiEdit",
  summary = "Makes several exact replacements in one file, each on the result of the former; all of them or none.",
  parameters = {
    { name = "file_path", type = "string", required = true, summary = "absolute path, /workspace/..." },
    { name = "edits", type = "array", required = true, summary = "in order",
      items = { type = "object", fields = {
        { name = "old_string", type = "string", required = true, summary = "text to replace" },
        { name = "new_string", type = "string", required = true, summary = "text to put in its place" },
        { name = "replace_all", type = "boolean", summary = "replace every occurrence" },
      } } },
  },
  run = run,
}
