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

function spec.a_header_without_an_end_is_given_up()
  server_kit.with(function(server)
    local got, message, code = http.request { url = server.base .. "/endless", timeout_s = 30 }
    t.expect({ got, code }, { nil, "limit" })
    t.is_true(message:find("the header of the answer is larger than 256 KiB", 1, true), message)
  end, "noise.py")
end

function spec.messages_name_a_url_without_what_is_secret_in_it()
  for _, url in ipairs { "http://name:secret@127.0.0.1:1/x?key=secret#secret", "ftp://secret@127.0.0.1/x@y",
    "http://127.0.0.1:1/a@b?secret" } do
    local _, message = http.request { url = url, timeout_s = 5 }
    t.is_true(not message:find("secret", 1, true) and message:find("127.0.0.1", 1, true), message)
  end
  server_kit.with(function(server)
    local where = server.base:gsub("://", "://name:secret@") .. "/x/v1/models"
    local _, message, code = http.request { url = where, most_bytes = 3 }
    t.expect(code, "limit")
    t.is_true(not message:find("secret", 1, true), message)
    _, message, code = http.request { url = where, into = "/nowhere/file" }
    t.expect(code, "file")
    t.is_true(not message:find("secret", 1, true), message)
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
