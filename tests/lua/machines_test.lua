-- Judges of other machines: the pool with a clock of its own, and front and nodes over sockets with judges that answer what
-- a spec wants.
local client = require "judge.client"
local command = require "commands.serve"
local front = require "serve.front"
local gate = require "serve.gate"
local http = require "khost.http"
local json = require "khost.json"
local node = require "serve.node"
local pool = require "serve.pool"
local sched = require "khost.sched"
local serve = require "khost.serve"
local t = require "tests.lua.harness"
local verdicts = require "judge.verdict"

local spec = {}

local function right() return verdicts.blank("wrong", "verify", "mismatch") end

-- A pool whose time stands still, and what was asked and answered.
local function still(options)
  local clock = { now = 0 }
  local one = pool.new { lease_s = 10, wait_s = 60, now = function() return clock.now end }
  local answers = {}
  local function ask(name, kind)
    sched.spawn(function()
      answers[name] = { one:request(kind or "evaluate", { name = name }) }
    end)
    sched.sleep(0)
  end
  local function take(id)
    local job = one:take(id, 0.02)
    if job and (options or {}).begin ~= false then one:renew(id, { job.id }) end
    return job
  end
  return one, clock, ask, take, answers
end

-- Time goes on, and the pool looks at it often.
local function pass(one, clock, seconds)
  for _ = 1, seconds do
    clock.now = clock.now + 1
    one:sweep()
  end
end

function spec.a_job_is_answered_once_by_the_node_that_has_it()
  local one, _, ask, take, answers = still()
  local a, b = one:register "a", one:register "b"
  ask "x"
  local job = take(a)
  t.expect({ job.kind, job.body.name, take(b) }, { "evaluate", "x", nil })
  t.expect({ one:finish(b, job.id, { status = "ok" }), one:finish(a, job.id, { status = "wrong" }),
    one:finish(a, job.id, { status = "ok" }) }, { false, true, false })
  sched.sleep(0)
  t.expect({ answers.x[1].status, one.counts.late, one.counts.answered }, { "wrong", 2, 1 })
end

function spec.a_silent_node_loses_its_job_to_another_and_its_late_answer_is_dropped()
  local one, clock, ask, take, answers = still()
  local a, b = one:register "a", one:register "b"
  ask "x"
  local job = take(a)
  clock.now = 9
  one:renew(b)
  one:sweep()
  t.expect(take(b), nil)
  clock.now = 11
  one:sweep()
  t.expect({ one:renew(a), (select(3, one:take(a, 0))) }, { false, "gone" })
  local again = take(b)
  t.expect({ again.id, one:finish(a, job.id, { status = "ok" }), one:finish(b, job.id, { status = "wrong" }) },
    { job.id, false, true })
  sched.sleep(0)
  t.expect({ answers.x[1].status, one.counts.lost, one.counts.expired }, { "wrong", 1, 1 })
end

function spec.a_candidate_beside_which_two_nodes_are_lost_has_crashed_and_another_question_is_lost()
  for kind, status in pairs { evaluate = "crash", profile = false } do
    local one, clock, ask, take, answers = still()
    ask("x", kind)
    for round = 1, 2 do
      local id = one:register("n" .. round)
      t.is_true(take(id) ~= nil)
      pass(one, clock, 11)
    end
    pass(one, clock, status and 31 or 0)  -- a node that was only silent would have come back
    sched.sleep(0)
    t.expect({ answers.x[1] and answers.x[1].status or false, answers.x[3] }, { status, not status and "lost" or nil })
    t.expect({ one.counts.crashed, one.counts.void, one.counts.lost }, status and { 1, 0, 2 } or { 0, 1, 2 })
  end
end

function spec.a_job_that_no_node_began_is_not_the_candidate_s_loss()
  local one, clock, ask, take, answers = still { begin = false }
  ask "x"
  for round = 1, 5 do
    local id = one:register("n" .. round)
    t.is_true(take(id) ~= nil)
    pass(one, clock, 11)
  end
  t.expect({ one.counts.lost, one.counts.returned, answers.x }, { 0, 5, nil })
  local id = one:register "last"
  local job = take(id)
  t.is_true(one:finish(id, job.id, right()))
  sched.sleep(0)
  t.expect(answers.x[1].status, "wrong")
end

function spec.a_judge_that_died_under_its_node_is_a_loss_and_the_retry_is_elsewhere()
  local one, _, ask, take, answers = still()
  local a, b = one:register "a", one:register "b"
  ask "x"
  local job = take(a)
  t.is_true(one:finish(a, job.id, nil, "the judge died", "gone"))
  t.expect({ take(a), take(b).id }, { nil, job.id })
  t.is_true(one:finish(b, job.id, nil, "the judge died", "gone"))
  sched.sleep(0)
  t.expect({ answers.x[1].status, one.counts.crashed }, { "crash", 1 })
end

function spec.a_job_that_its_node_forgot_goes_back_and_one_renewal_that_came_late_does_not_matter()
  local one, _, ask, take = still()
  local a = one:register "a"
  ask "x"
  local job = take(a)
  one:renew(a, {})
  one:renew(a, { job.id })
  one:renew(a, {})
  t.expect({ one.counts.returned, take(a) }, { 0, nil })
  one:renew(a, {})
  t.expect({ one.counts.returned, take(a).id }, { 1, job.id })
  one:close()
end

function spec.without_a_node_a_request_is_void_after_its_wait()
  local one, clock, ask, _, answers = still()
  ask "x"
  clock.now = 59
  one:sweep()
  sched.sleep(0)
  t.expect(answers.x, nil)
  clock.now = 61
  one:sweep()
  sched.sleep(0)
  t.expect({ answers.x[1], answers.x[3], one.counts.void }, { nil, "void", 1 })
end

-- Calls fn with a front that listens and a function that starts a node with a judge.
local function with_front(options, fn)
  local one = front.new { target = "cpu", token = options.token, hosts = gate.hosts {}, lease_s = options.lease_s or 1,
    wait_s = 5 }
  local listener = assert(serve.listen { header_s = 2, body_s = 2, idle_s = 2 })
  local taking = sched.spawn(one.serve, one, listener)
  local base = ("http://127.0.0.1:%d"):format(listener:port())
  local it = { front = one, base = base, nodes = {} }
  function it.start(answer, more)
    local worker = node.new { front = base, token = (more or {}).token or options.token, name = "n" .. #it.nodes,
      target = (more or {}).target or "cpu", slots = 2, judge = { request = function(_, kind, body)
        return answer(kind, body)
      end } }
    local task = sched.spawn(worker.run, worker)
    it.nodes[#it.nodes + 1] = { worker = worker, task = task }
    return worker, task
  end
  local ok, message = pcall(fn, it)
  for _, one_node in ipairs(it.nodes) do one_node.task:cancel() end
  listener:close()
  taking:wait()
  if not ok then error(message, 0) end
end

function spec.verdicts_go_to_nodes_and_come_back_and_a_node_that_is_gone_loses_none()
  with_front({}, function(it)
    local judging = client.over(it.front.pool, { target = "cpu", rules = "mixed" })
    local seen, hanging = {}, {}
    it.start(function(kind, body)
      hanging[#hanging + 1] = body
      if #hanging <= 2 then sched.sleep(60) end  -- a machine that hangs
      return right()
    end)
    local function ask(index)
      return judging:verdict({ id = "t" .. index, source = "s" .. index }, { ["kernels/k.cpp"] = "x" }, { measure = false })
    end
    local asked = {}
    for index = 1, 6 do asked[index] = sched.spawn(ask, index) end
    t.eventually(function() return #hanging == 2 end)
    t.expect({ hanging[1].rules, hanging[1].target }, { "mixed", "cpu" })
    it.nodes[1].task:cancel()
    it.start(function(_, body)
      seen[#seen + 1] = body.task.source
      return right()
    end)
    for index = 1, 6 do t.expect(asked[index]:wait().status, "wrong") end
    table.sort(seen)
    t.expect(seen, { "s1", "s2", "s3", "s4", "s5", "s6" })
    t.expect({ it.front.pool.counts.lost, it.front.pool.counts.answered, #it.front.pool:state().nodes }, { 2, 6, 1 })
  end)
end

function spec.a_front_takes_judges_of_its_target_and_with_its_token()
  local token = ("a"):rep(32)
  with_front({ token = token }, function(it)
    local _, refused = it.start(right, { token = ("b"):rep(32) })
    local _, message, code = refused:wait()
    t.expect(code, "failed")
    t.is_true(tostring(message):find("the token of --node-token is needed", 1, true), tostring(message))
    local _, other = it.start(right, { target = "cuda" })
    t.is_true(tostring(select(2, other:wait())):find("this front judges cpu", 1, true))
    local worker, task = it.start(right)
    t.eventually(function() return #it.front.pool:state().nodes == 1 end)
    local state = json.decode(assert(http.request { url = it.base .. "/v1/nodes",
      headers = { authorization = "Bearer " .. token } }).body)
    t.expect({ #state.nodes, state.waiting, state.counts.registered }, { 1, 0, 1 })
    worker:stop()
    it.front.pool:close()  -- so that the node need not wait for its last take
    task:cancel()
  end)
end

function spec.what_a_stranger_sends_to_a_front_is_refused_with_the_reason()
  with_front({}, function(it)
    local function post(path, body)
      local got = assert(http.request { url = it.base .. path, method = "POST", body = body })
      return got.status, got.body
    end
    t.expect({ (post("/v1/nodes", "{}")), (post("/v1/nodes", "[")), (post("/v1/nodes/take", "{}")),
      (post("/v1/nodes/take", '{"node":"x"}')), (post("/v1/nodes/answer", '{"node":"x","job":"y"}')),
      (post("/v1/nodes/answer", '{"node":"x","job":1}')), (post("/v1/nodes/alive", '{"node":"x","jobs":7}')),
      (post("/v1/verdict", "{}")) }, { 400, 400, 400, 410, 410, 400, 410, 404 })
  end)
end

function spec.the_command_refuses_what_does_not_fit()
  local function refused(words, part)
    local ok, problem = pcall(command.run, words)
    t.is_true(not ok and tostring(type(problem) == "table" and problem.message or problem):find(part, 1, true),
      tostring(type(problem) == "table" and problem.message or problem))
  end
  refused({ "--front", "8421" }, "ADDRESS:PORT expected")
  refused({ "--front", "0.0.0.0:8421" }, "give --node-token FILE")
  refused({ "--front", "127.0.0.1:0", "--lease", "0.1" }, "at least 1 second")
  refused({ "--judge", "somewhere" }, "the URL that a --front prints")
  refused({ "--judge", "http://127.0.0.1:1", "--node-token", "/nowhere" }, "no such file")
end

return spec
