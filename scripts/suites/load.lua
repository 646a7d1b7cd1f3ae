-- Reads suites of tasks: a KernelBench checkout (levels by folder), folders of task files at any depth, packs, JSONL
-- and Parquet as CUDA-Agent-Ops-6K, KernelBench and CUDA-L1 are released, also in a snapshot of Hugging Face's cache.
-- What is left out is named and counted (left_out.lua).

local beneath = require "lib.beneath"
local fs = require "khost.fs"
local left_out = require "suites.left_out"
local parquet = require "suites.parquet"
local records = require "suites.records"
local source_text = require "lib.source_text"

local load = {}

---@class (exact) SuiteTask
---@field id string        unique in its suite: "level1/19_ReLU", "softmax_gelu"
---@field name string
---@field source string    Python with Model, get_inputs and get_init_inputs
---@field hash string      sha256 of the source
---@field level? integer
---@field compile_cache? string   file with what the compiler of a machine like this one made of it (suites/pack.lua)
---@field origin? table    what else the suite said of it (JSONL fields but the source)

-- Forms of data sets that are not read; their names end so.
local OTHER_FORMS = { "%.arrow$", "%.csv$", "%.tsv$", "%.feather$", "%.jsonl?%.gz$", "%.jsonl?%.zst$", "%.jsonl?%.xz$",
  "%.jsonl?%.bz2$", "%.tar$", "%.tar%.%w+$", "%.zip$" }

local function last_part(path)
  return path:match("([^/]+)/*$") or path
end

local function reader_of(folder)
  return function(path) return beneath.read(folder, path) end
end

local function file_task(folder, path, id, level, read)
  local bytes, message, code = (read or reader_of(folder))(path)
  local source
  if bytes then
    source, message, code = source_text.decode(bytes, folder .. "/" .. path)
  end
  if not source then
    return nil, message or ("%s/%s: cannot be read"):format(folder, path), code or "io"
  end
  return { id = id, name = last_part(id), source = source, hash = fs.sha256(source), level = level }
end

-- By the number that begins a name, as KernelBench's files are meant to be read, then by name; folders likewise, and
-- the files of a folder before those of its folders.
local function natural(a, b)
  local folder_a, folder_b = a:match("^(.*)/") or "", b:match("^(.*)/") or ""
  if folder_a ~= folder_b then
    a, b = folder_a, folder_b
  else
    a, b = last_part(a), last_part(b)
  end
  local x, y = tonumber(a:match("^(%d+)")), tonumber(b:match("^(%d+)"))
  if x and y and x ~= y then
    return x < y
  end
  return a < b
end

local function is_python(path)
  return path:match("%.py$") ~= nil and last_part(path) ~= "__init__.py"
end

local function is_table(path)
  return path:match("%.parquet$") ~= nil or path:match("%.jsonl$") ~= nil or path:match("%.ndjson$") ~= nil
end

local function is_other_form(path)
  for _, pattern in ipairs(OTHER_FORMS) do
    if path:lower():match(pattern) then
      return true
    end
  end
  return false
end

local function visible(path)
  local name = last_part(path)
  return name:sub(1, 1) ~= "." and name ~= "__pycache__"
end

-- The level that a path tells: of level_1-00000-of-00001.parquet, or of the folder that holds it.
local function level_of(path)
  for part in (path:reverse() .. "/"):gmatch("(.-)/") do
    local level = part:reverse():lower():match("^level[_%-]?(%d+)%f[%D]")
    if level then
      return tonumber(level)
    end
  end
end

-- Paths of a folder that are wanted, at any depth. Links are told of and left alone.
local function paths_of(folder, keep, left)
  local function wanted(path, kind)  -- a link without an ending may be one to a folder
    return keep(path) or kind == "link" and visible(path) and not last_part(path):find(".", 1, true)
  end
  local paths, message, code = beneath.files(folder, { keep = wanted, enter = visible,
    refused = function(path, why) left:add(folder .. "/" .. path, "it is " .. why) end })
  if paths then
    table.sort(paths, natural)
  end
  return paths, message, code
end

-- A class of that name, an assignment to it or an import of it.
local function defines_model(source)
  local text = "\n" .. source:gsub("\r", "\n")
  return text:find("\n[ \t]*class[ \t]+Model%f[^%w_]") or text:find("\n[ \t]*Model[ \t]*[=:]")
    or text:find("import[^\n]*%f[%w_]Model%f[^%w_]")
end

local function python_tasks(folder, paths, levels_of, left, read)
  local tasks = {}
  for _, path in ipairs(paths) do
    local task, message = file_task(folder, path, path:gsub("%.py$", ""), levels_of(path), read)
    if not task then
      left:add(folder .. "/" .. path, message)
    elseif not defines_model(task.source) then
      left:add(folder .. "/" .. path, "it defines no class Model, so it is no task")
    else
      tasks[#tasks + 1] = task
    end
  end
  return tasks
end

-- Tables, in order, as one suite. `read(path)` gives the text of one.
local function from_tables(folder, paths, left, read)
  local texts = {}
  for _, path in ipairs(paths) do
    local whole, is_parquet = folder .. "/" .. path, path:match("%.parquet$") ~= nil
    local text, message, code = (is_parquet and parquet.rows or read)(is_parquet and whole or path)
    if not text then
      return nil, message or whole .. ": cannot be read", code or "io"
    end
    texts[#texts + 1] = { text = text, name = whole, unit = is_parquet and "row" or "line", level = level_of(path) }
  end
  return records.read(texts, left)
end

-- What `suite pack` and recipes/synthesize.lua write.
local function from_pack(path, left, target)
  local tasks, message, code = from_tables(path, { "tasks.jsonl" }, left, reader_of(path))
  local caches = tasks and require("suites.pack").caches(path, target)
  for _, task in ipairs(caches and tasks or {}) do
    local file = ("%s/%s.b64"):format(caches, task.hash)
    task.compile_cache = fs.exists(file) == "file" and file or nil
  end
  return tasks, message, code
end

-- The snapshot that a folder of Hugging Face's cache stands for: the one of refs/main, or the only one.
local function snapshot_of(folder)
  local main = beneath.kind(folder, "refs/main") == "file" and beneath.read(folder, "refs/main")
  local name = main and main:match("^%s*([%w_%-%.]+)%s*$")
  if name and beneath.kind(folder, "snapshots/" .. name) == "folder" then
    return folder .. "/snapshots/" .. name
  end
  local found
  local entries = beneath.kind(folder, "snapshots") == "folder" and fs.list_beneath(folder, "snapshots")
  for _, entry in ipairs(entries or {}) do
    local only = entry:match("^folder (.*)$")
    if only and found then
      return folder
    end
    found = only and folder .. "/snapshots/" .. only or found
  end
  return found or folder
end

-- The files that a snapshot in the cache of Hugging Face links to lie beside it, in the folder of the same data set.
local function snapshot_files(folder)
  local whole = fs.absolute(folder) or folder
  local home = whole:match("^(.*/datasets%-%-[^/]+)/snapshots/")
  local paths = {}
  local function walk(path)
    for _, entry in ipairs(fs.list_beneath(whole, path) or {}) do
      local kind, name = entry:match("^(%a+) (.*)$")
      local below = path == "" and name or path .. "/" .. name
      if kind == "folder" then
        walk(below)
      elseif kind == "link" and (fs.absolute(whole .. "/" .. below) or ""):sub(1, #home + 7) == home .. "/blobs/" then
        paths[#paths + 1] = below
      end
    end
  end
  if home then
    walk("")
    table.sort(paths, natural)
  end
  return paths
end

local function chosen(paths, keep)
  local list = {}
  for _, path in ipairs(paths) do
    list[#list + 1] = keep(path) and path or nil
  end
  return list
end

local function from_snapshot(folder, paths, left)
  local tables, pythons = chosen(paths, is_table), chosen(paths, is_python)
  local read = function(path) return fs.read(folder .. "/" .. path) end
  for _, path in ipairs(chosen(paths, is_other_form)) do
    left:add(folder .. "/" .. path, "files of this form are not read")
  end
  if #tables > 0 then
    for _, path in ipairs(pythons) do
      left:add(folder .. "/" .. path, "the snapshot's tables hold its tasks")
    end
    return from_tables(folder, tables, left, read)
  end
  return python_tasks(folder, pythons, function(path) return level_of((path:match("^(.*)/") or "") .. "/x") end, left,
    read)
end

-- A folder of Python files at any depth; of a KernelBench checkout the folder of its levels. Tables at any depth are
-- read instead where the folder and the folders in it hold no Python file that is a task.
local function from_folder(path, left)
  path = snapshot_of(path)
  if fs.exists(path .. "/KernelBench/level1") == "folder" then
    path = path .. "/KernelBench"
  end
  local snapshot = snapshot_files(path)
  if #snapshot > 0 then
    return from_snapshot(path, snapshot, left)
  end
  local function level(file)
    return level_of((file:match("^(.*)/") or last_part(path)) .. "/x")
  end
  local paths, message, code = paths_of(path, function(name)
    return is_python(name) or is_table(name) or is_other_form(name)
  end, left)
  if not paths then
    return nil, message, code
  end
  local pythons, tables = chosen(paths, is_python), chosen(paths, is_table)
  local tasks = python_tasks(path, pythons, level, left)
  local near = #chosen(tasks, function(task) return select(2, task.id:gsub("/", "")) <= 1 end) > 0
  local by_tables = not near and #tables > 0
  for _, task in ipairs(by_tables and tasks or {}) do
    left:add(("%s/%s.py"):format(path, task.id), "the folder's tables hold its tasks")
  end
  for _, other in ipairs(by_tables and {} or tables) do
    left:add(path .. "/" .. other, "the folder's Python files are its tasks; to read this file, name it")
  end
  for _, other in ipairs(chosen(paths, is_other_form)) do
    left:add(path .. "/" .. other, "files of this form are not read")
  end
  if by_tables then
    return from_tables(path, tables, left, reader_of(path))
  elseif #tasks == 0 then
    local why = left.items[1] and ("; %s: %s"):format(left.items[1].item, left.items[1].reason) or ""
    return nil, ("%s: no Python, JSONL or Parquet file there or below with a task in it%s"):format(path, why),
      "bad_input"
  end
  return tasks
end

-- Tasks of these levels. What level a task has that says one in other words cannot be told, so that is a failure.
local function of_levels(tasks, levels, path, left)
  local wanted, kept = {}, {}
  for _, level in ipairs(levels) do
    wanted[level] = true
  end
  for _, task in ipairs(tasks) do
    local said = not task.level and task.origin and task.origin.level
    if said then
      return nil, ("%s: the level of task '%s' is '%s': a number, or \"level2\", expected where --level chooses")
        :format(path, task.id, tostring(said)), "bad_input"
    end
    kept[#kept + 1] = wanted[task.level] and task or nil
    if not task.level then
      left:add(("%s: task '%s'"):format(path, task.id), "it has no level")
    end
  end
  if #kept == 0 then
    return nil, ("%s: no task of these levels"):format(path), "bad_input"
  end
  return kept
end

--- The tasks of a suite: a folder, a .jsonl or a .parquet file, or one .py file.
---@async
---@param path string
---@param options? {levels?: integer[], target?: "cpu"|"cuda", left_out?: fun(items: {item: string, reason: string}[])}
---  levels: only tasks of these; target: whose compile caches of a pack are wanted, "cpu" when absent; left_out: who is
---  told of what is left out, instead of the screen
---@return SuiteTask[]|nil, string? message, string? code
function load.suite(path, options)
  local tasks, message, code
  local left = left_out.new(path)
  local kind = fs.exists(path)
  local whole = kind == "file" and fs.absolute(path) or path  -- a file that its user names may be reached by links
  local folder, name = whole:match("^(.*)/[^/]+$") or ".", last_part(whole)
  if kind == "folder" and beneath.kind(path, "tasks.jsonl") == "file" then
    tasks, message, code = from_pack(path, left, options and options.target)
  elseif kind == "folder" then
    tasks, message, code = from_folder(path, left)
  elseif kind == "other" then
    return nil, ("%s: neither a file nor a folder"):format(path), "bad_input"
  elseif kind ~= "file" then
    return nil, ("%s: no such file or folder"):format(path), "bad_input"
  elseif path:match("%.py$") then
    local task
    task, message, code = file_task(folder, name, last_part(path):match("^(.*)%.py$"))
    tasks = task and { task }
  elseif is_table(path) or path:match("%.json$") then
    tasks, message, code = from_tables(folder, { name }, left, reader_of(folder))
  else
    return nil, ("%s: a folder, .py, .jsonl or .parquet expected"):format(path), "bad_input"
  end
  if tasks and options and options.levels and #options.levels > 0 then
    tasks, message, code = of_levels(tasks, options.levels, path, left)
  end
  if options and options.left_out then
    options.left_out(left.items)
  else
    left:tell(tasks and #tasks or 0)
  end
  return tasks, message, code
end

--- Tasks of JSON lines.
---@param text string
---@param name? string   of the file, for messages
---@return SuiteTask[]|nil, string? message, string? code
function load.from_jsonl(text, name)
  return records.read({ { text = text, name = name or "the text" } }, left_out.new(name or "the text"))
end

return load
