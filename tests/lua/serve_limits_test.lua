-- What strangers may cost a service: memory of bodies, time of a body's reading, places of episodes, and what comes of
-- files that no folder can hold.
local bodies = require "serve.bodies"
local episodes_kit = require "tests.lua.episodes_kit"
local fs = require "khost.fs"
local json = require "khost.json"
local kit = require "tests.lua.serve_kit"
local machine = require "khost.machine"
local mcp = require "serve.mcp"
local mcp_tools = require "serve.mcp_tools"
local parse = require "agent.parse"
local sched = require "khost.sched"
local session = require "serve.episode_session"
local t = require "tests.lua.harness"

local spec = {}

local TWO = ('[clients.a]\ntoken = "%s"\nrights = ["candidates"]\n[clients.b]\ntoken = "%s"\nrights = ["candidates"]\n')
  :format(("a"):rep(32), ("b"):rep(32))
local A, B = { Authorization = "Bearer " .. ("a"):rep(32) }, { Authorization = "Bearer " .. ("b"):rep(32) }

local function ask(files) return json.encode { task = "task", files = files or kit.FILES } end

-- A connection of client a that announces a body of so many bytes, sends one and waits for the answer, which ends it.
local function slow_sender(port, bytes)
  local script = ([[
import socket
s = socket.create_connection(("127.0.0.1", %d))
s.sendall(b"POST /v1/verdict HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n{")
print(s.recv(12).decode())]]):format(port, ("a"):rep(32), bytes)
  return sched.spawn(function() return assert(machine.run({ "/usr/bin/python3", "-c", script }, { timeout_s = 20 })) end)
end

-- An empty body beside another one of the same client: whichever is answered first, the account is even in the end.
function spec.empty_bodies_are_held_and_given_back_in_any_order()
  local function exchange(text)
    return { head = function() return { headers = { ["content-length"] = tostring(#text) } } end,
      body = function() return text end }
  end
  for _, texts in ipairs { { "", "" }, { "abc", "" }, { "", "abc" }, { "abc", "de" } } do
    local held, one, other = bodies.new { most = 10, alone = false, room = 100 }, exchange(texts[1]), exchange(texts[2])
    t.expect({ held:read(one, { name = "a" }), held:read(other, { name = "a" }) }, { texts[1], texts[2] })
    t.expect(held.bytes, #texts[1] + #texts[2])
    held:release(one)
    t.expect(held.bytes, #texts[2])
    held:release(other)
    t.expect({ held.bytes, next(held.of), next(held.held) }, { 0 })
  end
end

function spec.bodies_that_arrive_slowly_hold_half_of_the_room_and_give_it_back()
  kit.with({ clients = TWO, body_room = 4000 }, function(service)
    local slow = slow_sender(service.port, 1990)
    t.eventually(function() return service.app.bodies.bytes == 1990 end, 20)
    local status, content, got = service.post(ask(), { headers = A })
    t.expect({ status, content.error.code, got.headers["retry-after"] }, { 503, "busy", "5" })
    t.expect((service.post(ask(), { headers = B })), 200)
    t.is_true(slow:wait().output:find("408", 1, true), slow:wait().output)
    t.eventually(function() return service.app.bodies.bytes == 0 end)
    t.expect({ next(service.app.bodies.held), next(service.app.bodies.of) }, {})
    t.expect((service.post(ask(), { headers = A })), 200)
  end)
end

function spec.a_body_that_waits_for_the_judge_is_counted_until_it_is_answered()
  local open = false
  kit.with({ answer = function()
    while not open do sched.sleep(0.01) end
    return kit.wrong()
  end }, function(service)
    local body = ask()
    local asked = sched.spawn(function() return (service.post(body)) end)
    t.eventually(function() return #service.asked == 1 end)
    t.expect(service.app.bodies.bytes, #body)
    open = true
    t.expect((asked:wait()), 200)
    t.expect(service.app.bodies.bytes, 0)
  end)
end

function spec.a_body_of_nothing_but_lists_objects_or_fields_is_refused_before_it_is_made()
  kit.with({}, function(service)
    for _, part in ipairs { "[],", "{}," } do
      local status, content = service.post('{"prompt":[' .. part:rep(20000) .. "1]}")
      t.expect({ status, content.error.code }, { 400, "bad_input" })
      t.is_true(content.error.message:find("more than 10000 lists, objects and fields", 1, true), content.error.message)
    end
    -- Numbers cost no more than their text: a step may have many.
    t.is_true(select(2, service.post('{"prompt":[' .. ("1,"):rep(200000) .. "1]}")).error.message:find("task:", 1, true))
  end)
end

function spec.messages_do_not_grow_with_what_was_sent()
  kit.with({}, function(service)
    local long = ("k"):rep(100000)
    for _, body in ipairs { { [long] = 1 }, { task = { source = "x", [long] = 1 }, files = kit.FILES },
      { task = long, files = kit.FILES }, { task = "task", files = { [long] = "x" } } } do
      local status, _, got = service.post(json.encode(body))
      t.is_true((status == 400 or status == 404) and #got.body < 600, status .. " " .. #got.body)
    end
  end)
end

function spec.files_that_no_folder_can_hold_are_named_and_not_judged()
  t.expect({ parse.legal_path "kernels/a/", parse.legal_path "kernels/a" }, { false, true })
  t.expect(parse.clash { ["kernels/a"] = "", ["kernels/a/b/c.cpp"] = "" }, "kernels/a")
  t.expect(parse.clash { ["kernels/a.cpp"] = "", ["kernels/a/b.cpp"] = "", ["model_new.py"] = "" }, nil)
  t.expect(select(2, parse.files "```cpp kernels/a\nx\n```\n```cpp kernels/a/b\nx\n```\n"), "bad_path")
  kit.with({}, function(service)
    for _, files in ipairs { { ["kernels/a.cpp"] = "x", ["kernels/a.cpp/b.cpp"] = "x" },
      { ["kernels/fast.h/x.cpp"] = "x" } } do
      local status, content = service.post(ask(files))
      t.is_true(status == 400 and content.error.message:find("is a file, and a folder of another path", 1, true),
        content.error.message)
    end
    t.expect(service.asked, {})
    local status, content = service.post { task = "task", answer = "```cpp kernels/fast.h/x.cpp\nx\n```" }
    t.expect({ status, content.reward, content.verdict.reason }, { 200, -1, "unparsable" })
  end)
end

function spec.an_episode_whose_beginning_nobody_hears_of_is_ended()
  local new, open = session.new, false
  function session.new(options)
    local one = new(options)
    function one.begun(self)
      while not open do sched.sleep(0.01) end
      return getmetatable(self).begun(self)
    end
    return one
  end
  episodes_kit.with({}, function(service)
    local script = ([[
import socket, time
s = socket.create_connection(("127.0.0.1", %d))
b = b'{"task": "task", "tokenizer": "toy", "format": "files"}'
s.sendall(b"POST /v1/episodes HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %%d\r\n\r\n" %% len(b) + b)
s.close()]]):format(service.port)
    for _ = 1, 4 do assert(machine.run({ "/usr/bin/python3", "-c", script }, { timeout_s = 20 })) end
    t.eventually(function() return service.app.episodes.open == 4 end)
    open = true
    t.eventually(function() return service.app.in_work == 0 and service.app.episodes.open == 0 end, 8)
    t.expect((service.begin()), 200)
  end)
end

function spec.what_waits_before_an_episode_begins_counts_as_an_open_one()
  local open, waiting = false, 0
  local limited = TWO:gsub('(token = "a+"\n)', "%1episodes = 2\n")
  episodes_kit.with({ clients = limited, slots = 1, answer = function(kind)
    waiting = waiting + 1
    while not open do sched.sleep(0.01) end
    if kind == "trace" then return nil, "no graph", "bad_task" end
    return kit.wrong()
  end }, function(service)
    service.app.episodes.options.tokenizers:add("tiny", { tokenizer = { special = function() return 1 end }, ends = {} })
    local statuses = {}
    local function begin(index)
      return sched.spawn(function()
        statuses[index] = service.begin({ format = "tiny", tokenizer = "tiny" }, A)
      end)
    end
    local tasks = { begin(1), begin(2) }
    t.eventually(function() return service.app.queue.waiting == 1 and waiting == 1 end)
    local status, content = service.begin({ format = "tiny", tokenizer = "tiny" }, A)
    t.expect({ status, content.error.code }, { 429, "quota" })
    t.expect((service.begin({}, B)), 200)
    open = true
    for _, task in ipairs(tasks) do task:wait() end
    t.expect(statuses, { 400, 400 })
    t.expect((service.begin({}, A)), 200)
  end)
end

function spec.a_client_of_lines_that_reads_nothing_is_not_read_from()
  local read, left = 0, 2000
  local server = mcp.new { name = "n", version = "v", instructions = "i", tools = {} }
  local lines, open = {}, false
  function lines.read()
    if left == 0 then return nil, "the input ended", "gone" end
    read, left = read + 1, left - 1
    return '{"jsonrpc": "2.0", "id": 1, "method": "ping"}'
  end
  function lines.write()
    while not open do sched.sleep(0.01) end
    return true
  end
  local serving = sched.spawn(server.serve, server, lines)
  sched.sleep(0.2)
  t.is_true(read <= 300, "it has read " .. read)
  open = true
  t.expect(serving:wait(), true)
  t.expect(read, 2000)
end

function spec.a_request_that_a_server_of_lines_fails_at_has_a_response()
  local server = mcp.new { name = "n", version = "v", instructions = "i", tools = {} }
  function server.respond() error "broken" end
  local written, sent = {}, false
  server:serve { read = function()
    if not sent then
      sent = true
      return '{"jsonrpc": "2.0", "id": 7, "method": "ping"}'
    end
    t.eventually(function() return #written == 1 end)
    return nil, "the input ended", "gone"
  end, write = function(_, text)
    written[#written + 1] = json.decode(text)
    return true
  end }
  t.expect({ written[1].id, written[1].error.code }, { 7, -32603 })
end

function spec.what_a_tool_refuses_is_told_shortly()
  local tools = mcp_tools.new { roots = { fs.folder "/tmp" }, target = "cpu", judge = function() return nil end }
  local text, message = tools[1].run({ workspace = ("x"):rep(100000) }, function() return true end)
  t.is_true(text == nil and #message <= 6100, #message)
end

return spec
