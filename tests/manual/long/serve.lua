-- Episodes with tool calls against a server that others wrote (tests/manual/long/serve.sh starts it): whole, as a stream, and
-- through tests/servers/faults.py, which answers 429 and 500, cuts an answer, kills the server and starts it again, and
-- breaks a call. A model of 135M weights seldom writes a call that makes sense: what must hold is that each episode
-- runs to its end, that calls are made or refused with labels, and that what went wrong is counted.
local args = require "lib.args"
local endpoint = require "policies.endpoint"
local environment = require "agent.environment"
local hermes = require "chat.hermes"
local http = require "khost.http"
local json = require "khost.json"
local loop = require "agent.loop"
local random = require "lib.random"
local sandbox = require "khost.sandbox"
local tools = require "agent.tools"

local OPTIONS = {
  { name = "--url", kind = "text", required = true, help = "the server, without /v1" },
  { name = "--faults", kind = "text", required = true, help = "what stands before it, without /v1" },
  { name = "--model", kind = "text", required = true, help = "what the server calls it" },
  { name = "--turns", kind = "number", default = 4, help = "of an episode" },
}
local ABOUT = { name = "tests/manual/long/serve.lua", summary = "an episode against a real server" }

-- The small model goes on with what it was shown, so it is shown a call.
local CALL = '<tool_call>\n{"name": "Bash", "arguments": {"command": "ls kernels"}}\n</tool_call>'
local MESSAGES = {
  { role = "system", text = "You call tools. Answer every message with exactly one call and nothing else." },
  { role = "user", text = "List the folder kernels." }, { role = "assistant", text = CALL },
  { role = "user", text = "<tool_response>\na.cpp\n</tool_response>" }, { role = "assistant", text = CALL },
  { role = "user", text = "List the folder kernels again." },
}

local function play(options, name, url, is_stream)
  local policy, message = endpoint.open { url = url .. "/v1", model = options.model, format = hermes,
    stream = is_stream, temperature = 0.1, context = 2048, timeout_s = 240, tries = 120, most_pause_s = 2 }
  if not policy then error(message, 0) end
  local episode = assert(sandbox.within(nil, function(workspace)
    local world = environment.tools(workspace, tools.load(), { respond = hermes.respond })
    local episode = loop.run({ policy = policy, environment = world, limits = { turns = options.turns,
      answer_tokens = 48 } },
      { messages = MESSAGES }, random.stream(1))
    world.close()
    return episode
  end, { files = { ["model.py"] = "class Model: pass\n", ["kernels/a.cpp"] = "int a;\n" } }))
  local made = 0
  for _, turn in ipairs(episode.turns) do
    for _, call in ipairs(turn.calls or {}) do
      made = made + 1
      print(("  turn %d: %s %s -> %s"):format(turn.index, call.name or "unreadable", json.encode(call.arguments or {}),
        (call.observation or ""):match("[^\n]*")))
    end
  end
  print(("%s: ended by %s after %d turns, %d calls, %d tokens; %s; labels %s"):format(name, episode.ending,
    #episode.turns, made, episode.record.usage.completion_tokens, json.encode(policy.counts),
    json.encode(episode.labels)))
  if episode.error then print("  " .. episode.error) end
  local ended = episode.ending ~= "env_error" and #episode.turns > 0
  return { ok = ended, made = made, counts = policy.counts, labels = episode.labels }
end

-- What was done to the server must be what the policy and the record counted.
local function counted(options, played)
  local got = assert(http.request { url = options.faults .. "/seen" })
  local done = json.decode(got.body)
  print("  done to the server: " .. got.body)
  local counts = played.counts
  local list = { { "429", done.status_429 == 1 and counts.retried_status_429 == 1 },
    { "500", done.status_500 == 1 and counts.retried_status_500 == 1 },
    { "cut connections and the restart", done.cut == 1 and done.restarts == 1
      and counts.retried_io == done.cut + done.restarts + done.refused },
    { "the broken call", done.broken_calls == 1 and played.labels.malformed_call ~= nil },
    { "answers", counts.requests == done.answers + 2 + counts.retried_io } }
  local all = true
  for _, item in ipairs(list) do
    if not item[2] then
      all = false
      print(("  %s: not as counted"):format(item[1]))
    end
  end
  return all
end

local function run(list)
  local options = args.parse(OPTIONS, list, ABOUT)
  local whole = play(options, "whole", options.url, false)
  local stream = play(options, "stream", options.url, true)
  local faults = play(options, "faults", options.faults, false)
  local ok = whole.ok and stream.ok and faults.ok and whole.made + stream.made > 0
  return counted(options, faults) and ok and 0 or 1
end

return { name = ABOUT.name, summary = ABOUT.summary, options = OPTIONS, run = run }
