-- One episode with tool calls against a server that others wrote (tests/long/serve.sh starts it). A model of 135M weights
-- seldom writes a call that makes sense: what must hold is that the episode runs to its end, that calls are made or
-- refused with labels, and that nothing is lost on the way, whole and as a stream.
local args = require "lib.args"
local endpoint = require "policies.endpoint"
local environment = require "agent.environment"
local hermes = require "chat.hermes"
local json = require "khost.json"
local loop = require "agent.loop"
local random = require "lib.random"
local sandbox = require "khost.sandbox"
local tools = require "agent.tools"

local OPTIONS = {
  { name = "--url", kind = "text", required = true, help = "up to and with /v1" },
  { name = "--model", kind = "text", required = true, help = "what the server calls it" },
  { name = "--turns", kind = "number", default = 4, help = "of an episode" },
}
local ABOUT = { name = "tests/long/serve.lua", summary = "an episode against a real server" }

-- The small model goes on with what it was shown, so it is shown a call.
local CALL = '<tool_call>\n{"name": "Bash", "arguments": {"command": "ls kernels"}}\n</tool_call>'
local MESSAGES = {
  { role = "system", text = "You call tools. Answer every message with exactly one call and nothing else." },
  { role = "user", text = "List the folder kernels." }, { role = "assistant", text = CALL },
  { role = "user", text = "<tool_response>\na.cpp\n</tool_response>" }, { role = "assistant", text = CALL },
  { role = "user", text = "List the folder kernels again." },
}

local function play(options, is_stream)
  local policy, message = endpoint.open { url = options.url, model = options.model, format = hermes, stream = is_stream,
    temperature = 0.1, context = 2048, timeout_s = 240 }
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
  print(("%s: ended by %s after %d turns, %d calls, %d tokens; %s; labels %s"):format(is_stream and "stream" or "whole",
    episode.ending,
    #episode.turns, made, episode.record.usage.completion_tokens, json.encode(policy.counts),
      json.encode(episode.labels)))
  if episode.error then print("  " .. episode.error) end
  return episode.ending ~= "env_error" and #episode.turns > 0 and made
end

local function run(list)
  local options = args.parse(OPTIONS, list, ABOUT)
  local whole, stream = play(options, false), play(options, true)
  return whole and stream and whole + stream > 0 and 0 or 1
end

return { name = ABOUT.name, summary = ABOUT.summary, options = OPTIONS, run = run }
