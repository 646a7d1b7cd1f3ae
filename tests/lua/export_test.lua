-- Trajectories in other programs' forms and back, and as a text for reading.
local export = require "agent.export.init"
local fs = require "khost.fs"
local json = require "khost.json"
local messages = require "agent.export.messages"
local openhands = require "agent.export.openhands"
local store = require "khost.store"
local t = require "tests.lua.harness"
local tools = require "agent.tools"
local transcript = require "lib.transcript"

local HARD = "</tool_response>\n<|im_end|> \"quoted\" \\ äöü \1\n"

-- As the store gives it back: two calls at once, one that could not be read, a message, the end.
local function trajectory()
  return { stage = "agentic", step = 2, index = 3, task = "t", name = "relu", policy = "endpoint m",
    status = "final_answer",
    reward = 2, turn_count = 3, token_count = 30, seconds = 4.5, labels = { malformed_call = 1 }, tokens = { 1, 2, 3 },
    mask = { 0, 1, 1 }, logprobs = { 0, -0.5, -0.25 }, usage = { prompt_tokens = 10, completion_tokens = 5,
      cost = 0.25 },
    prompt = { { role = "system", content = "You write kernels." }, { role = "user", content = HARD } },
    start = { ["kernels/fast.h"] = "int f;\n" },
    turns = {
      { index = 1, role = "assistant", text = "I look.", thought = "hm", seconds = 1, token_count = 10, tool = "Write",
        status = "invalid",
        observation = "both", changes = { ["kernels/k.cpp"] = "int k;\n" }, calls = {
          { id = "call_1", name = "Write", arguments = { file_path = "/workspace/kernels/k.cpp", content = HARD },
            status = "ok", observation = HARD },
          { id = "call_2", label = "malformed_call", status = "invalid", observation = "cannot be read" } } },
      { index = 2, role = "assistant", text = "thought\n<tool_call>{}</tool_call>", seconds = 1, token_count = 10,
        tool = "Glob", status = "ok",
        observation = "x", calls = { { name = "Glob", arguments = {}, status = "ok", observation = "x" } },
        changes = { ["kernels/k.cpp"] = "int l;\n", ["kernels/fast.h"] = false } },
      { index = 3, role = "assistant", text = "The kernel stands.", seconds = 1, token_count = 10 },
    },
    verdict = { status = "ok", stage = "time", reason = "", correct = true,
      times = { candidate_s = 1e-3, eager_s = 2e-3, compile_s = 3e-3 },
      speedup = { eager = 2, compile = 3 }, faster = { eager = true, compile = true },
      files = { ["kernels/k.cpp"] = "int l;\n" } } }
end

-- Kept and fetched, so that exports see what they will see.
local function stored()
  local root = "/tmp/khost-export-" .. fs.sha256(tostring(require("khost.sched").wall_clock())):sub(1, 12)
  local run = assert(store.create(root, { name = "x" }))
  local id = assert(run:append("trajectories", trajectory()))
  local back = run:get("trajectories", id)
  run:close()
  fs.remove_tree(root)
  return back
end

-- Messages without what a form has no place for.
local function essence(list)
  local out = {}
  for i, message in ipairs(list) do
    local calls
    for k, call in ipairs(message.calls or {}) do
      calls = calls or {}
      calls[k] = { id = call.id, name = call.name, arguments = call.arguments }
    end
    out[i] = { role = message.role, content = message.content, thought = message.thought, calls = calls,
      call_id = message.call_id }
  end
  return out
end

local spec = {}

function spec.messages_and_calls_survive_each_form_and_the_way_back()
  local kept = stored()
  local wanted = essence(messages.of(kept))
  t.expect(#wanted, 8)
  t.expect(wanted[3].calls[1].arguments.content, HARD)
  t.expect(wanted[6].content, "thought\n")
  for name, format in pairs(export.FORMATS) do
    local back = essence(format.read(format.write(kept)))
    local ok, message = pcall(t.expect, back, wanted)
    if not ok then error(name .. ": " .. message, 0) end
  end
end

function spec.chat_completions_carry_tools_and_tokens_on_one_line()
  local text = export.FORMATS.openai.write(stored())
  t.is_true(not text:find("\n", 1, true))
  local line = json.decode(text)
  t.expect({ #line.tools, line.tools[1]["function"].name }, { #tools.load():schemas(), "Bash" })
  t.expect({ line.khost.token_ids, line.khost.mask, line.khost.logprobs, line.khost.reward }, { { 1, 2, 3 }, { 0, 1,
    1 }, { 0, -0.5, -0.25 }, 2 })
  t.expect(type(line.messages[3].tool_calls[1]["function"].arguments), "string")
  t.expect(line.messages[4].tool_call_id, "call_1")
end

function spec.mini_swe_agent_has_its_format_info_and_actions()
  local file = json.decode(export.FORMATS["mini-swe-agent"].write(stored()))
  t.expect({ file.trajectory_format, file.info.exit_status, file.info.model_stats.instance_cost,
    file.info.model_stats.api_calls },
    { "mini-swe-agent-1.1", "Submitted", 0.25, 3 })
  t.expect(file.messages[6].extra.actions[1].command, "Glob {}")
  t.is_true(file.info.submission:find("int l;", 1, true))
end

function spec.swe_agent_has_one_step_for_each_call()
  local file = json.decode(export.FORMATS["swe-agent"].write(stored()))
  t.expect({ #file.trajectory, file.info.exit_status, file.trajectory[1].observation, file.trajectory[4].response },
    { 4, "submitted", HARD, "The kernel stands." })
  for _, step in ipairs(file.trajectory) do
    for _, field in ipairs { "response", "thought", "action", "observation", "execution_time", "state", "query" } do
      t.is_true(step[field] ~= nil, field)
    end
  end
end

-- The fields that each kind of event has; others are forbidden there.
local EVENT = { id = true, timestamp = true, source = true, kind = true }
local FIELDS = {
  SystemPromptEvent = { system_prompt = true, tools = true }, MessageEvent = { llm_message = true },
  ActionEvent = { thought = true, reasoning_content = true, action = true, tool_name = true, tool_call_id = true,
    tool_call = true,
    llm_response_id = true },
  ObservationEvent = { observation = true, action_id = true, tool_name = true, tool_call_id = true },
}

function spec.openhands_events_have_no_field_that_is_not_theirs()
  local events = json.decode(export.FORMATS.openhands.write(stored()))
  local ids = {}
  for _, event in ipairs(events) do
    for name in pairs(event) do
      t.is_true(EVENT[name] or FIELDS[event.kind][name], ("%s has %s"):format(event.kind, name))
    end
    t.is_true(not ids[event.id], "an id came twice")
    ids[event.id] = true
    if event.action_id then t.is_true(ids[event.action_id], "an observation in front of its action") end
  end
  t.expect(events[3].llm_response_id, events[4].llm_response_id)
  t.expect(openhands.stamp(951782400 + 3661.5), "2000-02-29T01:01:01.500000")
  t.expect(openhands.stamp(1795824000), "2026-11-28T00:00:00.000000")
end

function spec.unknown_things_in_others_files_are_named()
  local list = messages.from_openai { { role = "developer", content = "x" }, { role = "assistant", content = json.null,
    tool_calls = {
    { id = "a", ["function"] = { name = "Bash", arguments = "{broken" } } } } }
  t.expect({ list[1].role, list[1].label, list[2].calls[1].label }, { "user", "unknown_role", "malformed_call" })
  local later = messages.from_openai { { role = "assistant", content = "", tool_calls = {
    { id = "a", ["function"] = { name = "KillShell", arguments = "{}" } } } } }
  t.expect(later[1].calls[1].name, "KillBash")
  local _, unknown = openhands.read { { kind = "Condensation" } }
  t.expect(unknown, { "Condensation" })
end

function spec.a_transcript_shows_calls_differences_and_verdict()
  local text = transcript.text(stored())
  for _, part in ipairs { "turn 1", "> Write", "file_path=/workspace/kernels/k.cpp", "[invalid, malformed_call]",
    "+int k;", "-int k;\n+int l;",
    "+++ /dev/null\n@@ -1 +0,0 @@\n-int f;", "ok at time", "3.00 ms (3x)", "malformed_call 1" } do
    t.is_true(text:find(part, 1, true), ("%q is missing in\n%s"):format(part, text))
  end
end

function spec.a_transcript_is_harmless_to_a_terminal()
  local kept = stored()
  kept.turns[3].text = "\27]0;title\7\27[2Jgone\r"
  local plain = transcript.text(kept)
  t.is_true(not plain:find("[%z\1-\8\11-\31]"), "a control character is left")
  t.is_true(transcript.text(kept, { colour = true }):find("\27[1;36m", 1, true))
  kept.turns[3].text = ("line\n"):rep(500)
  t.is_true(transcript.text(kept):find("440 lines; --all shows them", 1, true))
  t.is_true(not transcript.text(kept, { all = true }):find("--all shows them", 1, true))
end

return spec
