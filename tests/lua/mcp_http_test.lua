-- MCP over HTTP under `khost serve`: sessions, who is let in, and the tools, over real sockets on loopback. The official
-- client speaks to it in tests/python/mcp_client.py.
local fs = require "khost.fs"
local json = require "khost.json"
local kit = require "tests.lua.serve_kit"
local machine = require "khost.machine"
local mcp_tools = require "serve.mcp_tools"
local sched = require "khost.sched"
local t = require "tests.lua.harness"

local spec = {}

local ONE, TWO, POOR = ("a"):rep(32), ("b"):rep(32), ("c"):rep(32)
local TOKENS = ([[
[clients.one]
token = "%s"
rights = ["candidates"]
[clients.two]
token = "%s"
rights = ["candidates", "tasks"]
[clients.poor]
token = "%s"
rights = ["candidates"]
device_s = 0
[clients.nobody]
token = "%s"
rights = ["metrics"]
]]):format(ONE, TWO, POOR, ("d"):rep(32))

local function request(id, method, params) return { jsonrpc = "2.0", id = id, method = method, params = params } end
local function call(id, name, arguments) return request(id, "tools/call", { name = name, arguments = arguments }) end

-- Calls fn(service, speak, root): speak(message, {token, session, headers, method}) gives status, decoded body, headers.
-- Below the root there is a folder with the workspace w for each client, and w itself.
local function with_service(options, fn)
  local folder = "/tmp/khost-mcp-http-" .. fs.sha256(tostring(sched.wall_clock())):sub(1, 12)
  for _, place in ipairs { "/w", "/one/w", "/two/w", "/poor/w" } do
    assert(fs.mkdirs(folder .. place .. "/kernels"))
    assert(fs.write(folder .. place .. "/model.py", options.source or kit.SOURCE))
    assert(fs.write(folder .. place .. "/kernels/k.cpp", "constexpr int BLOCK = 4;\n"))
  end
  options.root = fs.absolute(folder)
  local ok, message = pcall(kit.with, options, function(service)
    local function speak(what, how)
      how = how or {}
      local headers = { ["content-type"] = "application/json", accept = "application/json, text/event-stream",
        authorization = how.token and "Bearer " .. how.token, ["mcp-session-id"] = how.session }
      for name, value in pairs(how.headers or {}) do headers[name] = value end
      local got = service.send("/mcp", type(what) == "string" and what or json.encode(what), headers,
        how.method or "POST")
      return got.status, got.body ~= "" and json.decode(got.body) or nil, got.headers
    end
    fn(service, speak, options.root)
  end)
  fs.remove_tree(folder)
  if not ok then error(message, 0) end
end

local function opened(speak, token)
  local status, _, headers = speak(request(1, "initialize", { protocolVersion = "2025-06-18" }), { token = token })
  t.expect(status, 200)
  return assert(headers["mcp-session-id"])
end

function spec.a_session_is_opened_used_and_ended()
  with_service({ allow_tasks = true }, function(service, speak)
    local session = opened(speak)
    t.is_true(#session == 32)
    t.expect(speak({ jsonrpc = "2.0", method = "notifications/initialized" }, { session = session }), 202)
    local status, tools = speak(request("a", "tools/list"), { session = session })
    t.expect({ status, tools.id, #tools.result.tools }, { 200, "a", 6 })
    local _, answer = speak(call(2, "evaluate", { workspace = "w" }), { session = session })
    t.is_true(answer.result.content[1].text:find("WRONG (verify: mismatch)", 1, true), answer.result.content[1].text)
    t.expect({ service.asked[1].kind, service.asked[1].body.files["kernels/k.cpp"] },
      { "evaluate", "constexpr int BLOCK = 4;\n" })
    t.expect(speak("", { session = session, method = "DELETE" }), 204)
    t.expect(speak(request(3, "ping"), { session = session }), 404)
  end)
end

function spec.what_the_transport_forbids_has_its_status()
  with_service({}, function(_, speak)
    local session = opened(speak)
    local function expect(status, what, how)
      how = how or { session = session }
      local got, body = speak(what, how)
      t.expect({ got, type((body or {}).error) }, { status, "table" })
      return body.error
    end
    t.expect(expect(405, "", { method = "GET", session = session }).code, "bad_method")
    expect(405, "", { method = "PUT", session = session })
    expect(400, request(1, "ping"), {})
    expect(404, request(1, "ping"), { session = ("0"):rep(32) })
    t.expect(expect(400, "{").code, -32700)
    expect(400, "[]")
    expect(400, "null")
    expect(400, { jsonrpc = "2.0", id = {}, method = "ping" })
    expect(400, { jsonrpc = "2.0", method = "initialize" }, {})
    expect(415, request(1, "ping"), { session = session, headers = { ["content-type"] = "text/plain" } })
    expect(406, request(1, "ping"), { session = session, headers = { accept = "text/html" } })
    expect(403, request(1, "ping"), { session = session, headers = { origin = "http://127.0.0.1" } })
    expect(421, request(1, "ping"), { session = session, headers = { host = "evil.example" } })
    local other = expect(400, request(1, "ping"), { session = session, headers = {
      ["mcp-protocol-version"] = "2099-01-01" } })
    t.expect({ other.code, other.data.requested, #other.data.supported }, { -32022, "2099-01-01", 4 })
    t.expect(speak(request(1, "ping"), { session = session, headers = { ["mcp-protocol-version"] = "2025-11-25" } }), 200)
    t.expect(expect(200, request(1, "no/such")).code, -32601)
    t.expect(expect(413, ("x"):rep(4 * 2 ^ 20 + 1)).code, "limit")
  end)
end

function spec.a_session_belongs_to_the_token_that_opened_it()
  with_service({ clients = TOKENS }, function(_, speak)
    t.expect(speak(request(1, "initialize")), 401)
    t.expect(speak(request(1, "initialize"), { token = ("d"):rep(32) }), 403)
    local session = opened(speak, ONE)
    t.expect(speak(request(2, "ping"), { token = ONE, session = session }), 200)
    t.expect(speak(request(2, "ping"), { token = TWO, session = session }), 404)
    t.expect(speak("", { token = TWO, session = session, method = "DELETE" }), 404)
    t.expect(speak(request(2, "ping"), { session = session }), 401)
    t.expect(speak(request(2, "ping"), { token = ONE, session = session }), 200)
  end)
end

function spec.a_client_with_a_token_sees_its_own_folder_alone()
  with_service({ clients = TOKENS }, function(service, speak, root)
    local session = opened(speak, ONE)
    local function told(path)
      local _, answer = speak(call(1, "evaluate", { workspace = path }), { token = ONE, session = session })
      return answer.result.content[1].text
    end
    t.is_true(told("w"):find("WRONG", 1, true))
    for _, path in ipairs { "../two/w", root .. "/two/w", root, "/etc" } do
      t.is_true(told(path):find("is not below", 1, true), path)
      t.is_true(not told("../two/w"):find(root, 1, true), "the service's own path is not told")
    end
    machine.run { "ln", "-s", root .. "/two/w", root .. "/one/out" }
    t.is_true(told("out"):find("is not below", 1, true))
    t.expect(#service.asked, 1)
    fs.remove_tree(root .. "/one/w/.khost")
    machine.run { "ln", "-s", root .. "/two", root .. "/one/w/.khost" }
    t.is_true(not told("w"):find("whole answer", 1, true))
    t.is_true(not fs.exists(root .. "/two/evaluate.json"))
    fs.remove_tree(root .. "/two")
    t.expect(speak(request(1, "initialize"), { token = TWO }), 403)
  end)
end

-- The folder that root/NAME leads to lies in one that the client owns, who can put anything in its place.
function spec.a_session_keeps_the_folder_that_it_began_with()
  local swap
  with_service({ clients = TOKENS, answer = function()
    if swap then swap() end
    return kit.wrong()
  end }, function(service, speak, root)
    assert(fs.mkdirs(root .. "/home"))
    machine.run { "mv", root .. "/one", root .. "/home/ws" }
    machine.run { "ln", "-s", "home/ws", root .. "/one" }
    local session = opened(speak, ONE)
    local function told(path)
      local _, answer = speak(call(1, "evaluate", { workspace = path }), { token = ONE, session = session })
      return answer.result.content[1].text
    end
    t.is_true(told("w"):find("whole answer: " .. root .. "/home/ws/w/.khost/evaluate.json", 1, true))
    fs.remove_tree(root .. "/home/ws/w/.khost")
    function swap()
      machine.run { "mv", root .. "/home/ws", root .. "/home/away" }
      machine.run { "ln", "-s", root .. "/two", root .. "/home/ws" }
    end
    told "w"
    t.expect({ fs.exists(root .. "/two/w/.khost"), fs.exists(root .. "/home/away/w/.khost/evaluate.json") },
      { nil, "file" })
    swap = nil
    local asked = #service.asked
    t.is_true(told("w"):find("is not below", 1, true))
    t.expect({ #service.asked, (speak(request(1, "initialize"), { token = ONE })) }, { asked, 403 })
  end)
end

function spec.texts_of_tasks_need_their_right_and_loaded_ones_do_not()
  local function right() return { status = "ok", stage = "verify", reason = "", ok = true, text = "Correct." } end
  with_service({ clients = TOKENS, source = "class Model: other\n", answer = right }, function(service, speak, root)
    local function told(token)
      local session = opened(speak, token)
      local _, answer = speak(call(1, "verify", { workspace = "w" }), { token = token, session = session })
      return answer.result.content[1].text
    end
    t.is_true(told(ONE):find("may not send texts of tasks", 1, true))
    t.expect(#service.asked, 0)
    told(TWO)
    t.expect(#service.asked, 1)
    assert(fs.write(root .. "/one/w/model.py", kit.SOURCE))
    told(ONE)
    t.expect({ #service.asked, service.asked[2].body.task.name }, { 2, "task" })
  end)
end

function spec.quotas_and_the_queue_hold()
  local open = false
  with_service({ clients = TOKENS .. "[clients.slow]\ntoken = \"" .. ("e"):rep(32)
    .. "\"\nrights = [\"candidates\"]\nwaiting = 1\n", slots = 1, answer = function()
      t.eventually(function() return open end)
      return kit.wrong()
    end }, function(service, speak, root)
    local poor = opened(speak, POOR)
    local status, answer, headers = speak(call(1, "evaluate", { workspace = "w" }), { token = POOR, session = poor })
    t.is_true(status == 429 and answer.error.message:find("device_s", 1, true) and headers["retry-after"])
    t.expect(speak(request(2, "ping"), { token = POOR, session = poor }), 200)
    machine.run { "cp", "-r", root .. "/one", root .. "/slow" }
    local slow, done = opened(speak, ("e"):rep(32)), {}
    for index = 1, 2 do
      sched.spawn(function()
        done[index] = speak(call(index, "evaluate", { workspace = "w" }), { token = ("e"):rep(32), session = slow })
      end)
      t.eventually(function() return #service.asked + service.app.queue.waiting == index end)
    end
    t.expect(speak(call(3, "verify", { workspace = "w" }), { token = ("e"):rep(32), session = slow }), 429)
    open = true
    t.eventually(function() return done[1] and done[2] end)
    t.expect(done, { 200, 200 })
  end)
end

function spec.a_tool_that_holds_the_judge_and_tells_no_seconds_is_charged_to_its_client_s_quota()
  local structure = { inputs = {}, outputs = {}, input_bytes = 0, state_bytes = 0, output_bytes = 0, flops = 0,
    operators = 0 }
  local server, given = mcp_tools.server, nil
  function mcp_tools.server(options)
    given = options
    return server(options)
  end
  with_service({ clients = TOKENS, answer = function()
    sched.sleep(0.05)
    return { structure = structure }
  end }, function(service, speak)
    local session = opened(speak, ONE)
    mcp_tools.server = server
    local function used() return (service.app.turns.usage:used("one", "device_s")) end
    local _, answer = speak(call(1, "task_info", { task = "w/model.py" }), { token = ONE, session = session })
    t.is_true(answer.result.content[1].text:find("operators", 1, true), answer.result.content[1].text)
    local before = used()
    t.is_true(before >= 0.05, tostring(before))
    given.turn({ gone = function() return false end }, function() sched.sleep(0.05) end)  -- as doctor takes its turn
    t.is_true(used() >= before + 0.05, tostring(used()))
  end)
end

function spec.a_cancelled_call_is_answered_as_such()
  local open = false
  with_service({ answer = function()
    t.eventually(function() return open end)
    return kit.wrong()
  end }, function(service, speak)
    local session, got = opened(speak), nil
    sched.spawn(function()
      local _, answer = speak(call(7, "evaluate", { workspace = "w" }), { session = session })
      got = answer
    end)
    t.eventually(function() return #service.asked == 1 end)
    t.expect(speak({ jsonrpc = "2.0", method = "notifications/cancelled", params = { requestId = 7 } },
      { session = session }), 202)
    open = true
    t.eventually(function() return got end)
    t.expect({ got.id, got.error.code }, { 7, -32001 })
  end)
end

function spec.a_client_keeps_its_newest_sessions()
  with_service({}, function(service, speak)
    local first = opened(speak)
    local second = opened(speak)
    for _ = 1, 62 do opened(speak) end
    t.expect(speak(request(1, "ping"), { session = first }), 200)
    opened(speak)
    t.expect(speak(request(1, "ping"), { session = first }), 200)
    t.expect(speak(request(1, "ping"), { session = second }), 404)
    for _, one in pairs(service.app.mcp.sessions) do one.seen = one.seen - 1801 end
    opened(speak)
    local count = 0
    for _ in pairs(service.app.mcp.sessions) do count = count + 1 end
    t.expect(count, 1)
  end)
end

function spec.without_a_root_there_is_no_route()
  kit.with({}, function(service)
    t.expect(service.send("/mcp", "{}", { ["content-type"] = "application/json" }).status, 404)
  end)
end

return spec
