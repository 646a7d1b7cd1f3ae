-- Reads files in fenced blocks of what a model wrote. Nothing is repaired silently; whatever is wrong has a label,
-- which becomes a metric.

local parse = {}

local MOST_FENCE = 512  -- bytes of a line that can open or close a block
parse.MOST_PATH = 200   -- bytes of a path
parse.MOST_FILES = 64   -- of an answer

parse.FILE_LABELS = { "no_block", "no_path", "bad_path", "duplicate_path", "nested_fence", "unclosed", "cut",
  "empty_file", "too_many_files" }

--- Whether a candidate may have a file of this path: kernels/… or model_new.py.
---@param path string
---@return boolean
function parse.legal_path(path)
  if path == "model_new.py" then
    return true
  end
  if #path > parse.MOST_PATH or not path:match("^kernels/[%w_][%w_./-]*$") or path:sub(-1) == "/" then
    return false
  end
  for part in path:gmatch("[^/]+") do
    if part:match("^%.") then
      return false
    end
  end
  return not path:find("//", 1, true)
end

--- A path that is a file and, by another path, a folder: no folder can hold both. nil where there is none.
---@param files table<string, string>
---@return string|nil
function parse.clash(files)
  for path in pairs(files) do
    local folder = path:match("^(.*)/[^/]+$")
    while folder do
      if files[folder] then
        return folder
      end
      folder = folder:match("^(.*)/[^/]+$")
    end
  end
end

local function lines_of(text)
  return (text:gsub("\r\n", "\n") .. "\n"):gmatch("(.-)\n")
end

-- The path in "cpp kernels/k.cpp", or nil and a label.
local function path_of(info, files)
  local path = info:match("^%S+%s+(%S+)$")
  if not path then
    return nil, "no_path"
  elseif not parse.legal_path(path) then
    return nil, "bad_path"
  elseif files[path] then
    return nil, "duplicate_path"
  end
  return path
end

--- The files in an answer: fenced blocks whose info string is a language and a path, "cpp kernels/k.cpp".
--- A longer fence may hold shorter ones. `cut`: the answer ended because of a limit.
---@param text string
---@param options? {cut?: boolean}
---@return table<string, string>|nil files, string prose_or_label   what stood outside of blocks, or why there are none
function parse.files(text, options)
  local files, prose, count = {}, {}, 0
  local path, fence, body
  for line in lines_of(text) do
    local ticks, info
    if #line < MOST_FENCE then
      ticks, info = line:match("^(```+)(.*)$")
      -- In two steps, neither of which goes back over a long run of blanks.
      info = ticks and ((info:match("%S.*") or ""):match(".*%S") or "")
    end
    if not path and ticks then
      local label
      path, label = path_of(info, files)
      if not path or count == parse.MOST_FILES then
        return nil, label or "too_many_files"
      end
      fence, body = #ticks, {}
    elseif path and ticks and #ticks >= fence then
      if info ~= "" then
        return nil, "nested_fence"
      elseif #body == 0 then
        return nil, "empty_file"
      end
      files[path], count, path = table.concat(body, "\n") .. "\n", count + 1, nil
    elseif path then
      body[#body + 1] = line
    elseif line:match("%S") then
      prose[#prose + 1] = line
    end
  end
  if path then
    return nil, options and options.cut and "cut" or "unclosed"
  elseif count == 0 then
    return nil, "no_block"
  elseif parse.clash(files) then
    return nil, "bad_path"
  end
  return files, table.concat(prose, "\n")
end

--- Files as an answer carries them, in order of their paths.
---@param files table<string, string>
---@return string
function parse.render(files)
  local paths, out = {}, {}
  for path in pairs(files) do
    paths[#paths + 1] = path
  end
  table.sort(paths)
  for _, path in ipairs(paths) do
    local fence = "```"
    for ticks in ("\n" .. files[path]):gmatch("\n(```+)") do
      fence = #ticks >= #fence and ticks .. "`" or fence
    end
    local language = path:match("%.py$") and "python" or path:match("%.cu$") and "cuda" or "cpp"
    out[#out + 1] = ("%s%s %s\n%s%s\n"):format(fence, language, path, files[path], fence)
  end
  return table.concat(out)
end

return parse
