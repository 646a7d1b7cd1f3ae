-- Fuzzes the HTTP client and the policy behind it with a server process whose answers are broken HTTP (tests/servers/
-- noise.py): wrong lengths, chunks that lie, odd headers, half answers. Each request gives an answer or a code, in
-- time; the policy gives an answer, or says what it counted.
--
--   ./khost tests/manual/fuzz/http.lua [--seconds 300] [--seed 1] [--only N]
local args = require "lib.args"
local endpoint = require "policies.endpoint"
local http = require "khost.http"
local json = require "khost.json"
local log = require "khost.log"
local mutate = require "tests.manual.fuzz.mutate"
local sched = require "khost.sched"
local server_kit = require "tests.lua.server_kit"
local tools = require "agent.tools"

local OPTIONS = {
  { name = "--seconds", kind = "number", default = 300, help = "how long" },
  { name = "--seed", kind = "number", default = 1, help = "of all inputs" },
  { name = "--only", kind = "number", help = "this input only" },
}
local ABOUT = { name = "tests/manual/fuzz/http.lua", summary = "fuzzes the HTTP client and the endpoint policy" }
local CODES = { timeout = true, limit = true, io = true, connect = true, bad_input = true }
local MOST_BYTES = 1e6

local answers = 0

local function ask(url, random)
  local got, message, code = http.request { url = url .. "/models", timeout_s = 2, most_bytes = MOST_BYTES }
  if not got then
    assert(type(message) == "string" and CODES[code], "no answer and no code: " .. tostring(code))
  else
    assert(type(got.status) == "number" and type(got.body) == "string" and type(got.headers) == "table",
      "half an answer")
    assert(#got.body <= MOST_BYTES, "more bytes than are allowed")
    for name, value in pairs(got.headers) do
      assert(type(name) == "string" and name == name:lower() and type(value) == "string", "a header that is none")
    end
    assert(not got.body:find("root:x:", 1, true), "a file of this machine was read")
  end
  return random:number() < 0.5
end

local function talk(url, is_stream, stream)
  local policy = assert(endpoint.open { url = url, model = "m", toolset = tools.load { "Bash" }, stream = is_stream,
    tries = 2, pause_s = 0.001, most_pause_s = 0.002, timeout_s = 2, idle_s = 1 })
  local conversation = policy.begin({ messages = { { role = "user", text = "x" } } }, stream)
  local drawn, message, code = conversation:draw(16)
  assert(policy.counts.requests and policy.counts.requests <= 8, "requests were not counted, or too many")
  if drawn then
    answers = answers + 1
    assert(type(drawn.text) == "string" and type(drawn.tokens) == "number", "half an answer")
    conversation:observe("seen", 1, { { text = "seen" } })
    json.encode(conversation:record())
  else
    assert(type(message) == "string" and (code == "endpoint" or code == "limit"), "a failure without a name")
    assert(policy.counts.given_up or policy.counts.refused or code == "limit", "a failure that was not counted")
  end
end

local function run(list)
  local options = args.parse(OPTIONS, list, ABOUT)
  log.open { level = "error" }  -- each failure that was asked for is a warning
  local failures
  server_kit.with(function(server)
    failures = mutate.run("http", options, function(random, index)
      local begin, url = sched.now(), ("%s/n/%d"):format(server.base, options.seed * 1e6 + index)
      talk(url, ask(url, random), random)
      assert(sched.now() - begin < 30, "it took long")
    end)
  end, "noise.py")
  print(("%d of them ended in an answer"):format(answers))
  return failures > 0 and 1 or 0
end

return { name = ABOUT.name, summary = ABOUT.summary, options = OPTIONS, run = run }
