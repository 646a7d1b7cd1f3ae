-- Between the two forms of a solution: one Python file, as KernelBench takes them, and a workspace of several files, as
-- CUDA-Agent and khost have them. A single file carries the workspace's files as text, compiles them when it is loaded
-- and defines ModelNew; unfolding gives back the same bytes. A single file of somebody else's, which brings its
-- extension itself (load_inline), is the model_new.py of a workspace without kernels, and folds to itself.

local beneath = require "lib.beneath"
local fs = require "khost.fs"
local json = require "khost.json"

local workspace = {}

local MARK = "# khost single file 1: a workspace folded by `khost suite single`"
local BEGIN, END = "# >>> model_new.py", "# <<< model_new.py"
local HEADER = "utils/khost.h"

-- A Python literal, one line of the text on each of its lines. JSON's escapes are Python's, but for "\/".
local function literal(text)
  local lines = {}
  for line in text:gmatch("[^\n]*\n?") do
    if line ~= "" then
      lines[#lines + 1] = "        " .. json.encode(line):gsub("\\/", "/")
    end
  end
  return #lines == 0 and '""' or "(\n" .. table.concat(lines, "\n") .. "\n    )"
end

local function sorted_paths(files)
  local paths = {}
  for path in pairs(files) do
    paths[#paths + 1] = path
  end
  table.sort(paths)
  return paths
end

local function is_kernel(path)
  return path:match("^kernels/.+%.%a+$") ~= nil
end

local function defines_solution(text)
  return ("\n" .. text):find("\nclass%s+ModelNew%f[^%w_]") ~= nil
end

--- The files of a workspace that belong to its solution: model.py, model_new.py, kernels and khost.h.
---@param folder string
---@return table<string, string>|nil, string? message, string? code
function workspace.read(folder)
  if fs.exists(folder) ~= "folder" then
    return nil, ("%s: no such folder"):format(folder), "bad_input"
  end
  local paths, message, code = {}, nil, nil
  if beneath.kind(folder, "kernels") then
    paths, message, code = beneath.files(folder, { under = "kernels", keep = is_kernel })
  end
  if not paths then
    return nil, message, code
  end
  for _, path in ipairs { "model.py", "model_new.py", HEADER } do
    paths[#paths + 1] = path
  end
  local files = {}
  for _, path in ipairs(paths) do
    files[path], message, code = beneath.read(folder, path)
    if message then
      return nil, message, code
    end
  end
  return files
end

--- One Python file with ModelNew.
---@param files table<string, string>   by path
---@return string|nil, string? message, string? code
function workspace.fold(files)
  if not files["model_new.py"] then
    return nil, "a single file needs model_new.py with class ModelNew; this workspace has none", "bad_input"
  end
  local carried, kernels = {}, 0
  for path, text in pairs(files) do
    if path ~= "model_new.py" then
      carried[path] = text
      kernels = kernels + (is_kernel(path) and 1 or 0)
    end
  end
  local solution = files["model_new.py"]
  if defines_solution(solution) and not solution:find("cuda_extension", 1, true) then
    return solution  -- which brings its extension itself
  end
  if kernels == 0 then
    return nil, "there is no file in kernels/", "bad_input"
  end
  carried[HEADER] = carried[HEADER] or assert(fs.read(fs.root() .. "/skills/cpp-kernel/template/" .. HEADER))
  local parts = { MARK, "import torch", "", "FILES = {" }
  for _, path in ipairs(sorted_paths(carried)) do
    parts[#parts + 1] = ("    %s: %s,"):format(json.encode(path):gsub("\\/", "/"), literal(carried[path]))
  end
  parts[#parts + 1] = "}\n\n\n" .. assert(fs.read(fs.root() .. "/scripts/suites/single_runtime.py"))
  -- No line break of ours between the marks: the text comes back as it is.
  return table.concat(parts, "\n") .. ("\n%s\n%s\n%s\n"):format(BEGIN, files["model_new.py"], END)
end

local function carried_files(text)
  local files = {}
  local body = assert(text:match("\nFILES = {\n(.-)\n}\n\n\ndef bind_launchers"), "a single file without its files")
  local path, lines
  for line in (body .. "\n"):gmatch("(.-)\n") do
    local named, rest = line:match('^    (".-"): (.*)$')
    if named then
      path, lines = json.decode(named), {}
      files[path] = rest == '"",' and "" or nil
    elseif line == "    )," then
      files[path] = table.concat(lines)
    else
      lines[#lines + 1] = json.decode(line:match("^%s*(.*)$"))
    end
  end
  return files
end

--- The files of a workspace: of a folded solution all that it carries, of another one its model_new.py, of a task its
--- model.py. `template` is laid under.
---@param text string
---@param template? table<string, string>
---@return table<string, string>
function workspace.unfold(text, template)
  local files = {}
  for path, content in pairs(template or {}) do
    files[path] = content
  end
  if text:sub(1, #MARK) ~= MARK then
    files[defines_solution(text) and "model_new.py" or "model.py"] = text
    return files
  end
  for path, content in pairs(carried_files(text)) do
    files[path] = content
  end
  local from = select(2, text:find("\n" .. BEGIN .. "\n", 1, true)) + 1
  local to = assert(text:find("\n" .. END .. "\n", from, true), "a single file without its end")
  files["model_new.py"] = text:sub(from, to - 1)
  return files
end

--- SKILL.md and the template files of a skill, by path.
---@param skill string
---@return table<string, string>
function workspace.template(skill)
  local root, files = ("%s/skills/%s"):format(fs.root(), skill), {}
  if fs.exists(root) ~= "folder" then
    error(("no skill '%s'"):format(skill), 2)
  end
  files["SKILL.md"] = fs.read(root .. "/SKILL.md")
  local function walk(place)
    for _, name in ipairs(fs.list(root .. "/template/" .. place) or {}) do
      if name:sub(-1) == "/" then
        walk(place .. name)
      else
        files[place .. name] = fs.read(root .. "/template/" .. place .. name)
      end
    end
  end
  walk("")
  return files
end

return workspace
