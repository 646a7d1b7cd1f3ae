-- Fuzzes what `khost serve` and `khost mcp` read from strangers: HTTP on a real socket (tests/manual/fuzz/serve_sender.py),
-- the bodies of requests, token files, and lines of JSON-RPC. They may refuse anything; they may not raise, take long,
-- or take for right what is not. HTTP, bodies and lines get a third of the time each.
--
--   ./khost tests/manual/fuzz/serve.lua [--seconds 300] [--seed 1] [--only N]
local args = require "lib.args"
local clients = require "serve.clients"
local episode_request = require "serve.episode_request"
local fs = require "khost.fs"
local gate = require "serve.gate"
local json = require "khost.json"
local kit = require "tests.lua.serve_kit"
local log = require "khost.log"
local machine = require "khost.machine"
local mcp = require "serve.mcp"
local mutate = require "tests.manual.fuzz.mutate"
local parse = require "agent.parse"
local request = require "serve.request"
local sched = require "khost.sched"
local t = require "tests.lua.harness"
local tasks = require "serve.tasks"

local OPTIONS = {
  { name = "--seconds", kind = "number", default = 300, help = "how long" },
  { name = "--seed", kind = "number", default = 1, help = "of all inputs" },
  { name = "--only", kind = "number", help = "this input only" },
}
local ABOUT = { name = "tests/manual/fuzz/serve.lua", summary = "fuzzes what a service reads from strangers" }

local BODIES = { "{", "}", "[", "]", ",", ":", '"task"', '"files"', '"answer"', '"scheme"', '"measure"', '"source"',
  '"name"',
  '"kind"', '"values"', '"label"', '"response"', "true", "null", "3", "1e400", "-0", '""', '"task": "task"',
  '"files": {"kernels/k.cpp": "int a;"}', '"files": {"../x": "y"}', '"files": {"kernels/../../x": ""}',
  '{"task": "task", "files": {"kernels/k.cpp": "int a;"}}',
  '{"task": {"source": "x"}, "answer": "```cpp kernels/k.cpp\\nx\\n```"}',
  '{"kind": "tune", "task": "task", "files": {"kernels/k.cpp": "a"}, "name": "B", "values": [1]}',
  '"\\u0000"', '"\\ud800"',
  "[[[[[[[[[[[[[[[[[[[[" }
local LINES = {
  '{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "echo", "arguments": {"text": "x"}}}',
  '{"jsonrpc": "2.0", "id": "a", "method": "initialize", "params": {"protocolVersion": "2025-06-18"}}',
  '{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}',
  '{"jsonrpc": "2.0", "id": 2, "method": "tools/list"}', '"id": null', '"params": []', '"params": {}', '"method": 3',
  '"arguments": {"text": 3}', "{", "}", ",", '"jsonrpc": "2.0"', "[", "]", "null", "1e999", '"id": 1.5',
  '"name": "echo"' }
local TOKENS = { "[clients.a]\n", "[clients.b]\n", "[clients]\n", 'token = "' .. ("a"):rep(32) .. '"\n',
  'rights = ["candidates"]\n', "rights = []\n", "rights = 3\n", 'rights = ["tasks", "x"]\n', "device_s = 3\n",
  "waiting = -1\n", "x = 1\n", "token = 3\n", "a = {", '"""', "clients = 3\n" }
local HEADS = { "127.0.0.1", "localhost", "[::1]", ":", "8420", "evil", ".", "@", "/", "?", "&", "=", "form", "number",
  "%00",
  "\0", " ", "\r\n", "/v1/verdict", "[", "]" }

local known = assert(tasks.load {})
known:add { id = "task", name = "task", source = kit.SOURCE, hash = kit.TASK }

local function read_body(random)
  local text = mutate.broken(random, mutate.assemble(random, BODIES, 8), 3)
  for _, read in ipairs { request.verdict, request.feedback } do
    local asked, message, code = read(text, { tasks = known, may_submit = random:number() < 0.5, target = "cpu" })
    if not asked then
      assert(type(message) == "string" and (code == "bad_input" or code == "no_task" or code == "no_right"),
        "a refusal without a code")
    else
      assert(type(asked.task.source) == "string", "a task without a text")
      assert(asked.files or asked.verdict, "neither files nor a verdict")
      for path, file in pairs(asked.files or {}) do
        assert(parse.legal_path(path) and type(file) == "string", "a file that no candidate may have")
      end
    end
  end
end

local EPISODES = { "{", "}", "[", "]", ",", ":", '"task": "task"', '"tokenizer": "toy"', '"format": "hermes"',
  '"format": "files"', '"format": "tiny"', '"limits": {"turns": 3}', '"limits": {"tokens": 1e99}', '"limits": [1]',
  '"scheme": 3', '"measure": false', '"step": 1', '"step": -1', '"tokens": [1, 2]', '"tokens": [1.5]',
  '"tokens": [null, 1]', '"tokens": {"1": 2}', '"logprobs": [-1, -2]', '"logprobs": [1e400]', '"finish": "stop"',
  '"finish": "failed"', '"version": 3', '"version": "x"', '"message": "m"', "null", '"\\u0000"',
  '{"task": "task", "tokenizer": "toy"}', '{"step": 1, "tokens": [1], "logprobs": [-1], "finish": "stop"}' }
local CODEC = { special = function(_, text) return text:find("im_", 1, true) and 1 or nil end }
local TOKENIZERS = { find = function(_, name)
  if name == "toy" then return { tokenizer = CODEC, ends = {} } end
  return nil, "no such tokenizer"
end }

local function read_episode(random)
  local text = mutate.broken(random, mutate.assemble(random, EPISODES, 8), 2)
  local asked, message, code = episode_request.create(text, { tasks = known, may_submit = false, target = "cpu",
    tokenizers = TOKENIZERS })
  assert(asked and asked.task.source and asked.format.open and asked.limits.turns >= 1
    or type(message) == "string" and (code == "bad_input" or code == "no_task" or code == "no_right"),
    "an episode without a task, or a refusal without a code")
  local step, why = episode_request.step(text, random:number() < 0.5,
    { tokens = 64, answer_tokens = 32 })
  assert(step or type(why) == "string", "a refusal without a word")
  for index, token in ipairs(step and step.tokens or {}) do
    assert(token >= 0 and token % 1 == 0 and step.logprobs[index] <= 0.01, "a token that is none")
  end
end

local function read_head(random)
  local text = mutate.broken(random, mutate.assemble(random, HEADS, 5), 2)
  local refusal = gate.check({ headers = { host = text } }, gate.hosts {})
  local name = text:lower():gsub(":%d+$", "")
  assert(refusal or name == "127.0.0.1" or name == "localhost" or name == "[::1]",
    "a foreign host was let in: " .. text)
  local path, query = gate.target(text)
  assert(not path or type(query) == "table", "a path without a query")
end

local function read_tokens(random)
  local text = mutate.broken(random, mutate.assemble(random, TOKENS, 6), 2)
  local found, message = clients.parse(text, "t.toml")
  assert(found or type(message) == "string", "a refusal without a word")
  for _, client in ipairs(found and found.list or {}) do
    assert(next(client.rights) and client.quotas.waiting >= 0, "a client without rights")
  end
  assert(not found or not found:find(nil), "nobody's token was taken")
end

local function read_line(random)
  local server = mcp.new { name = "n", version = "v", instructions = "i", tools = { { name = "echo", description = "d",
    schema = { type = "object", properties = { text = { type = "string" } }, required = json.list { "text" } },
    run = function(arguments)
      assert(type(arguments.text) == "string", "an argument of another type")
      return arguments.text
    end } } }
  local response = server:respond(mutate.broken(random, mutate.assemble(random, LINES, 4), 4))
  if response then
    assert(response.jsonrpc == "2.0" and (response.result == nil) ~= (response.error == nil), "half a response")
    assert(json.decode(json.encode(response)), "a response that is no JSON")
  end
end

-- A build with sanitizers has no trainer, and without its tokenizer no episodes.
local function with_service(fn)
  local ok, episodes_kit = pcall(require, "tests.lua.episodes_kit")
  local root = "/tmp/khost-fuzz-" .. fs.sha256(tostring(sched.wall_clock())):sub(1, 12)
  assert(fs.mkdirs(root .. "/w/kernels"))
  assert(fs.write(root .. "/w/model.py", kit.SOURCE))
  assert(fs.write(root .. "/w/kernels/k.cpp", "constexpr int BLOCK = 4;\n"))
  local options = { capacity = 64, most = 8, root = fs.absolute(root), allow_tasks = true }
  if not ok then
    print "without episodes: this build has no trainer"
  end
  local done, message = pcall((ok and episodes_kit or kit).with, options, fn)
  fs.remove_tree(root)
  if not done then
    error(message, 0)
  end
end

local function fuzz_http(options)
  local code = 1
  with_service(function(service)
    local words = { "/usr/bin/env", "python3", fs.root() .. "/tests/manual/fuzz/serve_sender.py", tostring(service.port),
      tostring(options.seconds), tostring(options.seed) }
    local done = assert(machine.run(words, { timeout_s = options.seconds + 120 }))
    print((done.output:gsub("%s+$", "")))
    code = done.code
    assert(service.send("/health").status == 200, "the service does not answer any more")
    t.eventually(function() return service.app.in_work == 0 and service.app.queue.waiting == 0 end, 20)
    t.eventually(function() return not service.app.episodes or service.app.episodes.open == 0 end, 20)
    t.eventually(function() return service.app.bodies.bytes == 0 end, 20)
  end)
  return code == 0 and 0 or 1
end

local function run(list)
  local options = args.parse(OPTIONS, list, ABOUT)
  log.open { level = "error" }
  options.seconds = options.seconds / 3
  local failures = options.only and 0 or fuzz_http(options)
  failures = failures + mutate.run("bodies", options, function(random)
    read_body(random)
    read_episode(random)
    read_head(random)
    read_tokens(random)
  end)
  failures = failures + mutate.run("lines", options, read_line)
  return failures > 0 and 1 or 0
end

return { name = ABOUT.name, summary = ABOUT.summary, options = OPTIONS, run = run }
