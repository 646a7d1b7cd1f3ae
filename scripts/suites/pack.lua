-- A pack: tasks, and of the machine that checked them baseline times and what its compiler made of each (`suite check
-- --caches`), in one folder that is a suite itself. What another machine adds stands beside it under its own name: that
-- of its processor, or of its card and driver where the tasks were checked on a GPU.
--
--   tasks.jsonl   baselines/MACHINE.json   caches/MACHINE/HASH.b64
--
-- A compile cache is code of whoever made it. It is a text here and for the judge; only the jail in which the compiled
-- baseline runs opens it (sandbox/python/khost/baselines/baselines.py), and what does not fit there is compiled anew.

local fs = require "khost.fs"
local hardware = require "evaluation.hardware"
local json = require "khost.json"

local pack = {}

-- What times and compiled code depend on. `gpu`: name and driver, on target cuda.
local function device_of(target)
  local facts = hardware.machine(target)
  return { processor = facts.processor, cores = facts.cores, kernel = facts.kernel, gpu = facts.gpu }
end

--- The name under which a machine's times and caches stand.
---@param device {processor: string, gpu?: string}
---@param torch? string   its version; without one what all names of that machine begin with
---@return string
function pack.name(device, torch)
  local text = ("%s torch %s"):format(device.gpu or device.processor, torch or "")
  return (text:lower():gsub("[^%w%.]+", "-"):gsub("^%-+", ""):gsub("%-+$", torch and "" or "-"))
end

--- The folder of caches that a machine like this one left in a pack; nil when there is none.
---@async
---@param folder string
---@param target? "cpu"|"cuda"   whose compiler made them; "cpu"
---@return string|nil
function pack.caches(folder, target)
  local names = fs.list(folder .. "/caches") or {}
  local mine = #names > 0 and pack.name(device_of(target)) or ""
  for _, name in ipairs(names) do
    if name:sub(1, #mine) == mine then
      return ("%s/caches/%s"):format(folder, (name:gsub("/$", "")))
    end
  end
end

--- Writes tasks.jsonl and baselines/<device and torch>.json from the folder of a check on this machine.
---@async
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
  local times, counts, torch, target = {}, { tasks = 0, left_out = 0, times = 0, caches = 0 }, nil, "cpu"
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
        torch, target = run.torch, run.device and "cuda" or "cpu"
        counts.times = counts.times + 1
        times[record.hash] = { id = record.id, eager_s = run.eager_s, compile_s = compile and compile.compile_s or nil,
          measured = record.facts.structure.shrink and "smaller batch" or "whole" }
      end
      made[#made + 1] = record.hash
    else
      counts.left_out = counts.left_out + 1
    end
  end
  local device = device_of(target)
  local name = pack.name(device, torch or "unknown")
  assert(fs.mkdirs(output .. "/baselines"))
  assert(fs.write(output .. "/tasks.jsonl", table.concat(lines, "\n") .. "\n"))
  assert(fs.write(("%s/baselines/%s.json"):format(output, name),
    json.encode({ device = device, torch = torch, times = times }, true) .. "\n"))
  local caches = ("%s/caches/%s"):format(output, name)
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
