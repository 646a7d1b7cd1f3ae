-- Reads suites of tasks: a KernelBench checkout (levels by folder), any folder of task files, packs, JSONL as
-- CUDA-Agent-Ops-6K and KernelBench are released, and Parquet, for which pyarrow is installed when it is first needed.

local cache = require "lib.cache"
local fs = require "khost.fs"
local json = require "khost.json"
local log = require "khost.log"
local machine = require "khost.machine"

local load = {}

---@class (exact) SuiteTask
---@field id string        unique in its suite: "level1/19_ReLU", "softmax_gelu"
---@field name string
---@field source string    Python with Model, get_inputs and get_init_inputs
---@field hash string      sha256 of the source
---@field level? integer
---@field compile_cache? string   file with what the compiler of a machine like this one made of it (suites/pack.lua)
---@field origin? table    what else the suite said of it (JSONL fields but the source)

-- Where releases put the program. CUDA-Agent-Ops-6K and KernelBench: `code`.
local SOURCE_FIELDS = { "source", "code", "pytorch_code", "python_code", "program", "reference" }
local NAME_FIELDS = { "id", "task_id", "name", "uuid" }
local PARQUET_SECONDS, PARQUET_BYTES = 600, 512 * 2 ^ 20
local NO_ARROW = 3  -- of parquet_to_jsonl.py

local function level_of(folder)
  local level = folder:lower():match("^level[_%-]?(%d+)$")
  return level and tonumber(level)
end

local function file_task(path, id, level)
  local source, message = fs.read(path)
  if not source then
    return nil, message
  end
  return { id = id, name = id:match("([^/]+)$"), source = source, hash = fs.sha256(source), level = level }
end

-- By the number that begins a name, as KernelBench's files are meant to be read, then by name.
local function natural(a, b)
  local x, y = tonumber(a:match("^(%d+)")), tonumber(b:match("^(%d+)"))
  if x and y and x ~= y then
    return x < y
  end
  return a < b
end

local function python_files(folder)
  local names = {}
  for _, name in ipairs(fs.list(folder) or {}) do
    if name:match("%.py$") and name ~= "__init__.py" then
      names[#names + 1] = name
    end
  end
  table.sort(names, natural)
  return names
end

local function add_folder(tasks, folder, prefix, level)
  for _, name in ipairs(python_files(folder)) do
    local task, message = file_task(folder .. "/" .. name, prefix .. name:gsub("%.py$", ""), level)
    if not task then
      return nil, message
    end
    tasks[#tasks + 1] = task
  end
  return true
end

-- A folder, its subfolders that hold Python files, and of a KernelBench checkout the folder of its levels.
local function from_folder(path)
  if fs.exists(path .. "/KernelBench/level1") == "folder" then
    path = path .. "/KernelBench"
  end
  local tasks, folders = {}, {}
  local ok, message = add_folder(tasks, path, "", level_of(path:match("([^/]+)/*$") or ""))
  for _, name in ipairs(ok and fs.list(path) or {}) do
    if name:sub(-1) == "/" and not name:match("^%.") then
      folders[#folders + 1] = name:sub(1, -2)
    end
  end
  table.sort(folders, natural)
  for _, name in ipairs(folders) do
    ok, message = add_folder(tasks, path .. "/" .. name, name .. "/", level_of(name))
    if not ok then
      break
    end
  end
  if not ok then
    return nil, message, "io"
  end
  if #tasks == 0 then
    return nil, ("%s: no Python file there, nor one folder below"):format(path), "bad_input"
  end
  return tasks
end

local function first_of(record, names)
  for _, name in ipairs(names) do
    if record[name] ~= nil and record[name] ~= json.null then
      return record[name], name
    end
  end
end

local function record_task(record, number)
  local source, field = first_of(record, SOURCE_FIELDS)
  if type(source) ~= "string" then
    local keys = {}
    for key in pairs(record) do
      keys[#keys + 1] = tostring(key)
    end
    table.sort(keys)
    return nil, ("record %d has no source: one of %s expected, fields are %s"):format(number,
      table.concat(SOURCE_FIELDS, ", "), table.concat(keys, ", "))
  end
  local given = first_of(record, NAME_FIELDS)
  local id = type(given) == "string" and given or ("task-%05d"):format(number)
  local origin = {}
  for key, value in pairs(record) do
    if key ~= field and key ~= "id" and key ~= "level" and key ~= "name" then
      origin[key] = value
    end
  end
  return { id = id, name = type(record.name) == "string" and record.name or id, source = source,
    hash = fs.sha256(source), level = tonumber(record.level), origin = next(origin) and origin or nil }
end

--- Tasks of JSON lines. Names that stand twice get a number behind them.
---@param text string
---@return SuiteTask[]|nil, string? message, string? code
function load.from_jsonl(text)
  local tasks, taken, number = {}, {}, 0
  for line in text:gmatch("[^\n]+") do
    number = number + 1
    if line:match("%S") then
      local record = json.decode(line)
      if type(record) ~= "table" then
        return nil, ("line %d is no JSON object"):format(number), "bad_input"
      end
      local task, message = record_task(record, number)
      if not task then
        return nil, message, "bad_input"
      end
      taken[task.id] = (taken[task.id] or 0) + 1
      if taken[task.id] > 1 then
        task.id = ("%s-%d"):format(task.id, taken[task.id])
      end
      tasks[#tasks + 1] = task
    end
  end
  if #tasks == 0 then
    return nil, "no task in it", "bad_input"
  end
  return tasks
end

-- What `suite pack` and recipes/synthesize.lua write.
local function from_pack(path)
  local text, why, what = fs.read(path .. "/tasks.jsonl")
  if not text then
    return nil, why, what
  end
  local tasks, message, code = load.from_jsonl(text)
  local caches = tasks and require("suites.pack").caches(path)
  for _, task in ipairs(caches and tasks or {}) do
    local file = ("%s/%s.b64"):format(caches, task.hash)
    task.compile_cache = fs.exists(file) == "file" and file or nil
  end
  return tasks, message and ("%s/tasks.jsonl: %s"):format(path, message), code
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

local function from_parquet(path)
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
  return load.from_jsonl(done.output)
end

--- The tasks of a suite: a folder, a .jsonl or a .parquet file, or one .py file.
---@async
---@param path string
---@param options? {levels?: integer[]}   only tasks of these levels
---@return SuiteTask[]|nil, string? message, string? code
function load.suite(path, options)
  local tasks, message, code
  local kind = fs.exists(path)
  if kind == "folder" and fs.exists(path .. "/tasks.jsonl") == "file" then
    tasks, message, code = from_pack(path)
  elseif kind == "folder" then
    tasks, message, code = from_folder(path)
  elseif kind ~= "file" then
    return nil, ("%s: no such file or folder"):format(path), "bad_input"
  elseif path:match("%.py$") then
    local task
    task, message = file_task(path, path:match("([^/]+)%.py$"))
    tasks, code = task and { task }, "io"
  elseif path:match("%.jsonl$") then
    local text
    text, message, code = fs.read(path)
    if text then
      tasks, message, code = load.from_jsonl(text)
      message = message and ("%s: %s"):format(path, message)
    end
  elseif path:match("%.parquet$") then
    tasks, message, code = from_parquet(path)
  else
    return nil, ("%s: a folder, .py, .jsonl or .parquet expected"):format(path), "bad_input"
  end
  if not tasks or not (options and options.levels and #options.levels > 0) then
    return tasks, message, code
  end
  local wanted, kept = {}, {}
  for _, level in ipairs(options.levels) do
    wanted[level] = true
  end
  for _, task in ipairs(tasks) do
    if wanted[task.level] then
      kept[#kept + 1] = task
    end
  end
  if #kept == 0 then
    return nil, ("%s: no task of these levels"):format(path), "bad_input"
  end
  return kept
end

return load
