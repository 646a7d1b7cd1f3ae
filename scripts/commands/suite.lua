-- `khost suite check|export|import|workspace|single|pack`: suites of tasks as files.

local args = require "lib.args"
local checking = require "suites.checking"
local fs = require "khost.fs"
local judge = require "judge.client"
local load = require "suites.load"
local log = require "khost.log"
local report = require "suites.report"
local suite_export = require "suites.export"
local tables = require "evaluation.table"
local workspace = require "suites.workspace"

local D, G = checking.DEFAULTS, checking.CUDA
local COMMANDS = {}

local PATH = { name = "path", required = true, help = "folder, .py, .jsonl or .parquet; a KernelBench checkout too" }
local LEVEL = { name = "--level", kind = "list", help = "only tasks of this level; may be repeated" }

local function about(name, summary)
  return { name = "suite " .. name, summary = summary }
end

local function load_suite(options)
  local levels = {}
  for index, text in ipairs(options.level or {}) do
    levels[index] = tonumber(text) or args.misuse(("--level %s: a number expected"):format(text))
  end
  local tasks, message = load.suite(options.path, { levels = levels, target = options.target })
  return tasks or args.misuse(message)
end

local function print_tables(list)
  for _, tab in ipairs(list) do
    if #tab.rows > 0 then
      log.print("\n" .. tab.title .. "\n" .. tables.text(tab.columns, tab.rows))
    end
  end
end

local function put(path, text)
  local ok, message = fs.write(path, text)
  if not ok then
    args.misuse(message)
  end
end

COMMANDS.check = {
  summary = "measures the health of every task",
  options = {
    PATH, LEVEL,
    { name = "--output", kind = "text", help = "folder for health.csv, health.jsonl and answers; makes it resumable" },
    { name = "--structure", kind = "flag", help = "shapes, bytes, FLOPs and dead code only; runs nothing" },
    { name = "--compile", kind = "flag", help = "torch.compile too" },
    { name = "--caches", kind = "flag", help = "keep what the compiler made, for `suite pack`; needs --output" },
    { name = "--target", kind = "text", default = "cpu", help = "where tasks run: cpu or cuda" },
    { name = "--limit", kind = "number", help = "only the first tasks" },
    { name = "--memory-mb", kind = "number",
      help = "that a task's process may allocate (default: 8 x budget; cuda: 8192)" },
    { name = "--budget-mb", kind = "number", help = ("live tensors of one call; a larger task is measured on a smaller "
      .. "batch (default: %d; cuda: %d)"):format(D.budget_mb, G.budget_mb) },
    { name = "--gflop", kind = "number", help = ("of one call, likewise (default: %g; cuda: %g)"):format(
      D.flops / 1e9, G.flops / 1e9) },
    { name = "--elements", kind = "number", help = ("written in one call, likewise (default: %g; cuda: %g)"):format(
      D.elements, G.elements) },
    { name = "--seed", kind = "number", default = 0, help = "of inputs; another one draws others" },
    { name = "--timeout", kind = "number", default = D.timeout_s, help = "seconds of each stage" },
    { name = "--jobs", kind = "number",
      help = "tasks at once, 0 for all cores, 1 for times to rely on (default: judge.jobs of khost.toml)" },
    { name = "--strict", kind = "flag", help = "exit 1 when a task is flawed" },
  },
  run = function(options)
    if options.target ~= "cpu" and options.target ~= "cuda" then
      args.misuse(("--target %s: cpu or cuda expected"):format(options.target))
    end
    if options.caches and not options.output then
      args.misuse("--caches needs --output, where they are kept")
    end
    local tasks = load_suite(options)
    while options.limit and #tasks > options.limit do
      tasks[#tasks] = nil
    end
    options.jobs = judge.jobs(options.jobs)
    local process, message = judge.open(nil, { jobs = options.jobs })
    if not process then
      args.misuse(message)
    end
    local cuda = options.target == "cuda"
    local usual = cuda and G or D
    local budget_mb = options.budget_mb or usual.budget_mb
    local results = checking.run(process, tasks, { target = cuda and "cuda" or nil, budget_mb = budget_mb,
      memory_mb = options.memory_mb or cuda and G.memory_mb or 8 * budget_mb,
      flops = options.gflop and options.gflop * 1e9 or usual.flops, elements = options.elements or usual.elements,
      timeout_s = options.timeout, compile = options.compile or options.caches, cache = options.caches or nil,
      jobs = options.jobs, seed = options.seed,
      structure_only = options.structure }, options.output)
    process:close()
    if options.output then
      put(options.output .. "/health.csv", report.csv(results))
      put(options.output .. "/health.jsonl", report.jsonl(results))
      put(options.output .. "/tasks.jsonl", suite_export.jsonl(tasks))
    end
    local healthy = 0
    for _, result in ipairs(results) do
      healthy = healthy + (result.healthy and 1 or 0)
    end
    print_tables(report.tables(results))
    log.print(("\n%d tasks, %d without a flaw"):format(#results, healthy))
    return options.strict and healthy < #results and 1 or 0
  end,
}

COMMANDS.export = {
  summary = "writes a suite as a folder of files or as JSON lines",
  options = { PATH, { name = "output", required = true, help = "folder, or a file that ends in .jsonl" }, LEVEL },
  run = function(options)
    local tasks = load_suite(options)
    local ok, message = suite_export.suite(tasks, options.output)
    if not ok then
      args.misuse(message)
    end
    log.print(("%d tasks in %s"):format(#tasks, options.output))
    return 0
  end,
}
COMMANDS.import = {
  summary = "reads any suite into a folder of task files",
  options = COMMANDS.export.options,
  run = COMMANDS.export.run,
}

COMMANDS.workspace = {
  summary = "unfolds a task or a single-file solution into a workspace of several files",
  options = {
    { name = "file", required = true, help = "a task, or a solution in one file as KernelBench takes them" },
    { name = "folder", required = true, help = "the workspace; files that are there are kept" },
    { name = "--task", kind = "text",
      help = "the task's file, which is the workspace's model.py where FILE brings none" },
    { name = "--skill", kind = "text", default = "cpp-kernel",
      help = "whose template is laid in: cpp-kernel, cuda-kernel" },
  },
  run = function(options)
    local source, message = fs.read(options.file)
    if not source then
      args.misuse(message)
    end
    local files = workspace.unfold(source, workspace.template(options.skill))
    if options.task and not files["model.py"] then
      files["model.py"] = fs.read(options.task) or args.misuse(("--task %s: cannot be read"):format(options.task))
    end
    for path, text in pairs(files) do
      local target = options.folder .. "/" .. path
      assert(fs.mkdirs(target:match("^(.*)/") or "."))
      if not fs.exists(target) then
        put(target, text)
      end
    end
    log.print(("workspace in %s"):format(options.folder))
    return 0
  end,
}

COMMANDS.single = {
  summary = "folds a workspace into one file with Model, ModelNew and its kernels, as KernelBench takes solutions",
  options = {
    { name = "folder", required = true, help = "the workspace" },
    { name = "file", required = true, help = "the file to write" },
  },
  run = function(options)
    local files, message = workspace.read(options.folder)
    local text
    if files then
      text, message = workspace.fold(files)
    end
    if not text then
      args.misuse(message)
    end
    put(options.file, text)
    log.print(("%s: %d bytes"):format(options.file, #text))
    return 0
  end,
}

COMMANDS.pack = {
  summary = "writes tasks, baseline times and compile caches of this machine into one folder, itself a suite",
  options = {
    { name = "checked", required = true, help = "the --output of a check" },
    { name = "output", required = true, help = "folder of the pack" },
    { name = "--flawed", kind = "flag", help = "flawed tasks too" },
  },
  run = function(options)
    local pack = require "suites.pack"
    local counts, message = pack.write(options.checked, options.output, { flawed = options.flawed })
    if not counts then
      args.misuse(message)
    end
    log.print(("%d tasks, %d left out as flawed, %d baseline times, %d compile caches"):format(counts.tasks,
      counts.left_out, counts.times, counts.caches))
    return 0
  end,
}

local ORDER = { "check", "export", "import", "workspace", "single", "pack" }

local function usage()
  local lines = { "usage: khost suite COMMAND … (--help behind a command says what it takes)\n" }
  for index, name in ipairs(ORDER) do
    lines[index + 1] = ("  %-10s %s"):format(name, COMMANDS[name].summary)
  end
  return table.concat(lines, "\n")
end

local function run(list)
  local name = table.remove(list, 1)
  if name == nil or name == "--help" or name == "-h" then
    log.print(usage())
    return name == nil and 2 or 0
  end
  local command = COMMANDS[name]
  if not command then
    args.misuse(("suite: unknown command '%s'\n\n%s\n"):format(name, usage()))
  end
  return command.run(args.parse(command.options, list, about(name, command.summary)))
end

return { name = "suite", summary = "checks, converts and packs suites of tasks", run = run }
