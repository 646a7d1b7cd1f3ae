-- What specs of policies.endpoint share: a policy over a server that says what it is told (tests/servers/scripted.py), one
-- answer of it, and whole episodes whose tools say "done".
local chunks = require "tests.lua.data.chunks"
local endpoint = require "policies.endpoint"
local http = require "khost.http"
local json = require "khost.json"
local loop = require "agent.loop"
local openai = require "chat.openai"
local random = require "lib.random"
local tools = require "agent.tools"

local kit = {}

local TASK = { messages = { { role = "system", text = "You write kernels." }, { role = "user", text = "Write one." } } }
kit.DONE = chunks.whole({ content = "Finished." }, "stop")

local scripts = 0

local function policy_over(server, script, options)
  scripts = scripts + 1
  local base = ("%s/s%d"):format(server.base, scripts)
  assert(http.request { url = base .. "/script", method = "POST", body = json.encode(script) })
  local all = { url = base .. "/v1", model = "m", toolset = tools.load(), tries = 4, pause_s = 0.01, idle_s = 1,
    key_env = "NO_SUCH_KEY" }
  for name, value in pairs(options or {}) do all[name] = value end
  return assert(endpoint.open(all)), function() return json.decode(http.request { url = base .. "/seen" }.body) end
end

--- One answer: what was drawn and what it means; or the message and the code.
function kit.draw(server, script, options)
  local policy, seen = policy_over(server, script, options)
  local conversation = policy.begin(TASK, random.stream(1))
  local drawn, message, code = conversation:draw(4096)
  local action = drawn and openai.action(drawn.text, { cut = drawn.cut, calls = drawn.calls })
  return { drawn = drawn, action = action, message = message, code = code, counts = policy.counts, seen = seen(),
    record = conversation:record(), conversation = conversation, all_seen = seen }
end

--- An episode whose tools all say "done".
function kit.play(server, script, options)
  local policy, seen = policy_over(server, script, options)
  local world = { act = function(action)
    local observations = {}
    for index in ipairs(action.calls) do observations[index] = { text = "done", status = "ok" } end
    return { tool = "Bash", status = "ok", text = "done", observations = observations }
  end }
  return loop.run({ policy = policy, environment = world }, TASK, random.stream(1)), policy, seen
end

--- The calls of an answer, as names and arguments.
function kit.calls_of(got)
  local list = {}
  for index, call in ipairs(got.action and got.action.calls or {}) do
    list[index] = { call.name or call.label, call.arguments and json.encode(call.arguments) }
  end
  return list
end

kit.TWO = { { "Read", '{"file_path":"/a"}' }, { "Glob", '{"pattern":"*.cu"}' } }
kit.READ, kit.GLOB = '{"file_path":"/a"}', '{"pattern":"*.cu"}'

--- A piece of a call.
function kit.piece(index, id, name, arguments)
  return { index = index, id = id, type = id and "function", ["function"] = { name = name, arguments = arguments } }
end

return kit
