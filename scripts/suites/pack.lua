-- A pack: tasks, their health and the baseline times of the machine that checked them, in one folder that others can
-- read without measuring anew. Times of another machine stand in a file of their own.

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

--- Writes tasks.jsonl and baselines/<device and torch>.json from the folder of a check.
---@param checked string
---@param output string
---@param options? {flawed?: boolean}   flawed tasks too
---@return {tasks: integer, left_out: integer, times: integer}|nil, string? message, string? code
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
  local device, times, counts, torch = device_of(), {}, { tasks = 0, left_out = 0, times = 0 }, nil
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
    else
      counts.left_out = counts.left_out + 1
    end
  end
  assert(fs.mkdirs(output .. "/baselines"))
  assert(fs.write(output .. "/tasks.jsonl", table.concat(lines, "\n") .. "\n"))
  assert(fs.write(("%s/baselines/%s.json"):format(output, file_name(device, torch)),
    json.encode({ device = device, torch = torch, times = times }, true) .. "\n"))
  return counts
end

return pack
