-- What commands take from the command line about a candidate: its target and the files of its workspace.
local args = require "lib.args"
local fs = require "khost.fs"

local candidate = {}

local TARGETS = { cpu = "kernels are .cpp files there", cuda = "kernels are .cu or .cpp files there" }

--- The options by which a command is told of a candidate, and behind them its own.
---@param target "cpu"|"cuda"   when --target is absent
---@param targets string        help of --target
---@param more table[]
---@return table[]
function candidate.options(target, targets, more)
  local list = {
    { name = "--task", kind = "text", required = true, help = "the task's Python file: Model, get_inputs" },
    { name = "--workspace", kind = "text", required = true, help = "folder with kernels/ and perhaps model_new.py" },
    { name = "--target", kind = "text", default = target, help = targets },
    { name = "--tolerance", kind = "text", help = "calibrated, strict or paper (else judge.tolerance of khost.toml)" },
    { name = "--threads", kind = "number", help = "threads of the kernel and its baselines (else judge.threads)" },
  }
  for _, option in ipairs(more) do
    list[#list + 1] = option
  end
  return list
end

--- Ends the program unless it is a target.
---@param target string
function candidate.check_target(target)
  if not TARGETS[target] then args.misuse(("--target %s: cpu or cuda expected"):format(target)) end
end

--- What the judge takes of a workspace: kernels/ and model_new.py. Ends the program when there is no kernel, unless the
--- target is cuda, where model_new.py may hold its extension itself.
---@param folder string
---@param target "cpu"|"cuda"
---@return table<string, string> files   path to text
function candidate.files(folder, target)
  if fs.exists(folder) ~= "folder" then args.misuse(("--workspace %s: no such folder"):format(folder)) end
  local files = {}
  local function add(path)
    files[path] = fs.read(folder .. "/" .. path)
  end
  local function walk(path)
    for _, name in ipairs(fs.list(folder .. "/" .. path) or {}) do
      if name:sub(-1) == "/" then walk(path .. name) else add(path .. name) end
    end
  end
  walk("kernels/")
  local alone = target == "cuda" and fs.exists(folder .. "/model_new.py")
  if not next(files) and not alone then
    args.misuse(("--workspace %s: no file in %s/kernels; %s"):format(folder, folder, TARGETS[target]))
  end
  add("model_new.py")
  return files
end

return candidate
