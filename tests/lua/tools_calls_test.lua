-- What holds for every tool: schemas, one answer for each call, order, and limits on calls that are wrong.
local environment = require "agent.environment"
local hermes = require "chat.hermes"
local json = require "khost.json"
local kit = require "tests.lua.toolkit"
local loop = require "agent.loop"
local random = require "lib.random"
local sandbox = require "khost.sandbox"
local sched = require "khost.sched"
local script = require "policies.script"
local t = require "tests.lua.harness"
local tools = require "agent.tools"

local has, refused, within = kit.has, kit.refused, kit.within

local function call_text(name, arguments)
  return ("<tool_call>\n%s\n</tool_call>"):format(json.encode { name = name, arguments = arguments })
end

-- An episode of a scripted agent with these answers.
local function play(answers, limits, set, options)
  local policy = script.open("scripted", function(_, said)
    local count = 1
    for _, message in ipairs(said) do count = count + (message.role == "assistant" and 1 or 0) end
    return type(answers) == "function" and answers(count, said) or answers[count]
  end, hermes)
  return sandbox.within(nil, function(workspace)
    options = options or {}
    options.respond = hermes.respond
    local world = environment.tools(workspace, set or tools.load(), options)
    local episode = loop.run({ policy = policy, environment = world, limits = limits }, {}, random.stream(1))
    world.close()
    return episode, world
  end, { files = kit.FILES })
end

local spec = {}

function spec.b21_each_violation_of_a_schema_has_a_label_of_its_own()
  within(function(call, _, set)
    refused(call("Fly", {}), "unknown_tool")
    refused(call("Bash", "ls"), "bad_arguments")
    refused(call("Bash", { "ls" }), "bad_arguments")
    for _, tool in ipairs(set.list) do
      for _, field in ipairs(tool.parameters) do
        if field.required then
          has(refused(call(tool.name, {}), "missing_field"), "is missing")
          break
        end
      end
      local arguments = {}
      for _, field in ipairs(tool.parameters) do
        arguments[field.name] = field.required and (field.type == "array" and {} or "x") or nil
      end
      arguments.surplus = true
      has(refused(call(tool.name, arguments), "extra_field"), "surplus is not a field")
    end
    refused(call("Bash", { command = { "ls" } }), "wrong_type")
    refused(call("Bash", { command = "ls", timeout = 1.5 }), "wrong_type")
    refused(call("Bash", { command = "ls", run_in_background = "yes" }), "wrong_type")
    has(refused(call("MultiEdit", { file_path = "/workspace/x", edits = { { old_string = "a" } } }), "missing_field"),
      "edits[1].new_string")
    refused(call("Grep", { pattern = "x", output_mode = "all" }), "wrong_enum")
  end)
end

function spec.b21_numbers_and_booleans_written_as_text_are_taken_and_labelled()
  within(function(call)
    local read = call("Read", { file_path = "/workspace/kernels/a.cpp", limit = "1", offset = "2" })
    t.expect({ read.status, read.coerced }, { "ok", { "offset", "limit" } })
    t.expect(call("Bash", { command = "true", run_in_background = "false" }).coerced, { "run_in_background" })
    for _, number in ipairs { "inf", "nan", "1.5", "", "1e999" } do
      refused(call("Read", { file_path = "/workspace/kernels/a.cpp", limit = number }), "wrong_type")
    end
  end)
  local episode = play { call_text("Read", { file_path = "/workspace/model.py", limit = "1" }), "done" }
  t.expect({ episode.labels.coerced, episode.turns[1].calls[1].coerced }, { 1, { "limit" } })
end

function spec.b22_every_call_has_one_answer_whatever_happens()
  local set = tools.load()
  local function add(name, run)
    set.by_name[name] = tools.define { name = name, summary = "", parameters = {}, run = run }
  end
  add("Raises", function() error("broken inside") end)
  add("RaisesTable", function() error({}) end)
  add("SaysNothing", function() end)
  local calls = { call_text("Raises", {}), call_text("RaisesTable", {}), call_text("SaysNothing", {}),
    call_text("Bash", { command = "sleep 30", timeout = 100 }), "<tool_call>{nonsense}</tool_call>", call_text("Fly",
      {}),
    call_text("Bash", { command = "kill -9 $$" }), call_text("Bash", { command = "echo on" }) }
  local episode = play({ table.concat(calls, "\n"), "done" }, nil, set)
  local turn = episode.turns[1]
  t.expect(episode.ending, "final_answer")
  t.expect(#turn.calls, #calls)
  t.expect(select(2, turn.observation:gsub("<tool_response>", "")), #calls)
  local labels = {}
  for i, call in ipairs(turn.calls) do labels[i] = call.label or "-" end
  t.expect(labels, { "tool_failed", "tool_failed", "failed", "timeout", "malformed_call", "unknown_tool", "-", "-" })
  has(turn.calls[8].observation, "on\n")
end

function spec.b23_calls_run_in_order_and_neighbours_that_read_run_together()
  local set = tools.load()
  local order, running, most = {}, 0, 0
  local function add(name, read_only)
    set.by_name[name] = tools.define { name = name, summary = "", parameters = {}, read_only = read_only,
      run = function()
      running = running + 1
      most = math.max(most, running)
      sched.sleep(0.02)
      running = running - 1
      order[#order + 1] = name
      return name
    end }
  end
  add("Look1", true); add("Look2", true); add("Look3", true); add("Change", false); add("Look4", true)
  local calls = {}
  for i, name in ipairs { "Look1", "Look2", "Look3", "Change", "Look4" } do calls[i] = { name = name,
    arguments = {} } end
  within(function(_, context)
    local seen = set:call_all(context, calls)
    for i, observation in ipairs(seen) do t.expect({ observation.name, observation.text }, { calls[i].name,
      calls[i].name }) end
  end)
  t.expect(most, 3)
  t.expect({ order[4], order[5] }, { "Change", "Look4" })
end

function spec.b23_a_write_is_seen_by_the_read_behind_it()
  local episode = play { call_text("Write", { file_path = "/workspace/kernels/n.cpp", content = "int n;\n" })
    .. call_text("Read", { file_path = "/workspace/kernels/n.cpp" }) .. call_text("Bash",
      { command = "cat kernels/n.cpp" }), "end" }
  has(episode.turns[1].calls[2].observation, "int n;")
  has(episode.turns[1].calls[3].observation, "int n;")
  t.expect(episode.turns[1].changes, { ["kernels/n.cpp"] = "int n;\n" })
end

function spec.b24_wrong_calls_in_a_row_end_the_episode_with_a_reason_of_its_own()
  local episode = play(function() return call_text("Fly", {}) end, { invalid_calls = 3 })
  t.expect({ episode.ending, #episode.turns, episode.labels.unknown_tool }, { "invalid_calls", 3, 3 })
  local mixed = play({ call_text("Fly", {}), call_text("Fly", {}), call_text("Glob", { pattern = "*" }),
    call_text("Fly", {}), "end" },
    { invalid_calls = 3 })
  t.expect(mixed.ending, "final_answer")
end

function spec.a_command_does_not_outlast_the_time_of_its_episode()
  local begin = sched.now()
  local episode = play({ call_text("Bash", { command = "sleep 60" }), "done" }, { seconds = 2 })
  t.expect({ episode.ending, episode.turns[1].calls[1].label }, { "time_limit", "timeout" })
  t.is_true(sched.now() - begin < 20, "the command was waited for")
end

function spec.observations_share_the_room_that_is_left_and_are_kept_whole_in_a_file()
  within(function(_, context, set)
    local world = environment.tools(context.workspace, set, { respond = hermes.respond })
    local seen = world.act { room = 6000, calls = { { name = "Bash", arguments = { command = "seq 20000" } } } }
    t.is_true(#seen.text < 6000, "a quarter of 6000 tokens is about 4500 bytes, got " .. #seen.text)
    has(seen.text, "about 6000 tokens are left")
    local path = seen.text:match("all of it: (/workspace/%S-)%]")
    has(set:call(context, "Read", { file_path = path, offset = 20000 }), "20000\t20000")
    world.close()
  end)
end

function spec.what_a_program_asks_is_answered_with_what_the_agent_may_see()
  local asked = {}
  local ask = "echo '{\"kind\": \"%s\"}' > .khost/d; mv .khost/d .khost/request-%d.json; "
    .. "until [ -e .khost/response-%d.json ]; do sleep 0.02; done; cat .khost/response-%d.json"
  local episode, world = play({
    call_text("Write", { file_path = "/workspace/kernels/k.cpp", content = "int k;\n" })
      .. call_text("Bash", { command = ask:format("verify", 1, 1, 1), timeout = 10000 }),
    call_text("Bash", { command = ask:format("reward", 2, 2, 2), timeout = 10000 }),
    call_text("Bash", { command = ask:format("profile", 3, 3, 3), timeout = 10000 }), "done" }, nil, nil,
    { feedback = function(kind, files)
      asked[#asked + 1] = kind
      if kind == "profile" then error("the judge is gone") end
      return { ok = true, status = "ok", text = "right: " .. files["kernels/k.cpp"] }
    end })
  t.expect(asked, { "verify", "profile" })
  has(episode.turns[1].observation, "right: int k;")
  has(episode.turns[2].observation, "nothing here answers reward")
  has(episode.turns[3].observation, "profile could not be done")
  t.expect(#world.states, 1)
  t.expect(world.states[1].files["kernels/k.cpp"], "int k;\n")
end

return spec
