-- One line that says on what a table was measured: processor or GPU, driver, kernel, PyTorch.

local fs = require "khost.fs"
local machine = require "khost.machine"

local hardware = {}

local function first_line(argv)
  local done = machine.run(argv, { timeout_s = 20, output_bytes = 4096 })
  return done and done.code == 0 and done.output:match("([^\n]+)") or nil
end

---@class (exact) Hardware
---@field processor string
---@field cores? integer
---@field gpu? string      name and driver
---@field kernel? string
---@field torch? string
---@field target string

--- What this machine is, without PyTorch's version, which takes an interpreter to learn.
---@async
---@param target? string   "cpu" when absent
---@return Hardware
function hardware.machine(target)
  local facts = machine.facts()
  local processor = (fs.read("/proc/cpuinfo") or ""):match("model name%s*:%s*([^\n]+)") or facts.machine or "unknown"
  return { processor = processor, cores = facts.cores, kernel = facts.kernel, target = target or "cpu",
    gpu = target == "cuda"
      and first_line { "nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader" } or nil }
end

--- What this machine is.
---@async
---@param target string
---@return Hardware
function hardware.facts(target)
  local facts, python = hardware.machine(target), fs.env("KHOST_PYTHON") or "python3"
  facts.torch = first_line { python, "-I", "-c", "import importlib.metadata as m; print(m.version('torch'))" }
  return facts
end

--- The same as one line.
---@param h Hardware
---@return string
function hardware.line(h)
  local parts = { h.gpu or ("%s, %s cores"):format(h.processor, tostring(h.cores or "?")) }
  parts[#parts + 1] = "PyTorch " .. (h.torch or "unknown")
  parts[#parts + 1] = h.kernel
  parts[#parts + 1] = "target " .. h.target
  return table.concat(parts, "; ")
end

return hardware
