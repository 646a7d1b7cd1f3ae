-- Tasks of JSON lines, as CUDA-Agent-Ops-6K, KernelBench and CUDA-L1 are released. A line that is no JSON is a failure
-- that names it: the file is broken. A record without a program is left out, and named by its file and line.

local depth = require "lib.depth"
local fs = require "khost.fs"
local json = require "khost.json"
local log = require "khost.log"

local records = {}

-- Where releases put the program. CUDA-Agent-Ops-6K and KernelBench: `code`; CUDA-L1: `ref_code`.
local SOURCE_FIELDS = { "source", "code", "pytorch_code", "python_code", "program", "reference", "ref_code" }
local NAME_FIELDS = { "id", "task_id", "name", "uuid", "problem_id" }
local LEVEL_FIELDS = { "level", "level_id" }
local BYTE_ORDER_MARK = "\239\187\191"
local DEEPEST = 32  -- of a field that is kept: what is nested deeper cannot be written again, below a task's levels

-- Of a task of CUDA-L1, which numbers its tasks level by level.
local function numbered(record)
  local level, number = records.level(record.level_id), tonumber(record.task_id)
  return level and number and ("level%d/%d"):format(level, number) or nil
end

--- The level of "level2", "Level 2", "L2", "2" or 2; nil when it is none.
---@param value any
---@return integer|nil
function records.level(value)
  local number = tonumber(value)
  if not number and type(value) == "string" then
    -- With more words in front, as in "KernelBench Level 2".
    number = tonumber(value:lower():match("^%s*l[evel]*[%s_%-:]*(%d+)%s*$") or value:lower():match(
      "%f[%w]level[%s_%-:]*(%d+)%s*$"))
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
  return type(value) == "number" and (value % 1 == 0 and "%.0f" or "%.17g"):format(value) or nil
end

--- The task of a record; its id may be missing.
---@param record table
---@param level? integer   where the record says none
---@return SuiteTask|nil, string? message   what it lacks: "has no source: …"
function records.task(record, level)
  local source, field = first_of(record, SOURCE_FIELDS)
  if type(source) ~= "string" or not source:find("%S") then
    local keys = {}
    for key in pairs(record) do
      keys[#keys + 1] = tostring(key)
    end
    table.sort(keys)
    return nil, ("has no source: one of %s expected, fields are %s"):format(table.concat(SOURCE_FIELDS, ", "),
      table.concat(keys, ", "))
  end
  local id = numbered(record)
  for _, name in ipairs(NAME_FIELDS) do
    id = id or name_of(record[name])
  end
  local given = first_of(record, LEVEL_FIELDS)
  local origin = {}
  for key, value in pairs(record) do
    if key ~= field and key ~= "id" and key ~= "name" and (key ~= "level" or given and not records.level(given)) then
      if depth.is_deeper(value, DEEPEST) then
        return nil, ("has a field '%s' that is nested deeper than %d levels"):format(tostring(key):sub(1, 80), DEEPEST)
      end
      origin[key] = value
    end
  end
  return { id = id, name = type(record.name) == "string" and record.name or id, source = source,
    hash = fs.sha256(source), level = records.level(given or level), origin = next(origin) and origin or nil }
end

-- Ids that stand twice get a number behind them that no other id has.
local function tell_apart(tasks, place)
  local taken, again, first = {}, 0, nil
  for index, task in ipairs(tasks) do
    task.id = task.id or ("task-%05d"):format(index)
    taken[task.id] = (taken[task.id] or 0) + 1
  end
  local met = {}
  for _, task in ipairs(tasks) do
    local id = task.id
    if met[id] then
      again, first = again + 1, first or id
      local number = 2
      while taken[("%s-%d"):format(id, number)] do number = number + 1 end
      task.id = ("%s-%d"):format(id, number)
      taken[task.id] = 1
    end
    met[id] = true
    task.name = task.name or task.id
  end
  if again > 0 then
    log.print(("%s: ids that were given again, which have a number behind them now: %d, the first is '%s'"):format(
      place, again, first))
  end
end

local ENCODED = { ["\255\254"] = "UTF-16", ["\254\255"] = "UTF-16" }

--- The records of a text with their places: lines, or the items of one JSON list. A line that is no object has a place
--- and no record.
---@param part {text: string, name: string, unit?: string}
---@return {record: table|nil, place: string}[]|nil, string? message
function records.list(part)
  local text, unit = part.text, part.unit or "line"
  if ENCODED[text:sub(1, 2)] then
    return nil, ("%s is in %s: save it as UTF-8"):format(part.name, ENCODED[text:sub(1, 2)])
  end
  text = text:sub(1, 3) == BYTE_ORDER_MARK and text:sub(4) or text
  local list = {}
  local whole = text:find("^%s*%[") and decoded(text)
  if whole then
    for number, record in ipairs(whole) do
      list[number] = { record = type(record) == "table" and record or nil,
        place = ("%s item %d"):format(part.name, number) }
    end
    return list
  end
  local number = 0
  for line in (text .. "\n"):gmatch("(.-)\n") do
    number = number + 1
    if line:match("%S") then
      list[#list + 1] = { record = decoded(line), place = ("%s %s %d"):format(part.name, unit, number) }
    end
  end
  return list
end

--- Tasks of JSON lines, from one or several texts.
---@param texts {text: string, name: string, unit?: string, level?: integer}[]  `name` and `unit` ("line", "row") for
--- messages; `level` of tasks that say none
---@param left table   suites/left_out.lua: is told of records without a program
---@return SuiteTask[]|nil, string? message, string? code
function records.read(texts, left)
  local tasks, names, first = {}, {}, nil
  for _, part in ipairs(texts) do
    names[#names + 1] = part.name
    local list, problem = records.list(part)
    if not list then
      return nil, problem, "bad_input"
    end
    for _, one in ipairs(list) do
      if not one.record then
        return nil, one.place .. " is no JSON object", "bad_input"
      end
      local task, message = records.task(one.record, part.level)
      if task then
        tasks[#tasks + 1] = task
      else
        first = first or ("%s %s"):format(one.place, message)
        left:add(one.place, "it " .. message)
      end
    end
  end
  if #tasks == 0 then
    return nil, first or ("%s: no task in it"):format(table.concat(names, ", ")), "bad_input"
  end
  tell_apart(tasks, #names == 1 and names[1] or ("%s and %d more"):format(names[1], #names - 1))
  return tasks
end

return records
