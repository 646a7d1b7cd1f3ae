-- Fuzzes what reads answers of models: tool calls in three dialects, files in fences, answers of servers, front matter.
-- They may refuse anything; they may not raise, take long, or make of a text what was not in it.
--
--   ./khost tests/manual/fuzz/calls.lua [--seconds 300] [--seed 1] [--only N]
local answers = require "policies.endpoint.answer"
local args = require "lib.args"
local bash = require "chat.bash"
local calls = require "agent.calls"
local hermes = require "chat.hermes"
local json = require "khost.json"
local mutate = require "tests.manual.fuzz.mutate"
local parse = require "agent.parse"
local prompt = require "agent.prompt"
local sched = require "khost.sched"
local tools = require "agent.tools"
local xml = require "chat.xml"

local OPTIONS = {
  { name = "--seconds", kind = "number", default = 300, help = "how long" },
  { name = "--seed", kind = "number", default = 1, help = "of all inputs" },
  { name = "--only", kind = "number", help = "this input only" },
}
local ABOUT = { name = "tests/manual/fuzz/calls.lua", summary = "fuzzes the parsers of tool calls" }

local PIECES = { "<tool_call>", "</tool_call>",
  "<tool_call>\n{\"name\": \"Bash\", \"arguments\": {\"command\": \"ls\"}}\n</tool_call>",
  "{\"name\": \"Read\", \"arguments\": {\"file_path\": \"/workspace/model.py\", \"limit\": 5}}", "{\"name\": ",
  "\"arguments\": ", "{}", "[]", "null",
  "\"a\\\"b\"", "\\u00e4", "\\ud800", "1e999", "-0", "<function=Bash>", "</function>", "<parameter=command>\n",
  "\n</parameter>\n",
  "<function=TodoWrite>\n<parameter=todos>\n[{\"content\": \"a\"}]\n</parameter>\n</function>", "```bash\n", "\n```\n",
  "```", "````", "```cpp kernels/k.cpp\n",
  "int a;\n", "```python model_new.py\n", "text ", "\n", "<|im_end|>", "<think>", "</think>", "<tool_response>", "äöü", "\"", "\\", "{", "}", "[[[[[[[[" }
local ANSWERS = { "data: ", "{\"choices\": [{\"index\": 0, \"delta\": {\"content\": \"a\"}}]}", "\n\n", "data: [DONE]\n\n",
  "data: {\"choices\": [{\"delta\": {\"tool_calls\": [{\"index\": 0, \"id\": \"c\", \"function\": {\"name\": \"Bash\", \"arguments\": \"{\"}}]}}]}\n\n",
  "data: {\"choices\": [{\"delta\": {\"tool_calls\": [{\"index\": 7, \"function\": {\"arguments\": {\"a\": 1}}}]}, \"finish_reason\": \"stop\"}]}\n\n",
  "{\"choices\": [{\"message\": {\"content\": null, \"tool_calls\": [{\"id\": 3, \"function\": {\"name\": \"Bash\", \"arguments\": \"[]\"}}]}, \"finish_reason\": \"stop\"}], \"usage\": {\"prompt_tokens\": \"x\"}}",
  "{\"error\": {\"message\": \"m\"}}", "{\"error\": 3}", "data: {\"error\": \"x\"}\n", "null", "[]", "\"usage\"", ":", ",", "{", "}", "\"delta\"", "3", "true" }

local known = {}
for _, name in ipairs(tools.ALL) do known[name] = true end

local set = tools.load()

-- What a reader of calls owes: a place for each call, with a name or with a label.
local function check_calls(parsed, text)
  assert(type(parsed.thought) == "string" and text:sub(1, #parsed.thought) == parsed.thought, "the thought is not the beginning")
  for _, call in ipairs(parsed.calls) do
    assert(call.name == nil or type(call.name) == "string" and type(call.arguments) == "table", "a call with a name needs arguments")
    assert(call.name ~= nil or type(call.label) == "string", "a call without a name needs a label")
    if call.name and known[call.name] then
      assert(text:find(call.name, 1, true) or text:find("\\u", 1, true) or call.name == "Bash", "a name that is not in the text")
    end
  end
end

local function check_action(action)
  assert(action.kind == "act" or action.kind == "final" or action.kind == "invalid", "an unknown kind")
  assert(action.kind ~= "invalid" or type(action.label) == "string", "an invalid answer needs a label")
  assert(action.kind ~= "act" or type(action.signature) == "string", "an act needs a signature")
end

local function read(text, cut)
  local options = { cut = cut, toolset = set, json = json }
  check_calls(calls.hermes(text, options), text)
  check_calls(calls.xml(text, options), text)
  check_calls(calls.bash(text, options), text)
  for _, format in ipairs { hermes, xml, bash } do
    local action = format.action(text, { cut = cut })
    check_action(action)
    assert(not cut or action.kind == "invalid", "a cut answer was taken for a whole one")
  end
  local files, label = parse.files(text, options)
  assert(files or type(label) == "string", "no files and no label")
  for path in pairs(files or {}) do
    assert(path == "model_new.py" or path:find("^kernels/") and not path:find("..", 1, true), "a path that leads out: " .. path)
  end
  prompt.front_matter(text)
  sched.sleep(0)  -- the watchdog counts one text, not all of them
end

local function read_answer(text)
  for _, reader in ipairs { answers.whole, answers.stream } do
    local answer, message = reader(text)
    assert(answer or type(message) == "string", "no answer and no message")
    for index, call in ipairs(answer and answer.calls or {}) do
      assert(type(call.id) == "string" and (call.name or call.label), "a call without id or name")
      assert(type(json.decode(answer.tool_calls[index]["function"].arguments)) == "table", "arguments that cannot go back")
    end
  end
end

-- A call that is written by the rules comes back, whatever its text.
local function round_trip(random)
  local text = mutate.assemble(random, PIECES, 8)
  local wanted = { command = text }
  local written = ("<tool_call>\n%s\n</tool_call>"):format(json.encode { name = "Bash", arguments = wanted })
  local call = calls.hermes(mutate.piece(random, { "", "thought ", "{" }) .. written).calls[1]
  assert(call and call.arguments and call.arguments.command == text, "a call did not come back")
end

local function target(random)
  local begin = sched.now()
  read(mutate.broken(random, mutate.assemble(random, PIECES, 24), 6), random:number() < 0.2)
  read_answer(mutate.broken(random, mutate.assemble(random, ANSWERS, 10), 4))
  round_trip(random)
  if random:number() < 0.002 then
    read(mutate.piece(random, PIECES):rep(random:integer(1000, 20000)), false)
    assert(sched.now() - begin < 10, "a long text took long")
  end
end

local function run(list)
  local options = args.parse(OPTIONS, list, ABOUT)
  return mutate.run("calls", options, target) > 0 and 1 or 0
end

return { name = ABOUT.name, summary = ABOUT.summary, options = OPTIONS, run = run }
