-- Fuzzes the file tools against a workspace in which a hostile shell makes links, pipes, folders and odd names, also
-- while the tools work. They may refuse anything; they may not raise, follow a link out, change what is protected, or
-- take long.
--
--   ./khost tests/manual/fuzz/files.lua [--seconds 300] [--seed 1] [--only N]
--
-- A file of the host stands where links of the workspace point to: whoever follows one shows its content or changes it.
local args = require "lib.args"
local fs = require "khost.fs"
local json = require "khost.json"
local mutate = require "tests.manual.fuzz.mutate"
local sandbox = require "khost.sandbox"
local sched = require "khost.sched"
local tools = require "agent.tools"

local OPTIONS = {
  { name = "--seconds", kind = "number", default = 300, help = "how long" },
  { name = "--seed", kind = "number", default = 1, help = "of all inputs" },
  { name = "--only", kind = "number", help = "this input only, in a new workspace" },
}
local ABOUT = { name = "tests/manual/fuzz/files.lua", summary = "fuzzes the file tools against hostile workspaces" }

local SECRET = "the host's own text"
local PROTECTED = { ["model.py"] = "class Model:\n  pass\n", ["SKILL.md"] = "skill\n",
  ["utils/khost.h"] = "// khost\n" }
local NAMES = { "kernels", "a.cpp", "b.cu", "deep", "..", ".", "", "link", "pipe", "model.py", "utils", "khost.h",
  "SKILL.md", ".khost", "n.ipynb",
  ".gitignore", "model_new.py", "ä", "a b", "*", "[", "{a,b}", "\255", "loop", "out", "etc", "passwd", ("x"):rep(300) }
local PREFIXES = { "/workspace/", "/workspace/kernels/", "/workspace//", "", "/", "kernels/", "./", "../",
  "/workspace/kernels/link/", "/proc/self/root/",
  "/workspace/out/", "\0" }
local TEXTS = { "", "int a;\n", "a", "\n", "int b;\r\n", "\tx", "     1\tint a;", "%1", "needle", "\0", "\255",
  ("long "):rep(3000),
  "{\"cells\": [{\"cell_type\": \"code\", \"source\": \"1\"}]}", "{\"cells\": 3}",
  "{\"cells\": [1, null, {\"id\": 3}]}" }
local PATTERNS = { "needle", ".*", "(a+)+$", "[", "(?<x>a)", "^", "\\", "(?R)", "a{1000}", "\\p{L}", "(?i)INT", "$",
  "" }
local NUMBERS = { 0, 1, -1, 2, 1e9, 2 ^ 53, -2 ^ 53, 1.5, "3", "x", math.huge, 0 / 0 }

local function path_of(random)
  local parts = { mutate.piece(random, PREFIXES) }
  for i = 1, random:integer(1, 3) do
    parts[#parts + 1] = mutate.piece(random, NAMES) .. (i < 3 and random:number() < 0.5 and "/" or "")
  end
  local path = table.concat(parts)
  return random:number() < 0.2 and mutate.broken(random, path, 3) or path
end

local function text_of(random) return mutate.broken(random, mutate.assemble(random, TEXTS, 3), 2) end

-- A value for a field, mostly of the right type.
local function value_of(random, field)
  local odd = random:number()
  if odd < 0.03 then return mutate.piece(random, { 3, true, {}, { 1, 2 }, { a = 1 }, "text" }) end
  if field.enum then return odd < 0.1 and "none" or mutate.piece(random, field.enum) end
  if field.type == "boolean" then return random:number() < 0.5 end
  if field.type == "integer" then return mutate.piece(random, NUMBERS) end
  if field.type == "array" then
    local list = {}
    for i = 1, random:integer(0, 3) do list[i] = value_of(random, field.items) end
    return list
  end
  if field.type == "object" then
    local object = {}
    for _, part in ipairs(field.fields) do object[part.name] = value_of(random, part) end
    return object
  end
  if field.name:find("path$") then return path_of(random) end
  if field.name == "pattern" or field.name == "glob" then
    return random:number() < 0.5 and mutate.piece(random, PATTERNS) or mutate.broken(random, mutate.piece(random,
      { "**/*", "*.cpp", "{a,b}*", "[a-z]*" }), 4)
  end
  return text_of(random)
end

local FILE_TOOLS = { "Read", "Read", "Write", "Edit", "MultiEdit", "Glob", "Grep", "NotebookEdit" }

local function arguments_of(random, tool)
  local arguments = {}
  for _, field in ipairs(tool.parameters) do
    if field.required or random:number() < 0.4 then arguments[field.name] = value_of(random, field) end
  end
  return arguments
end

-- What the shell does to the workspace; CANARY is a path of the host.
local COMMANDS = { "ln -sfn CANARY link", "ln -sfn CANARY kernels/link", "ln -sfn CANARY kernels/a.cpp",
  "rm -rf kernels/deep; ln -sfn / kernels/deep",
  "rm -f kernels/link; mkfifo kernels/pipe", "rm -rf link; ln -s .. kernels/loop", "mv kernels k2; ln -s / kernels",
  "rm -f kernels; mv k2 kernels",
  "mkdir -p kernels/deep; echo needle > kernels/deep/b.cu", "printf 'int a;\\nneedle\\n' > kernels/a.cpp",
  "rm -rf .khost; ln -s / .khost",
  "rm -f .khost; mkdir -p .khost", "chmod 0 kernels/*", "chmod -R u+rwX kernels", "rm -rf kernels/*", "ln -sfn / out",
  "truncate -s 5M kernels/big",
  "touch $'kernels/\\xff\\n'", "rm -rf kernels; ln -sfn CANARY kernels", "rm -f kernels; mkdir kernels",
  "ln CANARY kernels/hard; ln model.py kernels/hard",
  "echo '*' > kernels/.gitignore", "ln -sfn /proc/self/root out", "mkdir -p $(printf 'kernels/%0.sd/' $(seq 100))" }

-- Two folders that are swapped for as long as the shell lives: what is checked and what is opened must be one thing.
local RACE = "mkdir -p /workspace/r1; echo needle > /workspace/r1/a.cpp; ln -sfn / /workspace/r2; while :; do mv -T /workspace/r1 /workspace/race; "
  .. "mv -T /workspace/race /workspace/r1; ln -sfn CANARY_FOLDER /workspace/race; sleep 0.002; rm -f /workspace/race; done"

local State = {}
State.__index = State

local function new_state(workspace, canary)
  local self = setmetatable({ workspace = workspace, set = tools.load(), context = { workspace = workspace,
    state = {} }, canary = canary }, State)
  self.set:call(self.context, "Bash", { command = (RACE:gsub("CANARY_FOLDER", canary:match("^(.*)/"))),
    run_in_background = true, timeout = 600000 })
  return self
end

function State:check(call, observation)
  assert(type(observation.text) == "string" and type(observation.status) == "string", "no observation")
  assert(observation.label ~= "tool_failed", "it raised: " .. observation.text:sub(1, 300))
  assert(#observation.text < 300000, "an observation without a limit")
  assert(not observation.text:find(SECRET, 1, true), "the host's file was shown")
  assert(observation.seconds < 20, ("%g s"):format(observation.seconds))
  assert(fs.read(self.canary) == SECRET, "the host's file was changed")
  assert(#fs.list(self.canary:match("^(.*)/")) == 1, "a file was made on the host")
  if call.name ~= "Read" and call.name ~= "Grep" then
    for path, text in pairs(PROTECTED) do
      assert(self.workspace:read(path) == text, path .. " was changed")
    end
  end
end

function State:target(random)
  if random:number() < 0.1 then
    self.set:call(self.context, "Bash", { command = mutate.piece(random, COMMANDS):gsub("CANARY", self.canary),
      timeout = 20000 })
  end
  for _ = 1, 10 do
    local tool = self.set.by_name[mutate.piece(random, FILE_TOOLS)]
    local arguments = arguments_of(random, tool)
    if random:number() < 0.15 then
      for name in pairs(arguments) do
        if name:find("path$") then arguments[name] = "/workspace/race/a.cpp" end
      end
    end
    local observation = self.set:call(self.context, tool.name, arguments)
    sched.sleep(0)  -- the watchdog counts one call, not all of them
    local ok, message = pcall(self.check, self, { name = tool.name }, observation)
    if not ok then error(("%s %s: %s"):format(tool.name, json.encode(arguments), tostring(message)), 0) end
  end
  local taken = self.workspace:snapshot() or {}
  for path, text in pairs(taken) do
    assert(not text:find(SECRET, 1, true), path .. " of the snapshot holds the host's text")
  end
end

local function run(list)
  local options = args.parse(OPTIONS, list, ABOUT)
  local folder = "/tmp/khost-fuzz-" .. fs.sha256(tostring(sched.wall_clock())):sub(1, 12)
  assert(fs.mkdirs(folder))
  local canary = folder .. "/canary"
  assert(fs.write(canary, SECRET))
  local files = { ["kernels/a.cpp"] = "int a;\n", ["model_new.py"] = "" }
  for path, text in pairs(PROTECTED) do files[path] = text end
  local failures, message = sandbox.within(nil, function(workspace)
    local state = new_state(workspace, canary)
    return mutate.run("files", options, function(random) return state:target(random) end)
  end, { files = files })
  fs.remove_tree(folder)
  if not failures then error(message, 0) end
  return failures > 0 and 1 or 0
end

return { name = ABOUT.name, summary = ABOUT.summary, options = OPTIONS, run = run }
