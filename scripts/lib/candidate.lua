-- What commands take from the command line about a candidate: its target, its task and the files of its workspace; and
-- the judge for it.
local args = require "lib.args"
local beneath = require "lib.beneath"
local client = require "judge.client"
local config = require "khost.config"
local fs = require "khost.fs"

local source_text = require "lib.source_text"

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
    { name = "--rules", kind = "text", help = "own, or mixed: torch operators beside own kernels (else judge.rules)" },
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

local MOST_TASK = 2 ^ 20  -- bytes of a task

--- The source of the task at --task. Ends the program where it cannot be read.
---@param path string
---@param root? khost.Folder   in which strangers may write: `path` lies below it, and no link on the way is followed
---@return string
function candidate.task(path, root)
  if not root and fs.exists(path) ~= "file" then args.misuse(("--task %s: no such file"):format(path)) end
  -- The links of a user's own path are followed first.
  local whole = root and path or assert(fs.absolute(path))
  local folder = (root and root:path() or whole:match("^(.*)/")):gsub("/$", "")
  local bytes, message = fs.read_beneath(root or folder == "" and "/" or folder, whole:sub(#folder + 2), MOST_TASK)
  local text = bytes
  if bytes then text, message = source_text.decode(bytes, path) end
  return text or args.misuse("--task " .. message)
end

local MOST_BYTES = 64 * 2 ^ 20      -- of all files of a workspace, ...
local MOST_OF_OTHERS = 8 * 2 ^ 20   -- ... and of one that a stranger wrote: as much as a request of his may have

--- What the judge takes of a workspace: kernels/ and model_new.py. Ends the program when there is no kernel, unless the
--- target is cuda, where model_new.py may hold its extension itself. No link in the workspace is followed.
---@param folder string
---@param target "cpu"|"cuda"
---@param root? khost.Folder   in which strangers may write: `folder` lies below it, and no link on the way is followed
---@return table<string, string> files   path to text
function candidate.files(folder, target, root)
  local base, around = root or folder, root and root:path()
  local prefix = root and folder ~= around and folder:sub(around == "/" and 2 or #around + 2) .. "/" or ""
  if not fs.list_beneath(base, prefix) then args.misuse(("--workspace %s: no such folder"):format(folder)) end
  local files, bytes, most = {}, 0, root and MOST_OF_OTHERS or MOST_BYTES
  local function add(path)
    local text, message = beneath.read(base, path)
    if message then args.misuse("--workspace " .. message) end
    files[path:sub(#prefix + 1)] = text
    bytes = bytes + #(text or "")
    if bytes > most then
      args.misuse(("--workspace %s: more than %d MiB in kernels/"):format(folder, most / 2 ^ 20))
    end
  end
  local kernels = prefix .. "kernels"
  local kind = beneath.kind(base, kernels)
  if kind and kind ~= "folder" then
    args.misuse(("--workspace %s: kernels is a %s, not a folder"):format(folder, kind))
  end
  local paths, message = {}, nil
  if kind then paths, message = beneath.files(base, { under = kernels }) end
  if not paths then args.misuse("--workspace " .. message) end
  for _, path in ipairs(paths) do add(path) end
  local alone = target == "cuda" and beneath.kind(base, prefix .. "model_new.py")
  if not next(files) and not alone then
    args.misuse(("--workspace %s: no file in %s/kernels; %s"):format(folder, folder, TARGETS[target]))
  end
  add(prefix .. "model_new.py")
  return files
end

local RULES = { own = true, mixed = true }

--- Ends the program unless it is a rule set.
---@param rules string
---@return string
function candidate.check_rules(rules)
  return RULES[rules] and rules or args.misuse(("--rules %s: own or mixed expected"):format(rules))
end

local TOLERANCES = { calibrated = true, strict = true, paper = true }

--- Reads what the options name and opens a judge for it. Ends the program on misuse.
---@param options table   what args.parse made of candidate.options
---@return table judge, {task: {source: string, name: string}, files: table<string, string>} body
function candidate.open(options)
  local machine, problem = config.load {}
  if not machine then args.misuse(problem) end
  local settings = config.plain(machine)
  local tolerance = options.tolerance or settings.judge.tolerance
  candidate.check_target(options.target)
  if not TOLERANCES[tolerance] then
    args.misuse(("--tolerance %s: calibrated, strict or paper expected"):format(tolerance))
  end
  local body = { task = { source = candidate.task(options.task), name = options.task },
    files = candidate.files(options.workspace, options.target) }
  local judge, unavailable = client.open(settings, { jobs = 1, target = options.target, tolerance = tolerance,
    rules = candidate.check_rules(options.rules or settings.judge.rules), threads = options.threads })
  return judge or args.misuse(unavailable), body
end

return candidate
