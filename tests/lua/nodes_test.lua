-- Judges of other machines that are broken or lie: what they answer is checked, what they keep goes to others, and what a
-- node is told by no front ends nothing.
local front = require "serve.front"
local gate = require "serve.gate"
local http = require "khost.http"
local json = require "khost.json"
local machine = require "khost.machine"
local machines = require "serve.machines"
local node = require "serve.node"
local node_answer = require "serve.node_answer"
local pool = require "serve.pool"
local sched = require "khost.sched"
local serve = require "khost.serve"
local t = require "tests.lua.harness"
local verdicts = require "judge.verdict"

local spec = {}

local function right() return verdicts.blank("wrong", "verify", "mismatch") end

local function changed(fields)
  local verdict = right()
  for name, value in pairs(fields) do verdict[name] = value end
  return verdict
end

function spec.answers_that_no_judge_gives_are_told_apart()
  t.expect(node_answer.wrong("evaluate", right()), nil)
  t.expect(node_answer.wrong("evaluate", changed { own_share = 0.5, slack_s = 0, evidence = { tolerance = "paper" } }), nil)
  t.expect(node_answer.wrong("verify", changed { text = ("t"):rep(10000), ok = false }), nil)
  local deep = {}
  for _ = 1, 70 do deep = { deep } end
  for _, verdict in ipairs { {}, { status = "fine" }, { status = 3 }, { status = "ok" }, changed { status = "OK\n" },
    changed { wall_s = { verify = -1 } }, changed { wall_s = { verify = "1" } }, changed { wall_s = { verify = 1e308 } },
    changed { wall_s = 3 }, changed { evidence = "x" }, changed { evidence = { exclusive_s = -1e300 } },
    changed { evidence = { artefact_hash = 3 } }, changed { stage = {} }, changed { reason = ("r"):rep(300) },
    changed { times = { candidate_s = true } }, changed { detail = 3 }, changed { correct = "yes" },
    changed { evidence = deep } } do
    t.is_true(type(node_answer.wrong("evaluate", verdict)) == "string")
  end
end

function spec.what_readers_of_a_verdict_rely_on_must_be_there()
  for _, name in ipairs { "stage", "reason", "detail", "correct", "speed", "speed_reason", "times", "speedup", "faster",
    "evidence", "wall_s" } do
    local verdict = right()
    verdict[name] = nil
    t.is_true((node_answer.wrong("evaluate", verdict) or ""):find(name, 1, true), name)
  end
  for _, verdict in ipairs { changed { own_share = "x" }, changed { own_share = 2 }, changed { slack_s = "x" },
    changed { evidence = { tolerance = { a = 1 } } }, changed { faster = { eager = "x" } }, changed { speed = "fast" },
    changed { correct = true }, changed { speedup = { eager = 2 } },
    changed { speedup = { eager = 2 }, times = { candidate_s = 1e-3 } },
    changed { speedup = { eager = 2 }, times = { eager_s = 1e-3 } } } do
    t.is_true(type(node_answer.wrong("evaluate", verdict)) == "string", json.encode(verdict))
  end
  local timed = changed { speedup = { eager = 2 }, times = { eager_s = 2e-3, candidate_s = 1e-3 } }
  t.expect(node_answer.wrong("evaluate", timed), nil)
  for _, kind in ipairs { "verify", "profile" } do
    t.expect({ node_answer.wrong(kind, right()), node_answer.wrong(kind, changed { ok = false }),
      node_answer.wrong(kind, changed { ok = false, text = 3 }) },
      { "ok is missing", "text is missing", "text is no text of its length" })
  end
end

function spec.checks_and_graphs_that_no_judge_gives_are_told_apart()
  local function structure(more)
    local made = { inputs = { { name = "x", dtype = "float32", size = { 2, 3 } } },
      outputs = { { name = "", dtype = "float32", size = {} } }, input_bytes = 24, state_bytes = 0, output_bytes = 4,
      flops = 1e3, operators = 2 }
    for name, value in pairs(more or {}) do made[name] = value end
    return made
  end
  local failure = { stage = "run", code = "bad_task", message = "no" }
  for _, facts in ipairs { { structure = structure() }, { structure = structure(), run = { eager_s = 1e-3 } },
    { failure = failure }, { structure = structure(), failure = failure }, { structure = { dry_run = "too large" } } } do
    t.expect(node_answer.wrong("check", facts), nil)
  end
  for _, facts in ipairs { {}, { structure = 3 }, { structure = {} }, { structure = { inputs = 1 } },
    { structure = structure { inputs = { { name = "x", dtype = "float32" } } } },
    { structure = structure { outputs = { { name = "x", dtype = 3, size = {} } } } },
    { structure = structure { outputs = { { name = "x", dtype = "float32", size = { "2" } } } } },
    { structure = structure { outputs = { a = 1 } } }, { structure = structure { flops = "many" } },
    { structure = structure(), run = { eager_s = "fast" } }, { structure = structure(), run = { cut_short = true } },
    { structure = structure(), run = 1 }, { failure = { stage = "run" } }, { structure = { dry_run = {} } } } do
    t.is_true(type(node_answer.wrong("check", facts)) == "string", json.encode(facts))
  end
  t.expect({ node_answer.wrong("trace", { nodes = { { op = "add" } } }), type(node_answer.wrong("trace", {})),
    type(node_answer.wrong("trace", { nodes = { 1 } })), type(node_answer.wrong("trace", { nodes = "x" })) },
    { nil, "string", "string", "string" })
end

-- A pool whose time stands still.
local function still()
  local clock = { now = 0 }
  local one = pool.new { lease_s = 10, wait_s = 60, job_s = 100, now = function() return clock.now end }
  local answers = {}
  local function ask(name)
    sched.spawn(function() answers[name] = { one:request("evaluate", { name = name }) } end)
    sched.sleep(0)
  end
  return one, clock, ask, answers
end

function spec.a_job_that_its_node_never_answers_goes_to_another_and_is_void_in_the_end()
  local one, clock, ask, answers = still()
  local ids = { one:register "a", one:register "b" }
  ask "x"
  for _, id in ipairs(ids) do
    local job = one:take(id, 0.02)
    local begin = clock.now
    while clock.now <= begin + 100 do
      t.expect(answers.x, nil)
      clock.now = clock.now + 5
      for _, each in ipairs(ids) do one:renew(each, each == id and { job.id } or {}) end
      one:sweep()
    end
  end
  sched.sleep(0)
  t.expect({ answers.x[1], answers.x[3], one.counts.overdue, one.counts.crashed }, { nil, "void", 2, 0 })
  t.expect(one:state().waiting, 0)
end

function spec.a_job_that_was_given_back_goes_to_another_node_first()
  local one, clock, ask = still()
  local a, b = one:register "a", one:register "b"
  ask "x"
  t.is_true(one:take(a, 0.02) ~= nil)
  local taken
  local again = sched.spawn(function() return one:take(a, 1) end)
  local other = sched.spawn(function() taken = one:take(b, 1) end)
  sched.sleep(0.02)
  for _ = 1, 3 do
    clock.now = clock.now + 5
    one:renew(a)
    one:renew(b)
    one:sweep()
  end
  other:wait()
  t.expect({ taken and taken.body.name, one.counts.returned }, { "x", 1 })
  again:cancel()
  one:close()
end

function spec.only_so_many_nodes_are_registered()
  local one = still()
  for _ = 1, 4096 do t.is_true(one:register "n") end
  t.expect(one:register "n", nil)
end

local function with_front(fn)
  local one = front.new { target = "cpu", hosts = gate.hosts {}, lease_s = 1, wait_s = 5 }
  local listener = assert(serve.listen { header_s = 2, body_s = 2, idle_s = 2 })
  local taking = sched.spawn(one.serve, one, listener)
  local base = ("http://127.0.0.1:%d"):format(listener:port())
  local ok, message = pcall(fn, one, base, function(path, body)
    local got = assert(http.request { url = base .. path, method = "POST", body = json.encode(body) })
    return got.status, json.decode(got.body)
  end)
  one.pool:close()
  listener:close()
  taking:wait()
  if not ok then error(message, 0) end
end

function spec.a_judge_whose_name_has_control_characters_is_not_registered()
  with_front(function(one, _, post)
    for _, name in ipairs { "n\n00:00:00 info  node_registered", "n\27[2J", "n\0", "n\r" } do
      local status, told = post("/v1/nodes", { name = name, target = "cpu" })
      t.expect({ status, (told.error or {}).code }, { 400, "bad_input" })
    end
    t.expect(one.pool:state().counts.registered, 0)
    t.expect((post("/v1/nodes", { name = "größer (2)", target = "cpu" })), 200)
  end)
end

function spec.one_address_does_not_hold_all_connections_of_a_front()
  local one = front.new { target = "cpu", hosts = gate.hosts {}, lease_s = 1, wait_s = 5 }
  local free = assert(serve.listen {})
  local port = free:port()
  free:close()
  local close = machines.listen({ front = ("127.0.0.1:%d"):format(port) }, { front = one })
  local got = assert(machine.run({ "/usr/bin/python3", "-c", ([[
import select, socket, time
def connected(source): return socket.create_connection(("127.0.0.1", %d), source_address=(source, 0))
held, away, end = [connected("127.0.0.2") for _ in range(300)], [], time.time() + 5
while len(away) < 300 - 256 and time.time() < end:
    away = select.select(held, [], [], 0.1)[0]
other = connected("127.0.0.1")
other.sendall(b"GET /v1/nodes HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
print(len(away), other.recv(12).decode())]]):format(port) }, { timeout_s = 20 }))
  one.pool:close()
  close()
  t.expect(got.output:gsub("%s+$", ""), "44 HTTP/1.1 200")
end

function spec.a_lie_takes_the_job_from_its_node_and_no_other_node_s_job_is_touched()
  with_front(function(one, _, post)
    local answers = {}
    for _, name in ipairs { "x", "y" } do
      sched.spawn(function() answers[name] = { one.pool:request("evaluate", { name = name }) } end)
    end
    local _, liar = post("/v1/nodes", { name = "liar", target = "cpu" })
    local _, honest = post("/v1/nodes", { name = "honest", target = "cpu" })
    local _, first = post("/v1/nodes/take", { node = liar.node })
    local _, second = post("/v1/nodes/take", { node = honest.node })
    post("/v1/nodes/alive", { node = liar.node, jobs = json.list { first.job, second.job } })
    post("/v1/nodes/alive", { node = honest.node, jobs = json.list { second.job } })
    t.expect((post("/v1/nodes/answer", { node = liar.node, job = second.job, answer = right() })), 410)
    local status, told = post("/v1/nodes/answer", { node = liar.node, job = first.job,
      answer = { status = 'ok"} 1\nevil', evidence = {} } })
    t.expect({ status, told.error.code }, { 422, "bad_answer" })
    t.expect((post("/v1/nodes/answer", { node = liar.node, job = first.job, answer = right() })), 410)
    local _, moved = post("/v1/nodes/take", { node = honest.node })
    t.expect(moved.job, first.job)
    post("/v1/nodes/alive", { node = honest.node, jobs = json.list { first.job, second.job } })
    for _, job in ipairs { first.job, second.job, second.job } do
      post("/v1/nodes/answer", { node = honest.node, job = job, answer = right() })
    end
    t.eventually(function() return answers.x and answers.y end)
    t.expect({ answers.x[1].status, answers.y[1].status, one.pool.counts.refused, one.pool.counts.answered },
      { "wrong", "wrong", 1, 2 })
  end)
end

-- A front that answers what a spec wants, and a node that works for it.
local function with_node(answer, request, fn)
  local listener = assert(serve.listen { header_s = 2, body_s = 2, idle_s = 2 })
  local seen = {}
  local taking = sched.spawn(function()
    while true do
      local exchange = listener:take()
      if not exchange then return end
      sched.spawn(function()
        local path, body = exchange:head().target, json.decode((exchange:body(2 ^ 26))) or {}
        seen[#seen + 1] = { path = path, body = body }
        local status, text = answer(path, body, #seen)
        exchange:answer(status, { ["content-type"] = "application/json" },
          type(text) == "table" and json.encode(text) or text)
      end)
    end
  end)
  local worker = node.new { front = ("http://127.0.0.1:%d"):format(listener:port()), name = "n", target = "cpu", slots = 1,
    judge = { request = request } }
  local working = sched.spawn(worker.run, worker)
  local ok, message = pcall(fn, seen, worker, working)
  working:cancel()
  listener:close()
  taking:wait()
  if not ok then error(message, 0) end
end

function spec.what_answers_and_is_no_front_is_told()
  with_node(function() return 404, "<html>" end, right, function(_, _, working)
    t.is_true(tostring(select(2, working:wait())):find("what answers there with status 404 is no front", 1, true))
  end)
  for _, text in ipairs { "<html>", "3", '{"node": 3, "lease_s": 1}', '{"node": "n", "lease_s": 0}' } do
    with_node(function() return 200, text end, right, function(_, worker, working)
      t.is_true(tostring(select(2, working:wait())):find("status 200 is no front", 1, true))
      t.expect(worker.id, nil)
    end)
  end
end

function spec.an_answer_that_a_front_does_not_take_is_replaced_by_its_reason()
  local given = false
  with_node(function(path, body)
    if path == "/v1/nodes" then return 200, { node = "n", lease_s = 5 } end
    if path == "/v1/nodes/take" then
      if given then
        sched.sleep(0.1)
        return 204, ""
      end
      given = true
      return 200, { job = "j", kind = "evaluate", body = { x = 1 } }
    end
    return path == "/v1/nodes/answer" and body.answer and 413 or 200, "{}"
  end, function() return right() end, function(seen, worker)
    t.eventually(function() return worker.done == 1 end, 10)
    local answers = {}
    for _, one in ipairs(seen) do answers[#answers + 1] = one.path == "/v1/nodes/answer" and one.body or nil end
    t.expect({ #answers, answers[2].answer, answers[2].code }, { 2, nil, "host" })
    t.is_true(answers[2].message:find("could not be delivered", 1, true))
  end)
end

function spec.a_job_at_which_a_node_fails_is_named_no_longer()
  local given = 0
  with_node(function(path)
    if path == "/v1/nodes" then return 200, { node = "n", lease_s = 0.3 } end
    if path == "/v1/nodes/take" then
      given = given + 1
      return 200, { job = "j" .. given, kind = "evaluate", body = { x = 1 } }
    end
    return 200, "{}"
  end, function() error "broken" end, function(seen, worker)
    t.eventually(function() return given >= 2 end, 10)
    t.expect(worker.jobs.j1, nil)
    t.is_true(#seen > 2)
  end)
end

return spec
