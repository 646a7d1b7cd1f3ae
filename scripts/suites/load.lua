-- Reads suites of tasks: a KernelBench checkout (levels by folder), any folder of task files, packs, JSONL as
-- CUDA-Agent-Ops-6K and KernelBench are released, and Parquet, for which pyarrow is installed when it is first needed.

local beneath = require "lib.beneath"
local cache = require "lib.cache"
local fs = require "khost.fs"
local log = require "khost.log"
local machine = require "khost.machine"
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

local PARQUET_SECONDS, PARQUET_BYTES = 600, 512 * 2 ^ 20
local NO_ARROW = 3  -- of parquet_to_jsonl.py

local function last_part(path)
  return path:match("([^/]+)/*$") or path
end

local function file_task(folder, path, id, level)
  local bytes, message, code = beneath.read(folder, path)
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
  return path:match("%.parquet$") ~= nil or path:match("%.jsonl$") ~= nil
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

-- Paths of a folder that are wanted. Links are told of and left alone.
local function paths_of(folder, keep, depth)
  local function wanted(path, kind)  -- a link without an ending may be one to a folder
    return keep(path) or kind == "link" and visible(path) and not last_part(path):find(".", 1, true)
  end
  local paths, message, code = beneath.files(folder, { keep = wanted, enter = visible, depth = depth,
    refused = function(path, why) log.print(("%s/%s is left out: it is %s"):format(folder, path, why)) end })
  if paths then
    table.sort(paths, natural)
  end
  return paths, message, code
end

local function python_tasks(folder, paths, levels_of)
  local tasks = {}
  for _, path in ipairs(paths) do
    local task, message, code = file_task(folder, path, path:gsub("%.py$", ""), levels_of(path))
    if not task then
      return nil, message, code
    end
    tasks[#tasks + 1] = task
  end
  return tasks
end

-- Where pyarrow is put that the Python of khost does not have; of the cache of its other parts.
local function arrow_folder()
  return cache.folder "pyarrow"
end

local function read_parquet(python, path)
  return machine.run({ python, "-I", fs.root() .. "/scripts/suites/parquet_to_jsonl.py", path, arrow_folder() },
    { timeout_s = PARQUET_SECONDS, output_bytes = PARQUET_BYTES })
end

local function install_arrow(python)
  log.print(("installing pyarrow in %s"):format(arrow_folder()))
  local done, message = machine.run({ python, "-m", "pip", "install", "--disable-pip-version-check", "--quiet",
    "--upgrade", "--target", arrow_folder(), "pyarrow" }, { timeout_s = PARQUET_SECONDS })
  return done and done.code == 0, message or done and done.output:match("([^\n]+)%s*$")
end

-- The rows of a Parquet file as JSON lines.
local function parquet_rows(path)
  local python = fs.env("KHOST_PYTHON") or "python3"
  local done, message = read_parquet(python, path)
  if done and done.code == NO_ARROW then
    local ok, why = install_arrow(python)
    if not ok then
      return nil, ("%s: reading Parquet needs pyarrow, which %s does not have and which could not be installed (%s). "
        .. "Remedy: %s -m pip install --target %s pyarrow, or convert the file to JSON lines"):format(path, python,
        why or "no reason given", python, arrow_folder()), "host"
    end
    done, message = read_parquet(python, path)
  end
  if not done then
    return nil, message, "io"
  end
  if done.code ~= 0 then
    return nil, ("%s: %s"):format(path, done.output:match("([^\n]+)%s*$") or "cannot be read"), "bad_input"
  end
  return done.output
end

-- Parquet and JSONL files, in order, as one suite.
local function from_tables(folder, paths)
  local texts = {}
  for _, path in ipairs(paths) do
    local whole = folder .. "/" .. path
    local text, message, code
    if path:match("%.parquet$") then
      text, message, code = parquet_rows(whole)
    else
      text, message, code = beneath.read(folder, path)
    end
    if not text then
      return nil, message or whole .. ": cannot be read", code or "io"
    end
    texts[#texts + 1] = { text = text, name = whole, unit = path:match("%.parquet$") and "row" or "line",
      level = level_of(path) }
  end
  return records.read(texts)
end

-- What `suite pack` and recipes/synthesize.lua write.
local function from_pack(path, target)
  local tasks, message, code = from_tables(path, { "tasks.jsonl" })
  local caches = tasks and require("suites.pack").caches(path, target)
  for _, task in ipairs(caches and tasks or {}) do
    local file = ("%s/%s.b64"):format(caches, task.hash)
    task.compile_cache = fs.exists(file) == "file" and file or nil
  end
  return tasks, message, code
end

-- The files that a snapshot in the cache of Hugging Face links to lie beside it, in the folder of the same data set.
local function snapshot_files(folder)
  local whole = fs.absolute(folder) or folder
  local home = whole:match("^(.*/datasets%-%-[^/]+)/snapshots/")
  if not home then
    return {}
  end
  local paths = {}
  local function walk(path)
    for _, entry in ipairs(fs.list_beneath(whole, path) or {}) do
      local kind, name = entry:match("^(%a+) (.*)$")
      local below = path == "" and name or path .. "/" .. name
      if kind == "folder" then
        walk(below)
      elseif kind == "link" and is_table(below)
        and (fs.absolute(whole .. "/" .. below) or ""):sub(1, #home + 7) == home .. "/blobs/" then
        paths[#paths + 1] = below
      end
    end
  end
  walk("")
  table.sort(paths, natural)
  return paths
end

local function from_snapshot(folder, paths)
  local texts = {}
  for _, path in ipairs(paths) do
    local whole = folder .. "/" .. path
    local parquet = path:match("%.parquet$") ~= nil
    local text, message, code = (parquet and parquet_rows or fs.read)(whole)
    if not text then
      return nil, message, code
    end
    texts[#texts + 1] = { text = text, name = whole, unit = parquet and "row" or "line", level = level_of(path) }
  end
  return records.read(texts)
end

-- A folder of Python files, and those one folder below; of a KernelBench checkout the folder of its levels. Where there
-- are none: Parquet and JSONL files at any depth, as a data set of Hugging Face has them, and then Python files at any
-- depth.
local function from_folder(path)
  if fs.exists(path .. "/KernelBench/level1") == "folder" then
    path = path .. "/KernelBench"
  end
  local snapshot = snapshot_files(path)
  if #snapshot > 0 then
    return from_snapshot(path, snapshot)
  end
  local function level(file)
    return level_of((file:match("^(.*)/") or last_part(path)) .. "/x")
  end
  local paths, message, code = paths_of(path, is_python, 1)
  if paths and #paths > 0 then
    return python_tasks(path, paths, level)
  end
  if paths then
    paths, message, code = paths_of(path, is_table)
  end
  if paths and #paths > 0 then
    return from_tables(path, paths)
  end
  if paths then
    paths, message, code = paths_of(path, is_python)
  end
  if not paths then
    return nil, message, code
  end
  if #paths == 0 then
    return nil, ("%s: no Python, JSONL or Parquet file there or below"):format(path), "bad_input"
  end
  return python_tasks(path, paths, level)
end

-- Tasks of these levels. What level a task has that says one in other words cannot be told, so that is a failure.
local function of_levels(tasks, levels, path)
  local wanted, kept, without = {}, {}, 0
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
    without = without + (task.level and 0 or 1)
  end
  if without > 0 then
    log.print(("%s: %d of %d tasks have no level and are left out"):format(path, without, #tasks))
  end
  if #kept == 0 then
    return nil, ("%s: no task of these levels"):format(path), "bad_input"
  end
  return kept
end

--- The tasks of a suite: a folder, a .jsonl or a .parquet file, or one .py file.
---@async
---@param path string
---@param options? {levels?: integer[], target?: "cpu"|"cuda"}   only tasks of these levels; whose compile caches of a
---  pack are wanted, "cpu" when absent
---@return SuiteTask[]|nil, string? message, string? code
function load.suite(path, options)
  local tasks, message, code
  local kind = fs.exists(path)
  local whole = kind == "file" and fs.absolute(path) or path  -- a file that its user names may be reached by links
  local folder, name = whole:match("^(.*)/[^/]+$") or ".", last_part(whole)
  if kind == "folder" and beneath.kind(path, "tasks.jsonl") == "file" then
    tasks, message, code = from_pack(path, options and options.target)
  elseif kind == "folder" then
    tasks, message, code = from_folder(path)
  elseif kind == "other" then
    return nil, ("%s: neither a file nor a folder"):format(path), "bad_input"
  elseif kind ~= "file" then
    return nil, ("%s: no such file or folder"):format(path), "bad_input"
  elseif path:match("%.py$") then
    local task
    task, message, code = file_task(folder, name, last_part(path):match("^(.*)%.py$"))
    tasks = task and { task }
  elseif is_table(path) then
    tasks, message, code = from_tables(folder, { name })
  else
    return nil, ("%s: a folder, .py, .jsonl or .parquet expected"):format(path), "bad_input"
  end
  if not tasks or not (options and options.levels and #options.levels > 0) then
    return tasks, message, code
  end
  return of_levels(tasks, options.levels, path)
end

--- Tasks of JSON lines.
---@param text string
---@param name? string   of the file, for messages
---@return SuiteTask[]|nil, string? message, string? code
function load.from_jsonl(text, name)
  return records.read { { text = text, name = name or "the text" } }
end

return load
