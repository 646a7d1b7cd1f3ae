-- What a model that learns to call tools reads and writes: a short prompt, calls in both formats, bounded observations.
local cache = require "lib.cache"
local calls = require "agent.calls"
local environment = require "agent.environment"
local formats = require "chat.formats"
local fs = require "khost.fs"
local json = require "khost.json"
local prompt = require "agent.prompt"
local sandbox = require "khost.sandbox"
local t = require "tests.lua.harness"
local template = require "run.template"
local tools = require "agent.tools"
local trainer = require "khost.trainer"

local MOST_TOKENS = 1200           -- of declarations and digest
local BYTES_A_TOKEN = 3.5          -- fewer than Qwen2.5's tokenizer has on these texts
local SKILLS = { "cpp-kernel", "cuda-kernel" }

local function system_of(name, skill)
  local format = formats.learnt(name)
  return prompt.messages({ source = "class Model: pass", toolset = tools.load(), skill = skill }, format.describe,
    format.brief)[1].text
end

-- The tokenizer of a fetched model, or of the folder that KHOST_CHAT_MODEL names; nil where there is none.
local function qwen()
  local folder = fs.env("KHOST_CHAT_MODEL") or cache.folder "models" .. "/qwen2.5-coder-0.5b"
  return fs.exists(folder .. "/tokenizer.json") and assert(trainer.tokenizer(folder .. "/tokenizer.json")) or nil
end

-- Texts that a parser could stumble over, as far as raw values can hold them.
local TEXTS = { "int a;", "a\nb", "  indented\n\n  twice  ", '"quoted" \\ back\\n', "</tool_call>", "x < y && z > 1;", "äöü ☃",
  "<parameter=content>", "100 %s %1", "" }

local spec = {}

function spec.every_tool_is_declared_and_the_prompt_is_short()
  local tokenizer = qwen()
  for _, name in ipairs { "hermes", "xml" } do
    for _, skill in ipairs(SKILLS) do
      local text = system_of(name, skill)
      for _, tool in ipairs(tools.ALL) do
        t.is_true(text:find("\n" .. tool .. "(", 1, true) ~= nil, tool .. " is not declared")
      end
      t.is_true(text:find("python3 -m utils.verification", 1, true) ~= nil)
      t.is_true(#text < MOST_TOKENS * BYTES_A_TOKEN, ("%s, %s: %d bytes"):format(name, skill, #text))
      local count = tokenizer and #tokenizer:encode(text) or 0
      t.is_true(count <= MOST_TOKENS, ("%s, %s: %d tokens"):format(name, skill, count))
    end
  end
end

function spec.a_signature_says_what_a_schema_says()
  local text = tools.load({ "Read", "MultiEdit", "TodoWrite" }):signatures()
  t.is_true(text:find("Read(file_path, offset?: integer, limit?: integer): Shows", 1, true) ~= nil, text)
  t.is_true(text:find("MultiEdit(file_path, edits: [{old_string, new_string, replace_all?: boolean}]): Makes", 1, true)
    ~= nil, text)
  t.is_true(text:find('{content, status: "pending"|"in_progress"|"completed", activeForm}', 1, true) ~= nil, text)
end

function spec.a_task_says_whether_it_is_timed()
  local function user(timed)
    return prompt.messages({ source = "S%sS", toolset = tools.load(), timed = timed }, nil, true)[2].text
  end
  t.is_true(user(false):find("verified and not timed", 1, true) ~= nil)
  t.is_true(user(true):find("faster than eager", 1, true) ~= nil)
  t.expect(user(nil), user(true))
  t.is_true(user(true):find("\n\nS%sS", 1, true) ~= nil)
end

function spec.what_a_format_writes_is_what_it_reads()
  local set = tools.load()
  for _, name in ipairs { "hermes", "xml" } do
    local format = formats.learnt(name)
    for _, text in ipairs(TEXTS) do
      local made = { { name = "Write", arguments = { file_path = "/workspace/a", content = text } },
        { name = "MultiEdit", arguments = { file_path = "/workspace/a", edits = { { old_string = text, new_string = "b",
          replace_all = true } } } }, { name = "Read", arguments = { file_path = "/workspace/a", limit = 5 } } }
      local action = format.action(format.render("I write.", made, set), {})
      t.expect({ action.kind, action.label }, { "act", nil })
      t.expect(action.calls, made)
    end
    -- A path comes before what goes there, and calls of unknown tools and fields are written too.
    local text = format.render("", { { name = "Write", arguments = { content = "c", file_path = "p", more = "m" } } }, set)
    t.is_true(text:find("file_path", 1, true) < text:find("content", 1, true))
    t.is_true(text:find("content", 1, true) < text:find("more", 1, true))
    t.expect(format.action(format.render("t", { { name = "Fly", arguments = {} } }, set), {}).calls,
      { { name = "Fly", arguments = {} } })
    t.expect(format.action(format.render("All is done.", {}, set), {}).kind, "final")
  end
  t.expect(calls.hermes(formats.learnt("hermes").render("", { { name = "A", arguments = { b = json.list {} } } }, set))
    .label, nil)
end

function spec.a_format_that_cannot_be_learnt_is_named()
  t.raises("prompt.calls", formats.learnt, "openai")
  t.is_true(formats.named "xml-brief" == formats.learnt "xml")
  t.is_true(formats.NAMES:find("hermes-brief", 1, true) ~= nil)
end

-- A world whose observations are bounded by tokens of three bytes.
local function in_world(options, fn)
  options.respond, options.count = formats.learnt("xml").respond, function(text) return math.ceil(#text / 3) end
  assert(sandbox.within(template.folder "cpp-kernel", function(workspace)
    local world = environment.tools(workspace, tools.load(), options)
    fn(world, options.count)
    world.close()
    return true
  end, { files = { ["model.py"] = "class Model: pass\n", ["SKILL.md"] = "skill\n" } }))
end

local function bash(command)
  return { name = "Bash", arguments = { command = command } }
end

function spec.observations_of_an_answer_have_a_bounded_number_of_tokens()
  in_world({ observation_tokens = 500 }, function(world, count)
    for _, commands in ipairs { { "seq 1 20000" }, { "seq 1 3000", "seq 1 3000", "seq 1 3000" }, { "printf '%09000d' 7" } } do
      local list = {}
      for index, command in ipairs(commands) do list[index] = bash(command) end
      local seen = world.act { calls = list }
      t.is_true(count(seen.text) <= 500, ("%d tokens"):format(count(seen.text)))
      t.is_true(seen.text:find("[exit code 0", 1, true) ~= nil, seen.text)
      -- What was left out can be read, and how it ended is always there.
      t.is_true(seen.text:find("all of it: ", 1, true) ~= nil, seen.text)
    end
    t.is_true(#world.act({ calls = { bash "echo short" } }).text < 200)
  end)
end

function spec.a_task_without_a_clock_is_not_profiled_and_what_was_refuted_is_remembered()
  local asked = {}
  in_world({ untimed = true, feedback = function(kind)
    asked[#asked + 1] = kind
    return { status = "wrong", reason = "values", detail = "", ok = false, text = "wrong it is" }
  end }, function(world)
    local seen = world.act { calls = { bash "python3 -m utils.profiling" } }
    t.is_true(seen.text:find("verified and not timed", 1, true) ~= nil, seen.text)
    t.expect({ #asked, seen.verified }, { 0, nil })
    seen = world.act { calls = { bash "python3 -m utils.verification" } }
    t.is_true(seen.text:find("wrong it is", 1, true) ~= nil, seen.text)
    t.expect({ asked[1], seen.verified }, { "verify", false })
  end)
end

return spec
