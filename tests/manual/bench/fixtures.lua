-- The candidates of tests/data/kernels for the benchmarks: their files, and what is expected of them.
local fs = require "khost.fs"
local json = require "khost.json"

local fixtures = {}

local INCLUDES = { "/usr/include", "/usr/include/x86_64-linux-gnu", "/usr/local/include", "/usr/local/cuda/include" }

local function folder_of(name) return ("%s/tests/data/kernels/%s"):format(fs.root(), name) end

--- Names of a group's candidates, "cpu/good/row_softmax".
---@param group string
---@return string[]
function fixtures.names(group)
  local names = {}
  for _, entry in ipairs(fs.list(folder_of(group)) or {}) do
    local name = group .. "/" .. entry:gsub("/$", "")
    if fs.exists(folder_of(name) .. "/expected.json") then
      names[#names + 1] = name
    end
  end
  table.sort(names)
  return names
end

--- The body of a request: task, files and target ("cuda/…" and "python/…" name candidates of the GPU). `mark` makes the artefact
--- another one than before, with the same code.
---@param name string
---@param mark? string
---@return table
function fixtures.request(name, mark)
  local folder, files = folder_of(name), {}
  local python = name:find("^python/") ~= nil  -- marked in the module: its extension stays as it was built
  for _, entry in ipairs(fs.list(folder .. "/kernels") or {}) do
    files["kernels/" .. entry] = fs.read(folder .. "/kernels/" .. entry)
      .. (mark and not python and ("// %s\n"):format(mark) or "")
  end
  files["model_new.py"] = fs.read(folder .. "/model_new.py")
  if python and mark then
    files["model_new.py"] = files["model_new.py"] .. ("# %s\n"):format(mark)
  end
  return {
    task = { source = assert(fs.read(folder .. "/model.py")), name = name }, files = files,
    target = name:find("^cpu/") and "cpu" or "cuda",
  }
end

--- The body of a request whose task's first input has so many rows.
---@param body table
---@param rows integer
---@return table body   the same, changed
function fixtures.with_rows(body, rows)
  local changed
  body.task.source, changed = body.task.source:gsub("torch%.randn%(%d+,", ("torch.randn(%d,"):format(rows), 1)
  assert(changed == 1, "a task without torch.randn(ROWS, …)")
  return body
end

--- What a candidate needs and this machine lacks; as cudnn_installed() of sandbox/build/build.cpp looks.
---@param name string
---@return string|nil
function fixtures.lacks(name)
  local needs = fixtures.expected(name).needs
  if not needs then
    return nil
  end
  for _, folder in ipairs(INCLUDES) do
    if fs.exists(folder .. "/" .. needs) then
      return nil
    end
  end
  return needs
end

---@param name string
---@return {status: string|string[], stage?: string, reason?: string, faster?: boolean, twin?: string, victim?: string,
---needs?: string, attack?: string, mechanism?: string}
function fixtures.expected(name)
  return json.decode(assert(fs.read(folder_of(name) .. "/expected.json")))
end

--- Why a candidate's outcome cannot be had yet; nil where it must be met.
---@param name string
---@return string|nil
function fixtures.open(name)
  return json.decode(assert(fs.read(folder_of("open.json"))))[name]
end

--- Whether a word is the wanted one, or one of a list.
---@param wanted string|string[]|nil
---@param word string
---@return boolean
function fixtures.meets(wanted, word)
  if type(wanted) ~= "table" then
    return wanted == nil or wanted == word
  end
  for _, one in ipairs(wanted) do
    if one == word then
      return true
    end
  end
  return false
end

return fixtures
