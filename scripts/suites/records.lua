-- Tasks of JSON lines, as CUDA-Agent-Ops-6K and KernelBench are released. Nothing is left out in silence: a record that
-- cannot be read is named by its file and line.

local fs = require "khost.fs"
local json = require "khost.json"

local records = {}

-- Where releases put the program. CUDA-Agent-Ops-6K and KernelBench: `code`.
local SOURCE_FIELDS = { "source", "code", "pytorch_code", "python_code", "program", "reference" }
local NAME_FIELDS = { "id", "task_id", "name", "uuid", "problem_id" }
local BYTE_ORDER_MARK = "\239\187\191"

--- The level of "level2", "Level 2", "L2", "2" or 2; nil when it is none.
---@param value any
---@return integer|nil
function records.level(value)
  local number = tonumber(value)
  if not number and type(value) == "string" then
    number = tonumber(value:lower():match("^%s*l[evel]*[%s_%-]*(%d+)%s*$"))
  end
  return number and number == math.floor(number) and number or nil
end

-- Python's json writes NaN and infinities, for which JSON has no form: null stands for them. Strings are left alone.
local function with_null(line)
  local out, at = {}, 1
  while at <= #line do
    local quote = line:find('"', at, true)
    local outside = line:sub(at, (quote or #line + 1) - 1)
    out[#out + 1] = outside:gsub("%-?%f[%a]Infinity%f[%A]", "null"):gsub("%f[%a]NaN%f[%A]", "null")
    if not quote then break end
    local close = quote + 1
    while close <= #line and line:sub(close, close) ~= '"' do
      close = close + (line:sub(close, close) == "\\" and 2 or 1)
    end
    out[#out + 1] = line:sub(quote, close)
    at = close + 1
  end
  return table.concat(out)
end

local function decoded(line)
  local record = json.decode(line)
  if record == nil then record = json.decode(with_null(line)) end
  return type(record) == "table" and record or nil
end

local function first_of(record, names)
  for _, name in ipairs(names) do
    if record[name] ~= nil and record[name] ~= json.null then
      return record[name], name
    end
  end
end

local function name_of(value)
  if type(value) == "string" and value ~= "" then return value end
  return type(value) == "number" and ("%.14g"):format(value) or nil
end

local function task_of(record, level)
  local source, field = first_of(record, SOURCE_FIELDS)
  if type(source) ~= "string" then
    local keys = {}
    for key in pairs(record) do
      keys[#keys + 1] = tostring(key)
    end
    table.sort(keys)
    return nil, ("has no source: one of %s expected, fields are %s"):format(table.concat(SOURCE_FIELDS, ", "),
      table.concat(keys, ", "))
  end
  local id
  for _, name in ipairs(NAME_FIELDS) do
    id = id or name_of(record[name])
  end
  local given = record.level ~= json.null and record.level or nil
  local origin = {}
  for key, value in pairs(record) do
    if key ~= field and key ~= "id" and key ~= "name" and (key ~= "level" or given and not records.level(given)) then
      origin[key] = value
    end
  end
  return { id = id, name = type(record.name) == "string" and record.name or id, source = source,
    hash = fs.sha256(source), level = records.level(given or level), origin = next(origin) and origin or nil }
end

-- Ids that stand twice get a number behind them that no other id has.
local function tell_apart(tasks)
  local taken = {}
  for index, task in ipairs(tasks) do
    task.id = task.id or ("task-%05d"):format(index)
    taken[task.id] = (taken[task.id] or 0) + 1
  end
  local met = {}
  for _, task in ipairs(tasks) do
    local id = task.id
    if met[id] then
      local number = 2
      while taken[("%s-%d"):format(id, number)] do number = number + 1 end
      task.id = ("%s-%d"):format(id, number)
      taken[task.id] = 1
    end
    met[id] = true
    task.name = task.name or task.id
  end
end

--- Tasks of JSON lines, from one or several texts.
---@param texts {text: string, name: string, unit?: string, level?: integer}[]  `name` and `unit` ("line", "row") for
--- messages; `level` of tasks that say none
---@return SuiteTask[]|nil, string? message, string? code
function records.read(texts)
  local tasks, names = {}, {}
  for _, part in ipairs(texts) do
    names[#names + 1] = part.name
    local number = 0
    local text = part.text:sub(1, 3) == BYTE_ORDER_MARK and part.text:sub(4) or part.text
    for line in (text:sub(-1) == "\n" and text or text .. "\n"):gmatch("(.-)\n") do
      number = number + 1
      if line:match("%S") then
        local place = ("%s %s %d"):format(part.name, part.unit or "line", number)
        local record = decoded(line)
        if not record then
          return nil, place .. " is no JSON object", "bad_input"
        end
        local task, message = task_of(record, part.level)
        if not task then
          return nil, ("%s %s"):format(place, message), "bad_input"
        end
        tasks[#tasks + 1] = task
      end
    end
  end
  if #tasks == 0 then
    return nil, ("%s: no task in it"):format(table.concat(names, ", ")), "bad_input"
  end
  tell_apart(tasks)
  return tasks
end

return records
