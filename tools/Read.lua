-- Read: lines of a file with their numbers.

local files = require "agent.tool_files"
local tools = require "agent.tools"

local MOST_LINES = 2000
local MOST_BYTES = 50000

local function listing(context, path)
  local found, message, code = context.workspace:files(path)
  if not found then
    return nil, message, code
  end
  local names = {}
  for i = 1, math.min(#found, 100) do
    names[i] = "/workspace/" .. found[i].path
  end
  return nil, "that is a folder; files in it:\n" .. table.concat(names, "\n"), "is_folder"
end

local function run(context, arguments)
  local path, why, label = files.resolve(arguments.file_path)
  if not path then
    return nil, why, label
  end
  local entry, message, code = context.workspace:entry(path)
  if not entry then
    return nil, message, code == "io" and "not_found" or code
  end
  if entry.folder then
    return listing(context, path)
  end
  local text
  text, message, code = context.workspace:read(path)
  if not text then
    return nil, message, code
  end
  local kind = files.binary_type(text)
  if kind then
    return nil, ("%s is a binary file (%s, %d bytes)"):format(arguments.file_path, kind, #text), "binary"
  end
  files.remember(context, path, text)
  local lines = files.lines(text)
  if #lines == 0 then
    return "[the file is empty]"
  end
  local first, most = math.max(arguments.offset or 1, 1), arguments.limit or MOST_LINES
  if first > #lines or (arguments.offset or 1) < 0 then
    return nil, ("the file has %d lines, offset is %d"):format(#lines, arguments.offset), "bad_offset"
  elseif most < 1 then
    return nil, ("limit is a number of lines from 1, not %d"):format(most), "bad_limit"
  end
  local last = math.min(#lines, first + math.min(most, MOST_LINES) - 1)
  local shown, bytes = {}, 0
  for i = first, last do
    local line = files.cut(lines[i])
    bytes = bytes + #line + 8
    if bytes > MOST_BYTES and i > first then
      last = i - 1
      break
    end
    shown[#shown + 1] = ("%6d\t%s"):format(i, line)
  end
  if last < #lines then
    shown[#shown + 1] = ("[lines %d to %d of %d; go on with offset %d]"):format(first, last, #lines, last + 1)
  end
  return table.concat(shown, "\n")
end

return tools.define {
  name = "Read",
  read_only = true,
  summary = "Shows a text file of the workspace with line numbers. A file must be read before it is changed.",
  parameters = {
    { name = "file_path", type = "string", required = true, summary = "absolute path, /workspace/..." },
    { name = "offset", type = "integer", summary = "first line, from 1" },
    { name = "limit", type = "integer", summary = "number of lines, at most 2000" },
  },
  run = run,
}
