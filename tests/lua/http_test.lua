-- khost.http against a real server process.
local http = require "khost.http"
local json = require "khost.json"
local sched = require "khost.sched"
local server_kit = require "tests.lua.server_kit"
local t = require "tests.lua.harness"

local spec = {}

function spec.answers_come_with_status_headers_and_body()
  server_kit.with(function(server)
    local got = assert(http.request { url = server.base .. "/x/v1/models" })
    t.expect({ got.status, got.headers["content-type"] }, { 200, "application/json" })
    t.expect(json.decode(got.body).data[1].id, "small-model")
    t.is_true(got.seconds > 0)
    t.expect(assert(http.request { url = server.base .. "/x/none" }).status, 404)
  end)
end

function spec.bodies_and_headers_are_sent_as_they_are()
  server_kit.with(function(server)
    local body = json.encode { messages = { { role = "user", content = "ä\0\n" } }, model = "m" }
    http.request { url = server.base .. "/echo/v1/chat/completions", method = "POST", body = body,
      headers = { Authorization = "Bearer k" } }
    local seen = json.decode(http.request { url = server.base .. "/echo/seen" }.body)
    t.expect({ seen.authorization, seen.body.messages[1].content }, { "Bearer k", "ä\0\n" })
  end)
end

function spec.redirects_are_not_followed()
  server_kit.with(function(server)
    local got = http.request { url = server.base .. "/x/redirect" }
    t.expect({ got.status, got.headers.location }, { 302, "/other/seen" })
  end)
end

function spec.failures_have_codes()
  server_kit.with(function(server)
    local function code(request) return (select(3, http.request(request))) end
    t.expect(code { url = server.base .. "/x/slow", timeout_s = 0.3 }, "timeout")
    t.expect(code { url = server.base .. "/x/slow", idle_s = 1 }, "timeout")
    t.expect(code { url = server.base .. "/x/large", most_bytes = 1000 }, "limit")
    t.expect(code { url = server.base .. "/cut/v1/chat/completions", method = "POST", body = '{"messages": []}' }, "io")
    t.expect(code { url = server.base .. "/reset/v1/chat/completions", method = "POST", body = '{"messages": []}' },
      "io")
    t.expect(code { url = "http://127.0.0.1:1/" }, "connect")
    t.expect(code { url = "file:///etc/passwd" }, "bad_input")
    t.expect(code { url = "no url" }, "bad_input")
    t.raises("url is missing", http.request, {})
    t.raises("holds a line end", http.request, { url = server.base, headers = { A = "b\r\nC: d" } })
  end)
end

function spec.cancelling_ends_a_request_at_once()
  server_kit.with(function(server)
    local begin = sched.now()
    local task = sched.spawn(function() return http.request { url = server.base .. "/x/slow" } end)
    sched.sleep(0.1)
    task:cancel()
    t.expect(select(3, task:wait()), "cancelled")
    t.is_true(sched.now() - begin < 2)
  end)
end

function spec.many_requests_wait_at_the_same_time()
  server_kit.with(function(server)
    local list = {}
    for i = 1, 64 do list[i] = i end
    local begin = sched.now()
    local _, failures = sched.map(list, function()
      local _, _, code = http.request { url = server.base .. "/x/slow", timeout_s = 1 }
      t.expect(code, "timeout")
    end, { limit = 64 })
    t.expect(#failures, 0)
    t.is_true(sched.now() - begin < 10)
  end)
end

return spec
