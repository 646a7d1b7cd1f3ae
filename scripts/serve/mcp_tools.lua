-- The tools of `khost mcp` and of /mcp of `khost serve`: what an agent that writes kernels asks. Folders and files are
-- those below the roots that were named at the start. An answer is short; the whole of it lies in a file of the
-- workspace. Nothing in either is of inputs that no agent may see.

local answers = require "serve.answers"
local candidate = require "lib.candidate"
local checking = require "suites.checking"
local fs = require "khost.fs"
local json = require "khost.json"
local machine = require "khost.machine"
local mcp = require "serve.mcp"
local sched = require "khost.sched"
local serve = require "khost.serve"
local tune = require "agent.tune"
local verdicts = require "judge.verdict"

local mcp_tools = {}

local MOST_TEXT = 6000      -- bytes of an answer
local RESULTS = ".khost"    -- folder of a workspace that no candidate is read from
local INSTRUCTIONS = "khost judges compute kernels. A workspace holds kernels/ and perhaps model_new.py; its task is a "
  .. "Python file with Model, get_inputs and get_init_inputs. Call verify while you write, profile and tune while you "
  .. "make it faster, evaluate for the verdict that counts."

local Tools = {}
Tools.__index = Tools

-- A file or folder of an agent, without links, and behind it the held root below which it lies; nil and a message. The
-- names may lead elsewhere afterwards: what is read and written is found from the root.
local function place(self, path, what)
  if #path == 0 or path:find("%z") then
    return nil, ("%s: a path expected"):format(what)
  end
  local whole = fs.absolute(path:sub(1, 1) == "/" and path or self.roots[1]:path() .. "/" .. path)
  for _, root in ipairs(whole and self.roots or {}) do
    local top = root:path()
    if whole == top or whole:sub(1, #top + 1) == top .. "/" or top == "/" then
      return whole, root
    end
  end
  return nil, ("%s: %s is not below a folder that agents may name; `khost mcp --root DIR` adds one"):format(what, path)
end

-- A path as it is named below its root.
local function below(root, path)
  local top = root:path()
  return path == top and "" or path:sub(top == "/" and 2 or #top + 2)
end

-- lib.candidate ends a command with an error of its own form, whose message is for people.
local function said(fn, ...)
  local ok, value = pcall(fn, ...)
  if ok then
    return value
  elseif value == sched.CANCELLED then
    error(value, 0)
  end
  local message = type(value) == "table" and value.message or tostring(value)
  return nil, (message:gsub("%-%-task ", ""):gsub("%-%-workspace ", ""))
end

-- The task in a file, where it may be judged, and where the file lies: its path and root.
local function task_at(self, path)
  local file, root = place(self, path, "task")
  if not file then
    return nil, root
  end
  local source, message = said(candidate.task, file, root)
  local task
  if source then
    task, message = self.options.task(source, file)
  end
  return task, task and file or message, root
end

-- The workspace, its files and its task.
local function read(self, arguments)
  local folder, around = place(self, arguments.workspace or ".", "workspace")
  if not folder then
    return nil, around
  end
  local task, message = task_at(self, arguments.task or folder .. "/model.py")
  local files
  if task then
    files, message = said(candidate.files, folder, self.target, around)
  end
  if not files then
    return nil, message
  end
  return { folder = folder, root = around, files = files, task = task }
end

local function shortened(text)
  if #text <= MOST_TEXT then
    return text
  end
  local half = math.floor(MOST_TEXT / 2) - 40
  return ("%s\n[%d bytes are left out here]\n%s"):format(text:sub(1, half), #text - 2 * half, text:sub(-half))
end

-- The short text, and the whole in a file where the folder may be written.
local function answer(folder, root, name, text, whole)
  local short = shortened(text)
  local path = ("%s/%s/%s.json"):format(folder == "/" and "" or folder, RESULTS, name)
  local kept = fs.write_beneath(root, below(root, path), json.encode(whole, true) .. "\n")
  return kept and ("%s\nwhole answer: %s"):format(short, path) or short
end

local function factor(verdict, side)
  local ratio = verdicts.speedup(verdict, side)
  return ratio and ("%s %.3f ms, %.2fx%s"):format(side, verdict.times[side .. "_s"] * 1e3, ratio,
    verdicts.is_faster(verdict, side) and ", faster by more than 5 %" or "") or nil
end

local function summary(verdict)
  local lines = { ("%s (%s%s)"):format(verdict.status:upper(), verdict.stage,
    verdict.reason ~= "" and ": " .. verdict.reason or "") }
  lines[#lines + 1] = ("rules %s%s"):format(verdict.rules or "own", verdict.own_share
    and (", %.0f %% of the time in its own kernels"):format(100 * verdict.own_share) or "")
  if verdict.detail and verdict.detail ~= "" then
    lines[#lines + 1] = verdict.detail
  end
  if verdict.times.candidate_s then
    lines[#lines + 1] = ("candidate %.3f ms"):format(verdict.times.candidate_s * 1e3)
    lines[#lines + 1] = factor(verdict, "eager")
    lines[#lines + 1] = factor(verdict, "compile")
  end
  if verdict.speed == "unresolved" then
    lines[#lines + 1] = ("the speed is unresolved: %s"):format(verdict.speed_reason)
  end
  return table.concat(lines, "\n")
end

function Tools:evaluate(arguments)
  local asked, message = read(self, arguments)
  if not asked then
    return nil, message
  end
  if arguments.rules ~= nil and arguments.rules ~= "own" and arguments.rules ~= "mixed" then
    return nil, "rules: own or mixed expected"
  end
  local verdict = self:judge():verdict(asked.task, asked.files, { measure = arguments.measure ~= false,
    rules = arguments.rules })
  local seen = answers.verdict(verdict, {})
  return answer(asked.folder, asked.root, "evaluate", summary(seen), seen)
end

local function feedback(kind)
  return function(self, arguments)
    local asked, message = read(self, arguments)
    if not asked then
      return nil, message
    end
    local seen, why = self:judge():feedback(kind, asked.task, asked.files)
    if not seen then
      return nil, why
    end
    return answer(asked.folder, asked.root, kind, seen.text, seen)
  end
end
Tools.verify, Tools.profile = feedback "verify", feedback "profile"

function Tools:tune(arguments, is_wanted)
  local asked, message = read(self, arguments)
  if not asked then
    return nil, message
  end
  local request = { name = arguments.name, values = arguments.values }
  local found, trouble = tune.answer(request, asked.files, function(changed)
    if not is_wanted() then
      return nil, "cancelled"
    end
    return self:judge():feedback("profile", asked.task, changed, { kernels = false })
  end)
  if not found or not found.ok then
    return nil, found and found.text or "tune could not be done: " .. tostring(trouble)
  end
  return answer(asked.folder, asked.root, "tune", found.text, found)
end

local function tensor(fact)
  return ("  %s %s [%s]"):format(fact.name ~= "" and fact.name or "-", fact.dtype, table.concat(fact.size, ", "))
end

function Tools:task_info(arguments)
  local task, file, root = task_at(self, arguments.task)
  if not task then
    return nil, file
  end
  local options = { target = self.target, stages = { "structure", "run" } }
  for _, defaults in ipairs { checking.DEFAULTS, self.target == "cuda" and checking.CUDA or {} } do
    for name, value in pairs(defaults) do
      options[name] = value
    end
  end
  local facts = checking.facts(self:judge(), task.source, options)
  if facts.failure or not facts.structure then
    return nil, "the task cannot be judged: " .. tostring((facts.failure or {}).message or "no reason given")
  end
  if not facts.structure.inputs then
    return nil, "the task's shapes are not known: " .. tostring(facts.structure.dry_run)
  end
  local structure, lines = facts.structure, { "hash " .. fs.sha256(task.source), "inputs" }
  for _, input in ipairs(structure.inputs) do
    lines[#lines + 1] = tensor(input)
  end
  lines[#lines + 1] = "outputs"
  for _, output in ipairs(structure.outputs) do
    lines[#lines + 1] = tensor(output)
  end
  lines[#lines + 1] = ("%d bytes of inputs, %d of weights, %d of outputs; %.4g FLOP; %d operators"):format(
    structure.input_bytes, structure.state_bytes, structure.output_bytes, structure.flops, structure.operators)
  if facts.run and facts.run.eager_s then
    lines[#lines + 1] = ("eager %.3f ms"):format(facts.run.eager_s * 1e3)
  end
  return answer(file:match("^(.+)/") or "/", root, "task_info", table.concat(lines, "\n"), facts)
end

function Tools:doctor()
  local done, message = self.options.turn(self.asked_by, function()
    return machine.run({ fs.build_dir() .. "/khost", "doctor" }, { timeout_s = 300 })
  end)
  return done and shortened(done.output) or nil, message
end

-- The judge for the request that this call came with.
function Tools:judge()
  return self.options.judge(self.asked_by)
end

local WORKSPACE = { type = "string", description = "folder with kernels/ and perhaps model_new.py" }
local TASK = { type = "string", description = "the task's Python file; model.py of the workspace when absent" }

local function schema(properties, required)
  return { type = "object", properties = properties, required = json.list(required), additionalProperties = false }
end

local DEFINITIONS = {
  { "verify", "Builds the kernels of a workspace and compares their outputs with the task's model, on visible inputs.",
    schema({ workspace = WORKSPACE, task = TASK }, { "workspace" }) },
  { "profile", "Times the kernels of a workspace beside eager PyTorch and torch.compile, on visible inputs; with "
    .. "kernel tables on a GPU.", schema({ workspace = WORKSPACE, task = TASK }, { "workspace" }) },
  { "tune", "Times the kernels with each value of an integer constant that is defined once, in kernels/ or in "
    .. "model_new.py.",
    schema({ workspace = WORKSPACE, task = TASK, name = { type = "string", description = "the constant's name" },
      values = { type = "array", items = { type = "integer" }, description = "1 to 16 values" } },
      { "workspace", "name", "values" }) },
  { "evaluate", "The verdict that counts: builds, verifies on secret inputs and times against eager and torch.compile.",
    schema({ workspace = WORKSPACE, task = TASK,
      measure = { type = "boolean", description = "false: without times" },
      rules = { type = "string", enum = { "own", "mixed" }, description = "mixed: torch operators may stand beside "
        .. "own kernels; the service's when absent" } }, { "workspace" }) },
  { "task_info", "Shapes, types, bytes and FLOP of a task, and its time in eager PyTorch.",
    schema({ task = { type = "string", description = "the task's Python file" } }, { "task" }) },
  { "doctor", "What this machine offers for building and judging kernels, and what it lacks.", schema({}, {}) },
}

---@class (exact) McpToolsOptions
---@field roots khost.Folder[]
---@field target "cpu"|"cuda"
---@field judge fun(asked_by: any): table   a judge.client for what a request asks; asked_by is that of Server:handle
---@field task? fun(source: string, file: string): table|nil, string?   the task of a text, or why it may not be judged;
---  every text may be when absent
---@field turn? fun(asked_by: any, work: function): any   runs what needs this machine but no judge; at once when absent

local function any_task(source, file)
  return { id = fs.sha256(source), source = source, name = file }
end

--- The tools over a judge.
---@param given McpToolsOptions
---@return McpTool[]
function mcp_tools.new(given)
  local options = { judge = given.judge, task = given.task or any_task,
    turn = given.turn or function(_, work) return work() end }
  local list = {}
  for index, definition in ipairs(DEFINITIONS) do
    local name = definition[1]
    list[index] = { name = name, description = definition[2], schema = definition[3],
      run = function(arguments, is_wanted, asked_by)
        local self = setmetatable({ roots = given.roots, target = given.target, options = options,
          asked_by = asked_by }, Tools)
        local text, message = self[name](self, arguments, is_wanted)
        return text, message and shortened(message)  -- it may hold what the agent sent
      end }
  end
  return list
end

--- A server of the protocol with these tools.
---@param options McpToolsOptions
---@return table   serve.mcp
function mcp_tools.server(options)
  return mcp.new { name = "khost", version = serve.version, instructions = INSTRUCTIONS,
    tools = mcp_tools.new(options) }
end

return mcp_tools
