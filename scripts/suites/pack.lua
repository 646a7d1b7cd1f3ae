-- A pack: tasks, and of the machine that checked them baseline times and what its compiler made of each (`suite check
-- --caches`), in one folder that is a suite itself. What another machine adds stands beside it under its own name.
--
--   tasks.jsonl   baselines/MACHINE.json   caches/MACHINE/HASH.b64
--
-- A compile cache is code of whoever made it. It is a text here and for the judge; only the jail in which the compiled
-- baseline runs opens it (sandbox/judge/python/baselines.py), and what does not fit there is compiled anew.

local fs = require "khost.fs"
local json = require "khost.json"
local machine = require "khost.machine"

local pack = {}

local function device_of()
  local model = (fs.read("/proc/cpuinfo") or ""):match("model name%s*:%s*([^\n]+)") or "unknown processor"
  local facts = machine.facts()
  return { processor = model, cores = facts.cores, kernel = facts.kernel }
end

local function file_name(device, torch)
  local name = ("%s torch %s"):format(device.processor, torch or "unknown")
  return (name:lower():gsub("[^%w%.]+", "-"):gsub("^%-+", ""):gsub("%-+$", ""))
end

--- The folder of caches that a machine like this one left in a pack; nil when there is none.
---@param folder string
---@return string|nil
function pack.caches(folder)
  local mine = file_name(device_of(), ""):gsub("%-torch.*$", "")
  for _, name in ipairs(fs.list(folder .. "/caches") or {}) do
    if name:sub(1, #mine) == mine then
      return ("%s/caches/%s"):format(folder, (name:gsub("/$", "")))
    end
  end
end

--- Writes tasks.jsonl and baselines/<device and torch>.json from the folder of a check.
---@param checked string
---@param output string
---@param options? {flawed?: boolean}   flawed tasks too
---@return {tasks: integer, left_out: integer, times: integer, caches: integer}|nil, string? message, string? code
function pack.write(checked, output, options)
  local text, message, code = fs.read(checked .. "/health.jsonl")
  local sources, why = fs.read(checked .. "/tasks.jsonl")
  if not text or not sources then
    return nil, ("%s: no finished check there (%s)"):format(checked, message or why), code or "bad_input"
  end
  local by_hash, lines = {}, {}
  for line in sources:gmatch("[^\n]+") do
    local task = json.decode(line)
    by_hash[fs.sha256(task.code)] = task
  end
  local device, times, counts, torch = device_of(), {}, { tasks = 0, left_out = 0, times = 0, caches = 0 }, nil
  local made = {}
  for line in text:gmatch("[^\n]+") do
    local record = json.decode(line)
    local run, compile = record.facts.run, record.facts.compile
    if record.healthy or options and options.flawed then
      local task = by_hash[record.hash]
      task.flaw = record.flaw
      counts.tasks = counts.tasks + 1
      lines[counts.tasks] = json.encode(task)
      if run then
        torch = run.torch
        counts.times = counts.times + 1
        times[record.hash] = { id = record.id, eager_s = run.eager_s, compile_s = compile and compile.compile_s or nil,
          measured = record.facts.structure.shrink and "smaller batch" or "whole" }
      end
      made[#made + 1] = record.hash
    else
      counts.left_out = counts.left_out + 1
    end
  end
  assert(fs.mkdirs(output .. "/baselines"))
  assert(fs.write(output .. "/tasks.jsonl", table.concat(lines, "\n") .. "\n"))
  assert(fs.write(("%s/baselines/%s.json"):format(output, file_name(device, torch)),
    json.encode({ device = device, torch = torch, times = times }, true) .. "\n"))
  local caches = ("%s/caches/%s"):format(output, file_name(device, torch))
  for _, hash in ipairs(made) do
    local cache = fs.read(("%s/caches/%s.b64"):format(checked, hash))
    if cache then
      assert(fs.mkdirs(caches))
      assert(fs.write(("%s/%s.b64"):format(caches, hash), cache))
      counts.caches = counts.caches + 1
    end
  end
  return counts
end

return pack
