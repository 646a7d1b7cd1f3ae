-- `khost serve`: who is let in, what is read, what is answered. Real sockets on loopback.
local json = require "khost.json"
local kit = require "tests.lua.serve_kit"
local sched = require "khost.sched"
local t = require "tests.lua.harness"

local spec = {}

local TOKEN = ("a"):rep(32)
local OTHER = ("b"):rep(32)
local TOKENS = ([[
[clients.agent]
token = "%s"
rights = ["candidates"]
[clients.trainer]
token = "%s"
rights = ["candidates", "tasks", "evidence", "metrics"]
]]):format(TOKEN, OTHER)

local function bearer(token) return { Authorization = "Bearer " .. token } end
local function asks(more)
  local body = { task = kit.TASK, files = kit.FILES }
  for name, value in pairs(more or {}) do body[name] = value end
  return body
end

function spec.a_verdict_comes_with_reward_and_scheme()
  kit.with({}, function(service)
    local status, answer = service.post(asks())
    t.expect({ status, answer.reward, answer.verdict.status, answer.scheme, answer.task },
      { 200, -1, "wrong", "rewards.milestone", kit.TASK })
    t.is_true(#answer.script_hash == 64 and answer.reason == nil)
    t.expect(service.asked[1].body.files["kernels/k.cpp"], "int a;\n")
    t.expect({ service.asked[1].body.measure, service.asked[1].body.tolerance }, { true, "calibrated" })
    service.post(asks { measure = false })
    t.expect(service.asked[2].body.measure, false)
  end)
end

function spec.a_raw_answer_is_read_as_files_and_what_cannot_be_read_needs_no_judge()
  kit.with({}, function(service)
    local status = service.post { task = "task", answer = "Here:\n```cpp kernels/k.cpp\nint b;\n```\n" }
    t.expect({ status, service.asked[1].body.files["kernels/k.cpp"] }, { 200, "int b;\n" })
    local _, answer = service.post { task = "task", answer = "no block" }
    t.expect({ answer.verdict.status, answer.verdict.reason, answer.reward, #service.asked },
      { "build_failed", "unparsable", -1, 1 })
  end)
end

function spec.a_raw_answer_with_too_many_files_or_too_long_a_name_was_not_handed_in()
  kit.with({}, function(service)
    local many = {}
    for index = 1, 65 do many[index] = ("```cpp kernels/k%d.cpp\nint b;\n```\n"):format(index) end
    for _, text in ipairs { table.concat(many), ("```cpp kernels/%s.cpp\nint b;\n```\n"):format(("k"):rep(200)) } do
      local status, answer = service.post { task = "task", answer = text }
      t.expect({ status, answer.verdict.reason, #service.asked }, { 200, "unparsable", 0 })
    end
  end)
end

function spec.trainers_that_read_a_bare_number_get_one()
  kit.with({}, function(service)
    local body = { prompt = "p", response = "```cpp kernels/k.cpp\nint c;\n```\n", label = kit.TASK }
    local status, answer, got = service.post(body, { query = "?form=number" })
    t.expect({ status, answer, got.headers["content-type"] }, { 200, -1, "text/plain" })
  end)
end

function spec.a_void_is_503_with_a_time_to_come_back_in_both_forms()
  kit.with({ answer = function() return nil, "the judge died", "gone" end }, function(service)
    for _, query in ipairs { "", "?form=number" } do
      local status, answer, got = service.post(asks(), { query = query })
      t.expect({ status, got.headers["retry-after"] }, { 503, "5" })
      t.is_true(query ~= "" or answer.verdict.status == "void" and answer.reward == nil)
    end
    t.expect(#service.asked, 4)  -- the client asks a second judge once
  end)
end

function spec.a_judge_that_has_no_answer_is_503_whatever_its_code()
  for _, code in ipairs { "gone", "busy", "limit" } do
    kit.with({ answer = function() return nil, "the judge died", code end }, function(service)
      local got = service.send("/v1/feedback",
        json.encode { kind = "verify", task = kit.TASK, files = kit.FILES })
      t.expect({ got.status, json.decode(got.body).error.code, got.headers["retry-after"] }, { 503, "void", "5" })
    end)
  end
end

function spec.what_has_no_number_is_no_number()
  kit.with({ answer = function() return kit.verdict("bad_task", "task", "bad_task") end }, function(service)
    local status, answer = service.post(asks(), { query = "?form=number" })
    t.expect({ status, answer.error.code }, { 422, "no_reward" })
    status, answer = service.post(asks())
    t.expect({ status, answer.reward, answer.verdict.status }, { 200, nil, "bad_task" })
    t.is_true(answer.reason:find("bad_task", 1, true), answer.reason)
  end)
end

function spec.what_happened_on_secret_sets_is_told_to_those_with_the_right_alone()
  kit.with({ clients = TOKENS }, function(service)
    local _, seen, got = service.post(asks(), { headers = bearer(TOKEN) })
    t.expect(seen.verdict.evidence, { tolerance = "calibrated" })
    t.is_true(not got.body:find("expected 3", 1, true) and not got.body:find("seeds", 1, true), got.body)
    local _, whole = service.post(asks(), { headers = bearer(OTHER) })
    t.expect({ whole.verdict.detail, whole.verdict.evidence.wrong_set }, { "output[1] is 2, expected 3", 3 })
  end)
end

function spec.compiler_errors_are_told_to_everybody()
  kit.with({ answer = function() return kit.verdict("build_failed", "build", "build") end }, function(service)
    local _, answer = service.post(asks())
    t.expect(answer.verdict.detail, "output[1] is 2, expected 3")
  end)
end

function spec.without_a_known_token_nobody_is_served()
  kit.with({ clients = TOKENS }, function(service)
    for _, headers in ipairs { {}, bearer "", bearer(TOKEN .. "x"), bearer(TOKEN:sub(1, 31)), { Authorization = TOKEN },
      { Authorization = "Basic " .. TOKEN }, bearer(TOKEN .. ", Bearer " .. OTHER) } do
      local status, answer, got = service.post(asks(), { headers = headers })
      t.expect({ status, answer.error.code, got.headers["www-authenticate"] }, { 401, "bad_token", "Bearer" })
    end
    t.expect(#service.asked, 0)
    t.expect(service.send("/health").status, 200)
    t.expect(service.send("/metrics").status, 401)
    t.expect(service.send("/metrics", nil, bearer(TOKEN)).status, 403)
    t.expect(service.send("/metrics", nil, bearer(OTHER)).status, 200)
  end)
end

function spec.the_name_of_a_sent_task_has_no_control_characters()
  kit.with({ allow_tasks = true }, function(service)
    local function named(name) return { task = { source = "class Model: new\n", name = name }, files = kit.FILES } end
    for _, name in ipairs { "x\n00:00:00 info  serve_verdict", "x\27[2J", "x\0", "x\127" } do
      local status, content = service.post(named(name))
      t.expect({ status, (content.error or {}).code }, { 400, "bad_input" })
    end
    t.expect(#service.asked, 0)
    t.expect((service.post(named "größer (2)")), 200)
  end)
end

function spec.texts_of_tasks_need_a_right_of_their_own()
  kit.with({ clients = TOKENS }, function(service)
    local new = asks { task = { source = "class Model: x = 1\n" } }
    local status, answer = service.post(new, { headers = bearer(TOKEN) })
    t.expect({ status, answer.error.code, #service.asked }, { 403, "no_right", 0 })
    t.expect(service.post(new, { headers = bearer(OTHER) }), 200)
    t.expect(service.post(asks { task = { source = kit.SOURCE } }, { headers = bearer(TOKEN) }), 200)
  end)
end

function spec.foreign_hosts_origins_and_encodings_are_refused_before_the_body()
  kit.with({ hosts = { "judge.example" } }, function(service)
    local function status(headers) return (service.post(asks(), { headers = headers })) end
    t.expect(status { Host = "evil.example" }, 421)
    t.expect(status { Host = "127.0.0.1.evil.example" }, 421)
    t.expect(status { Host = "127.0.0.1@evil.example" }, 400)
    t.expect(status { Host = "Judge.Example:80" }, 200)
    t.expect(status { Host = "localhost:1" }, 200)
    t.expect(status { Host = "[::1]:8420" }, 200)
    t.expect(status { Origin = "http://127.0.0.1" }, 403)
    t.expect(status { ["Sec-Fetch-Site"] = "cross-site" }, 403)
    t.expect(status { ["Content-Encoding"] = "gzip" }, 415)
    t.expect(status { ["Content-Encoding"] = "identity" }, 200)
  end)
end

function spec.broken_bodies_are_named()
  kit.with({}, function(service)
    local function refused(body, part, expected)
      local status, answer = service.post(body)
      t.expect(status, expected or 400)
      t.is_true(answer.error.message:find(part, 1, true), answer.error.message)
    end
    refused("{", "not valid JSON")
    refused("", "not valid JSON")
    refused("[]", "task: a hash")
    refused("3", "no JSON object")
    refused(("["):rep(100000), "nested deeper")
    refused('{"task": "' .. kit.TASK .. '", "files": ' .. ('{"a":'):rep(300) .. "1" .. ("}"):rep(301), "nested deeper")
    refused(asks { measured = true }, "did you mean 'measure'")
    refused(asks { measure = "yes" }, "measure: true or false")
    refused(asks { answer = "x" }, "either files or answer")
    refused({ task = kit.TASK }, "either files or answer")
    refused(asks { task = "none" }, "no loaded task", 404)
    refused(asks { task = { source = 3 } }, "task: a hash")
    refused(asks { scheme = "no_such" }, "no reward scheme")
    refused(asks { scheme = "../../x" }, "no reward scheme")
    refused(asks { scheme = "terms" }, "no reward scheme")
    for _, path in ipairs { "../x.cpp", "kernels/../../x", "kernels/.x", "/etc/passwd", "model.py", "kernels//x" } do
      refused(asks { files = { [path] = "x" } }, "a path is kernels/NAME")
    end
    refused(asks { files = { ["kernels/k.cpp"] = 3 } }, "is no text")
    refused(asks { files = {} }, "an object of paths")
    t.expect(#service.asked, 0)
  end)
end

function spec.routes_and_methods_that_are_none_are_named()
  kit.with({}, function(service)
    t.expect(service.send("/v2/verdict", "{}").status, 404)
    t.expect(service.send("/v1/verdict").headers.allow, "POST")
    t.expect(service.send("/health", "{}").status, 405)
    t.expect(service.post(asks(), { query = "?form=xml" }), 400)
    t.expect(service.post(asks(), { query = "?form=number&=" }), 404)
  end)
end

function spec.an_announced_body_that_is_too_large_is_refused_unread()
  kit.with({}, function(service)
    local status, answer = service.post(asks { files = { ["kernels/k.cpp"] = (" "):rep(9 * 2 ^ 20) } })
    t.expect({ status, answer.error.code }, { 413, "limit" })
  end)
end

function spec.what_a_route_raises_is_answered_500_and_the_next_request_is_served()
  kit.with({ answer = function() error "broken judge" end }, function(service)
    local status, answer = service.post(asks())
    t.expect({ status, answer.error.code }, { 500, "host" })
    t.is_true(not answer.error.message:find("broken judge", 1, true))
    t.expect(service.send("/health").status, 200)
  end)
end

function spec.feedback_is_of_visible_inputs_and_never_kept_for_another_client()
  local seen = { ok = true, text = "Correct", status = "ok", stage = "verify", reason = "" }
  kit.with({ clients = TOKENS, answer = function(kind) return kind == "verify" and seen or nil end }, function(service)
    for _, token in ipairs { TOKEN, TOKEN, OTHER } do
      local got = service.send("/v1/feedback", json.encode { kind = "verify", task = kit.TASK, files = kit.FILES },
        bearer(token))
      t.expect({ got.status, json.decode(got.body).text }, { 200, "Correct" })
    end
    t.expect({ #service.asked, service.asked[1].kind }, { 3, "verify" })
    local got = service.send("/v1/feedback", json.encode { kind = "evaluate", task = kit.TASK, files = kit.FILES },
      bearer(TOKEN))
    t.expect(got.status, 400)
    got = service.send("/v1/feedback", json.encode { kind = "tune", task = kit.TASK, files = kit.FILES, name = "NO",
      values = { 1 } }, bearer(TOKEN))
    t.expect({ got.status, json.decode(got.body).ok }, { 200, false })
  end)
end

function spec.a_full_queue_is_429_and_each_waiting_request_gets_one_answer()
  local open = false
  local function slow()
    while not open do sched.sleep(0.005) end
    return kit.wrong()
  end
  kit.with({ answer = slow, slots = 1, capacity = 3 }, function(service)
    local codes, waiting = {}, {}
    for index = 1, 8 do
      waiting[index] = sched.spawn(function()
        local status, _, got = service.post(asks())
        codes[status] = (codes[status] or 0) + 1
        t.is_true(status ~= 429 or tonumber(got.headers["retry-after"]) >= 1)
      end)
    end
    t.eventually(function() return codes[429] == 4 end)
    open = true
    for _, task in ipairs(waiting) do task:wait() end
    t.expect(codes, { [200] = 4, [429] = 4 })
    t.expect({ service.app.queue.free, service.app.queue.waiting }, { 1, 0 })
  end)
end

function spec.a_client_whose_quota_is_used_up_is_told_when_to_come_back()
  local limited = TOKENS:gsub('rights = %["candidates"%]', 'rights = ["candidates"]\ndevice_s = 3')
  kit.with({ clients = limited, answer = function()
    return kit.verdict("wrong", "verify", "mismatch", { evidence = { tolerance = "calibrated", exclusive_s = 2 } })
  end }, function(service)
    local headers = bearer(TOKEN)
    t.expect({ (service.post(asks(), { headers = headers })), (service.post(asks(), { headers = headers })) },
      { 200, 200 })
    local status, answer, got = service.post(asks(), { headers = headers })
    t.expect({ status, answer.error.code }, { 429, "quota" })
    local seconds = tonumber(got.headers["retry-after"])
    t.is_true(seconds > 3400 and seconds <= 3600, "an hour after the first minute of use, not in " .. seconds)
    t.expect(service.post(asks(), { headers = bearer(OTHER) }), 200)
    t.expect(#service.asked, 3)
  end)
end

function spec.a_quota_that_is_used_up_while_a_request_waits_holds_for_it()
  local limited = TOKENS:gsub('rights = %["candidates"%]', 'rights = ["candidates"]\ndevice_s = 3')
  local open = false
  kit.with({ clients = limited, slots = 1, answer = function()
    while not open do sched.sleep(0.005) end
    return kit.verdict("wrong", "verify", "mismatch", { evidence = { tolerance = "calibrated", exclusive_s = 2 } })
  end }, function(service)
    local statuses, tasks = {}, {}
    for index = 1, 5 do
      tasks[index] = sched.spawn(function()
        local status, answer, got = service.post(asks(), { headers = bearer(TOKEN) })
        statuses[status] = (statuses[status] or 0) + 1
        t.is_true(status == 200 or answer.error.code == "quota" and tonumber(got.headers["retry-after"]) > 3400)
      end)
    end
    t.eventually(function() return service.app.queue.waiting == 4 end)
    open = true
    for _, task in ipairs(tasks) do task:wait() end
    t.expect({ statuses, #service.asked }, { { [200] = 2, [429] = 3 }, 2 })
  end)
end

function spec.each_value_of_a_tune_is_charged()
  kit.with({ clients = TOKENS, answer = function()
    return { ok = true, text = "", status = "ok", stage = "profile", reason = "", times = { candidate_s = 1 },
      evidence = { exclusive_s = 2 }, wall_s = { build = 1 } }
  end }, function(service)
    local got = service.send("/v1/feedback", json.encode { kind = "tune", task = kit.TASK, name = "B",
      files = { ["kernels/k.cpp"] = "#define B 1\n" }, values = { 1, 2, 4 } }, bearer(TOKEN))
    t.expect({ got.status, #service.asked }, { 200, 3 })
    t.expect(service.app.usage.totals.agent, { device_s = 6, build_s = 3, disk_mb = 0 })
    t.expect(service.app.queue.cost.agent, 9)
  end)
end

-- Sends one request, closes its sending side, and prints what came back.
local HALF_CLOSED = [[
import socket, sys
peer = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
body = sys.argv[2].encode()
peer.sendall(b"POST /v1/verdict HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
peer.shutdown(socket.SHUT_WR)
text = b""
while block := peer.recv(4096):
    text += block
print(text.decode())
]]

function spec.a_request_whose_sender_stopped_listening_while_it_waited_is_not_judged()
  local machine = require "khost.machine"
  local open = false
  kit.with({ answer = function()
    while not open do sched.sleep(0.005) end
    return kit.wrong()
  end, slots = 1 }, function(service)
    local first = sched.spawn(function() return service.post(asks()) end)
    t.eventually(function() return #service.asked == 1 end)
    local half = sched.spawn(function()
      return machine.run { "/usr/bin/env", "python3", "-c", HALF_CLOSED, tostring(service.port), json.encode(asks()) }
    end)
    t.eventually(function() return service.app.queue.waiting == 1 end, 20)
    sched.sleep(0.2)
    open = true
    local done = assert(half:wait())
    t.is_true(done.output:find("400 Bad Request", 1, true) and done.output:find("half_closed", 1, true), done.output)
    t.expect((first:wait()), 200)
    t.expect(#service.asked, 1)
  end)
end

function spec.a_drain_finishes_what_is_in_work_and_refuses_the_rest()
  local open = false
  kit.with({ answer = function()
    while not open do sched.sleep(0.005) end
    return kit.wrong()
  end, slots = 1 }, function(service)
    local statuses = {}
    local function ask(index)
      return sched.spawn(function() statuses[index] = service.post(asks()) end)
    end
    local first = ask(1)
    t.eventually(function() return #service.asked == 1 end)
    local drained
    local drain = sched.spawn(function() drained = service.app:drain(5) end)
    sched.sleep(0.05)
    t.raises("connect", function() service.send("/health") end)
    open = true
    first:wait()
    drain:wait()
    t.expect({ statuses[1], drained }, { 200, true })
  end)
  kit.with({ answer = function() sched.sleep(60) end, slots = 1 }, function(service)
    local status
    local first = sched.spawn(function() status = service.post(asks()) end)
    t.eventually(function() return #service.asked == 1 end)
    t.expect(service.app:drain(0.1), false)
    first:wait()
    t.expect(status, 503)
  end)
end

return spec
