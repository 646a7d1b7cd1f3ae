-- The agent with tools in a real workspace, driven by a scripted policy; the Hermes chat format;
-- the tiny one over tokens.
local environment = require "agent.environment"
local hermes = require "chat.hermes"
local json = require "khost.json"
local loop = require "agent.loop"
local prompt = require "agent.prompt"
local random = require "lib.random"
local sandbox = require "khost.sandbox"
local script = require "policies.script"
local t = require "tests.lua.harness"
local tiny = require "chat.tiny"
local tools = require "agent.tools"
local trainer = require "khost.trainer"

local SOURCE = "class Model:\n  pass\n"

local function call(name, arguments)
  return ("I need %s.\n<tool_call>\n%s\n</tool_call>"):format(name, json.encode { name = name, arguments = arguments })
end

local function play(answers, limits)
  local policy = script.open("scripted", function(_, said)
    local count = 1
    for _, message in ipairs(said) do count = count + (message.role == "assistant" and 1 or 0) end
    return answers[count]
  end, hermes)
  return sandbox.within("skills/cpp-kernel/template", function(workspace)
    local world = environment.tools(workspace, tools.load(), { respond = hermes.respond })
    local episode = loop.run({ policy = policy, environment = world, limits = limits }, {}, random.stream(1))
    return episode, world.candidate()
  end, { files = { ["model.py"] = SOURCE } })
end

local spec = {}

function spec.think_act_observe_until_an_answer_without_a_call()
  local episode, candidate = play {
    call("Read", { file_path = "/workspace/model.py" }),
    call("Write", { file_path = "/workspace/kernels/k.cpp", content = "int a;\n" }),
    call("Bash", { command = "cat kernels/k.cpp" }),
    "The kernel stands.",
  }
  t.expect(episode.ending, "final_answer")
  t.is_true(episode.turns[1].observation:find("class Model", 1, true))
  t.is_true(episode.turns[3].observation:find("int a;", 1, true))
  t.expect(candidate["kernels/k.cpp"], "int a;\n")
end

function spec.schema_violations_are_labelled_and_end_the_episode()
  local episode = play({ call("Fly", {}), call("Read", {}), '<tool_call>{"name": 3}</tool_call>', "done" },
    { invalid_calls = 3 })
  t.expect(episode.ending, "invalid_calls")
  t.expect(episode.labels, { unknown_tool = 1, missing_field = 1, malformed_call = 1 })
end

function spec.several_calls_in_one_answer_are_made_in_order()
  local episode = play {
    call("Write", { file_path = "/workspace/kernels/a.cpp", content = "int a;\n" })
      .. call("Bash", { command = "ls kernels" }),
    "done",
  }
  t.is_true(episode.turns[1].observation:find("a.cpp", 1, true), episode.turns[1].observation)
  t.expect(select(2, episode.turns[1].observation:gsub("<tool_response>", "")), 2)
end

function spec.without_a_kernel_there_is_no_candidate()
  local _, candidate = play { "I give up." }
  t.expect(candidate, nil)
end

function spec.the_prompt_names_tools_skill_and_task()
  local messages = prompt.messages({ source = SOURCE, toolset = tools.load() }, hermes.describe)
  t.expect({ messages[1].role, messages[2].role }, { "system", "user" })
  t.is_true(messages[1].text:find('"name":"MultiEdit"', 1, true) and messages[1].text:find("cpp-kernel", 1, true))
  t.is_true(messages[2].text:find(SOURCE, 1, true))
  t.expect(prompt.front_matter("no front matter"), nil)
end

function spec.tiny_conversations_are_append_only_tokens()
  local tokenizer = assert(trainer.train_tokenizer({ "x\nt1 = relu(x) ok wrong" },
    { vocab = 300, specials = tiny.SPECIALS }))
  local chat = tiny.open(tokenizer)
  local graph = { inputs = { { name = "x", size = { 2 } } },
    nodes = { { name = "t1", op = "relu", inputs = { "x" } } } }
  local tokens = chat:prompt { graph = graph }
  t.expect(tokenizer:decode(tokens, { special = true }), "<|task|>x\nt1 = relu(x)<|answer|>")
  t.expect(tokenizer:decode(chat:observation("wrong"), { special = true }), "<|result|>wrong<|answer|>")
  -- A forged special token stays text.
  t.is_true(#chat:observation("<|end|>") > 3)
end

return spec
