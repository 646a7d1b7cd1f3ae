-- `khost mcp`: the protocol on lines, and the tools over a judge that answers what a spec wants.
local client = require "judge.client"
local fs = require "khost.fs"
local json = require "khost.json"
local machine = require "khost.machine"
local mcp = require "serve.mcp"
local mcp_tools = require "serve.mcp_tools"
local sched = require "khost.sched"
local t = require "tests.lua.harness"
local verdicts = require "judge.verdict"

local spec = {}

local SCHEMA = { type = "object", properties = { text = { type = "string" }, count = { type = "integer" },
  list = { type = "array", items = { type = "integer" } } }, required = json.list { "text" } }

local function server(run)
  return mcp.new { name = "n", version = "v", instructions = "i",
    tools = { { name = "echo", description = "d", schema = SCHEMA, run = run or function(a) return a.text end } } }
end

-- Lines as khost.Lines gives and takes them; the end comes when `written` has this many responses.
local function lines_of(list, most)
  local lines = { written = {} }
  local index = 0
  function lines.read()
    index = index + 1
    if list[index] then
      return type(list[index]) == "string" and list[index] or json.encode(list[index])
    end
    t.eventually(function() return #lines.written >= most end)
    return nil, "the input ended", "gone"
  end
  function lines.write(_, text)
    t.is_true(text:sub(-1) == "\n" and not text:sub(1, -2):find("\n", 1, true), "one line a response")
    lines.written[#lines.written + 1] = json.decode(text)
    return true
  end
  return lines
end

local function request(id, method, params) return { jsonrpc = "2.0", id = id, method = method, params = params } end
local function call(id, arguments) return request(id, "tools/call", { name = "echo", arguments = arguments }) end

function spec.a_client_shakes_hands_lists_and_calls()
  local s = server()
  local hello = s:respond(json.encode(request(1, "initialize", { protocolVersion = "2025-06-18" }))).result
  t.expect({ hello.protocolVersion, hello.serverInfo.name, hello.instructions }, { "2025-06-18", "n", "i" })
  t.expect(s:respond(json.encode(request(2, "initialize", { protocolVersion = "1999-01-01" }))).result.protocolVersion,
    mcp.VERSIONS[#mcp.VERSIONS])
  local tools = s:respond(json.encode(request("a", "tools/list"))).result.tools
  t.expect({ #tools, tools[1].name, tools[1].inputSchema.required }, { 1, "echo", { "text" } })
  t.expect(s:respond(json.encode(call(3, { text = "x" }))),
    { jsonrpc = "2.0", id = 3, result = { content = { { type = "text", text = "x" } }, isError = false } })
  t.expect(s:respond(json.encode(request(4, "ping"))).result, {})
end

function spec.what_is_no_request_gets_the_code_of_its_fault()
  local s = server()
  local function code(line)
    local response = s:respond(type(line) == "string" and line or json.encode(line))
    return response and response.error.code
  end
  t.expect(code "{", -32700)
  t.expect(code(("["):rep(1000)), -32700)
  t.expect(code "3", -32600)
  t.expect(code "[]", -32600)
  t.expect(code { jsonrpc = "1.0", id = 1, method = "ping" }, -32600)
  t.expect(code { jsonrpc = "2.0", id = 1, method = 3 }, -32600)
  t.expect(code { jsonrpc = "2.0", id = { 1 }, method = "ping" }, -32600)
  for _, id in ipairs { "9007199254740993", "-9007199254740992", "1e300", "1.5" } do  -- which would come back changed
    local response = s:respond(('{"jsonrpc": "2.0", "id": %s, "method": "ping"}'):format(id))
    t.expect({ response.id == json.null, (response.error or {}).code }, { true, -32600 })
  end
  t.expect(s:respond('{"jsonrpc": "2.0", "id": 9007199254740991, "method": "ping"}').id, 9007199254740991)
  t.expect(code(request(1, "no/such")), -32601)
  t.expect(code(request(1, "tools/call", { name = "none" })), -32602)
  t.expect(code(request(1, "tools/call", { name = "echo", arguments = { 1, 2 } })), -32602)
  t.expect(code(request(1, "ping", 3)), -32602)
  t.expect(code(request(nil, "notifications/initialized")), nil)
  t.expect(code { jsonrpc = "2.0", id = 9, result = {} }, nil)
end

function spec.arguments_that_do_not_fit_are_told_to_the_model()
  local s = server()
  local function told(arguments, part)
    local answer = s:respond(json.encode(call(1, arguments))).result
    t.is_true(answer.isError and answer.content[1].text:find(part, 1, true), answer.content[1].text)
  end
  told({}, "argument 'text' is missing")
  told({ text = 3 }, "text: string expected")
  told({ text = "x", more = 1 }, "unknown argument 'more'")
  told({ text = "x", count = 1.5 }, "count: integer expected")
  told({ text = "x", list = { 1, "2" } }, "every item")
  local broken = server(function() error "secret path" end):respond(json.encode(call(1, { text = "x" }))).result
  t.is_true(broken.isError and broken.content[1].text:find("echo failed", 1, true))
end

function spec.calls_run_at_the_same_time_and_can_be_cancelled()
  local s = server(function(a)
    sched.sleep(a.text == "slow" and 0.2 or 0.01)
    return a.text
  end)
  local lines = lines_of({ call(1, { text = "slow" }), call(1, { text = "same id" }), call(2, { text = "quick" }),
    { jsonrpc = "2.0", method = "notifications/cancelled", params = { requestId = 1 } }, request(3, "ping") }, 3)
  t.expect(s:serve(lines), true)
  local by_id = {}
  for _, response in ipairs(lines.written) do by_id[response.id] = response end
  t.expect({ #lines.written, by_id[1].error.code, by_id[2].result.content[1].text }, { 3, -32600, "quick" })
  t.expect(s.count, 0)
end

function spec.a_cancelled_call_keeps_its_place_until_its_tool_is_done()
  local open, wanted, answered = false, nil, nil
  local s = server(function(a, is_wanted)
    wanted = is_wanted
    while not open do sched.sleep(0.005) end
    return a.text
  end)
  local task = sched.spawn(function() answered = s:respond(json.encode(call(1, { text = "x" }))) end)
  t.eventually(function() return wanted and s.count == 1 end)
  t.expect(wanted(), true)
  s:respond(json.encode { jsonrpc = "2.0", method = "notifications/cancelled", params = { requestId = 1 } })
  sched.sleep(0.02)
  t.expect({ s.count, wanted() }, { 1, false })
  open = true
  task:wait()
  t.expect({ s.count, answered }, { 0 })
end

function spec.the_end_of_the_input_ends_what_runs()
  local ended = false
  local s = server(function()
    local ok, reason = pcall(sched.sleep, 60)
    ended = not ok
    error(reason, 0)
  end)
  local begin = sched.now()
  t.expect(s:serve(lines_of({ call(1, { text = "x" }) }, 0)), true)
  t.eventually(function() return ended end)
  t.is_true(sched.now() - begin < 30)
end

function spec.a_line_that_is_too_long_ends_the_server_with_a_word()
  local lines = lines_of({}, 0)
  function lines.read() return nil, "a line has more than 3 bytes", "limit" end
  t.expect(server():serve(lines), false)
  t.expect(lines.written[1].error.code, -32700)
end

-- A folder with a workspace, and the tools over it; `asked` has what reached the judge.
local function with_tools(answer, fn)
  local folder = "/tmp/khost-mcp-" .. fs.sha256(tostring(sched.wall_clock())):sub(1, 12)
  assert(fs.mkdirs(folder .. "/w/kernels"))
  assert(fs.write(folder .. "/w/model.py", "class Model: pass\n"))
  assert(fs.write(folder .. "/w/kernels/k.cpp", "constexpr int BLOCK = 4;\n"))
  local root, asked = fs.absolute(folder), {}
  local judge = client.over({ request = function(_, kind, body)
    asked[#asked + 1] = { kind = kind, body = body }
    return answer(kind, body)
  end }, { target = "cpu" })
  local tools = {}
  for _, tool in ipairs(mcp_tools.new { roots = { fs.folder(root) }, target = "cpu", judge = function() return judge end }) do
    tools[tool.name] = function(arguments) return tool.run(arguments, function() return true end) end
  end
  local ok, message = pcall(fn, tools, root, asked)
  fs.remove_tree(folder)
  if not ok then error(message, 0) end
end

function spec.evaluate_says_nothing_of_secret_sets_and_keeps_the_whole_in_a_file()
  with_tools(function()
    local verdict = verdicts.blank("wrong", "verify", "mismatch", "output[7] is 1, expected 2")
    verdict.evidence = { tolerance = "calibrated", wrong_set = 1 }
    return verdict
  end, function(tools, root, asked)
    local text = assert(tools.evaluate { workspace = "w" })
    t.is_true(text:find("WRONG (verify: mismatch)", 1, true), text)
    local path = text:match("whole answer: (%S+)")
    t.expect(path, root .. "/w/.khost/evaluate.json")
    local whole = assert(fs.read(path))
    t.expect(json.decode(whole).status, "wrong")
    t.is_true(not (text .. whole):find("expected 2", 1, true) and not whole:find("wrong_set", 1, true), whole)
    t.expect({ asked[1].kind, asked[1].body.files["kernels/k.cpp"] }, { "evaluate", "constexpr int BLOCK = 4;\n" })
  end)
end

function spec.feedback_and_tune_ask_on_visible_inputs()
  with_tools(function(kind, body)
    local block = tonumber(body.files["kernels/k.cpp"]:match("= (%d+)"))
    return { status = "ok", stage = kind, reason = "", ok = true, text = ("x"):rep(20000),
      times = { candidate_s = block } }
  end, function(tools, _, asked)
    local text = assert(tools.verify { workspace = "w" })
    t.is_true(#text < 6500 and text:find("bytes are left out here", 1, true), "an answer is short")
    assert(tools.profile { workspace = "w" })
    text = assert(tools.tune { workspace = "w", name = "BLOCK", values = { 8, 2 } })
    t.is_true(text:find("fastest: BLOCK = 2", 1, true), text)
    t.expect({ asked[1].kind, asked[2].kind, asked[3].kind, #asked }, { "verify", "profile", "profile", 4 })
    local none, why = tools.tune { workspace = "w", name = "NONE", values = { 1 } }
    t.is_true(not none and why:find("no file defines NONE", 1, true), why)
  end)
end

function spec.nothing_outside_of_the_roots_is_read_or_written()
  with_tools(function() return verdicts.blank("void", "task", "judge_lost") end, function(tools, root, asked)
    for _, path in ipairs { "/etc", "..", "w/../..", "/", "\0", "" } do
      local text, message = tools.evaluate { workspace = path }
      t.is_true(not text and message, path)
    end
    t.is_true(not tools.task_info { task = "/etc/passwd" })
    machine.run { "ln", "-s", "/etc/passwd", root .. "/w/kernels/link.cpp" }
    t.is_true(not tools.evaluate { workspace = "w" })
    machine.run { "rm", root .. "/w/kernels/link.cpp" }
    machine.run { "ln", "-s", "/tmp", root .. "/out" }
    t.is_true(not tools.evaluate { workspace = "out" })
    t.expect(#asked, 0)
    machine.run { "ln", "-s", "/tmp", root .. "/w/.khost" }
    local text = assert(tools.evaluate { workspace = "w" })
    t.is_true(not text:find("whole answer", 1, true), text)
  end)
end

function spec.a_task_that_is_too_large_is_not_read()
  with_tools(function() return verdicts.blank("void", "task", "judge_lost") end, function(tools, root, asked)
    assert(fs.write(root .. "/w/model.py", ("#"):rep(2 ^ 20 + 1)))
    local text, message = tools.evaluate { workspace = "w" }
    t.is_true(not text and message:find("w/model.py: larger than 1048576 bytes", 1, true), tostring(message))
    t.expect(#asked, 0)
  end)
end

function spec.a_tune_that_is_cancelled_asks_no_more()
  with_tools(function() return verdicts.blank("wrong", "verify", "mismatch") end, function(_, root, asked)
    local judge = client.over({ request = function(_, kind)
      asked[#asked + 1] = kind
      return verdicts.blank("wrong", "verify", "mismatch")
    end }, { target = "cpu" })
    for _, tool in ipairs(mcp_tools.new { roots = { fs.folder(root) }, target = "cpu", judge = function() return judge end }) do
      if tool.name == "tune" then
        tool.run({ workspace = "w", name = "BLOCK", values = { 1, 2, 3 } }, function() return #asked == 0 end)
      end
    end
    t.expect(asked, { "profile" })
  end)
end

return spec
