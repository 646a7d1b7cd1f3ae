-- A service for specs: real sockets on loopback, and a judge that answers what a spec wants.
local app = require "serve.app"
local client = require "judge.client"
local clients = require "serve.clients"
local gate = require "serve.gate"
local http = require "khost.http"
local json = require "khost.json"
local sched = require "khost.sched"
local schemes = require "serve.schemes"
local serve = require "khost.serve"
local tasks = require "serve.tasks"
local fs = require "khost.fs"
local verdicts = require "judge.verdict"

local kit = {}

kit.SOURCE = "class Model: pass\n"
kit.TASK = fs.sha256(kit.SOURCE)
kit.FILES = { ["kernels/k.cpp"] = "int a;\n" }

--- A verdict as a judge gives it, with fields changed.
function kit.verdict(status, stage, reason, more)
  local verdict = verdicts.blank(status, stage, reason)
  verdict.evidence = { tolerance = "calibrated", wrong_set = 3, seeds = { 1, 2 } }
  verdict.detail = "output[1] is 2, expected 3"
  for name, value in pairs(more or {}) do verdict[name] = value end
  return verdict
end

kit.wrong = function() return kit.verdict("wrong", "verify", "mismatch") end

--- Calls fn(service) with a listening service: post(body, options), get(path, headers), base, app, asked.
--- Options: answer(kind, body), what the judge answers; clients, the text of a token file; slots, capacity, hosts;
--- episodes and root, as serve.app takes them; allow_tasks, without a token file.
---@param options table
function kit.with(options, fn)
  local asked = {}
  local judge = client.over({ request = function(_, kind, body)
    asked[#asked + 1] = { kind = kind, body = body }
    return (options.answer or kit.wrong)(kind, body)
  end, close = function() end }, { target = "cpu", tolerance = "calibrated", threads = 1 })
  local known = assert(tasks.load {})
  known:add { id = "task", name = "task", source = kit.SOURCE, hash = kit.TASK }
  local service = app.new { judge = judge, tasks = known, schemes = assert(schemes.open "milestone"), target = "cpu",
    clients = options.clients and assert(clients.parse(options.clients, "tokens.toml")) or clients.of_loopback(options.allow_tasks == true),
    hosts = gate.hosts(options.hosts or {}), slots = options.slots or 2, capacity = options.capacity or 8,
    episodes = options.episodes, root = options.root, body_room = options.body_room }
  local listener = assert(serve.listen { header_s = 2, body_s = 2, idle_s = 2 })
  local accepting = sched.spawn(service.serve, service, listener)
  local base = ("http://127.0.0.1:%d"):format(listener:port())
  local it = { app = service, base = base, port = listener:port(), asked = asked, listener = listener }
  function it.send(path, body, headers, method)
    return assert(http.request { url = base .. path, method = method or body and "POST" or "GET", body = body or "",
      headers = headers or {} })
  end
  function it.post(body, how)
    how = how or {}
    local got = it.send("/v1/verdict" .. (how.query or ""), type(body) == "string" and body or json.encode(body),
      how.headers)
    return got.status, json.decode(got.body), got
  end
  local ok, message = pcall(fn, it)
  service:drain(0)
  accepting:wait()
  if not ok then error(message, 0) end
end

return kit
