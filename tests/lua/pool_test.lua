-- Whose fault a lost judge is: the pool of judges on other machines, with a clock of its own.
local front = require "serve.front"
local gate = require "serve.gate"
local json = require "khost.json"
local pool = require "serve.pool"
local sched = require "khost.sched"
local http = require "khost.http"
local serve = require "khost.serve"
local t = require "tests.lua.harness"
local verdicts = require "judge.verdict"

local spec = {}

local function right() return verdicts.blank("wrong", "verify", "mismatch") end

-- A pool whose time stands still, and what was asked and answered.
local function still()
  local clock, answers = { now = 0 }, {}
  local one = pool.new { lease_s = 10, wait_s = 60, now = function() return clock.now end }
  local function ask(name)
    sched.spawn(function() answers[name] = { one:request("evaluate", { name = name }) } end)
    sched.sleep(0)
  end
  -- So many jobs for a node, which begins them.
  local function take(id, count)
    local jobs, ids = {}, {}
    for index = 1, count do
      jobs[index] = one:take(id, 0.02)
      ids[index] = jobs[index] and jobs[index].id
    end
    one:renew(id, ids)
    return jobs
  end
  return one, clock, ask, take, answers
end

function spec.what_was_judged_beside_a_candidate_that_ends_judges_is_judged_alone_and_has_not_crashed()
  local one, _, ask, take, answers = still()
  local nodes = { one:register "a", one:register "b" }
  ask "killer"
  ask "innocent"
  ask "other"
  local function judge(id, jobs)
    for _, job in ipairs(jobs) do
      if #jobs > 1 or job.body.name == "killer" then
        one:finish(id, job.id, nil, "the judge died", "gone")
      else
        one:finish(id, job.id, right())
      end
    end
  end
  judge(nodes[1], take(nodes[1], 2))
  local together = 0
  for _ = 1, 4 do
    for _, id in ipairs(nodes) do
      local jobs = take(id, 2)
      together = math.max(together, #jobs)
      judge(id, jobs)
    end
  end
  sched.sleep(0)
  t.expect({ answers.killer[1].status, answers.innocent[1].status, answers.other[1].status },
    { "crash", "wrong", "wrong" })
  t.expect({ together, one.counts.crashed, one.counts.lost, #one:state().nodes }, { 1, 1, 3, 2 })
end

function spec.a_node_that_is_kept_free_finishes_what_it_has_and_takes_others_again_afterwards()
  local one, _, ask, take, answers = still()
  local a = one:register "a"
  local b = one:register "b"
  ask "lost"
  local first = take(a, 1)[1]
  ask "long"
  local long = take(b, 1)[1]
  one:finish(a, first.id, nil, "the judge died", "gone")
  ask "next"
  t.expect(#take(b, 1), 0)              -- b is kept free, and is still at work
  local other = take(a, 1)[1]
  t.expect(other.body.name, "next")     -- a lost it, and goes on with others
  one:finish(b, long.id, right())
  local again = take(b, 1)[1]
  t.expect(again.id, first.id)
  ask "last"
  t.expect(#take(b, 1), 0)
  one:finish(b, again.id, right())
  t.expect(take(b, 1)[1].body.name, "last")
  sched.sleep(0)
  t.expect(answers.lost[1].status, "wrong")
  one:close()
end

-- Time goes on in small steps; these nodes renew their leases, each with the job that it names.
local function pass(one, clock, seconds, renewing)
  for _ = 1, seconds do
    clock.now = clock.now + 1
    for id, job in pairs(renewing or {}) do one:renew(id, { job }) end
    one:sweep()
  end
end

function spec.a_network_that_is_silent_twice_makes_no_candidate_a_crash()
  local one, clock, ask, take, answers = still()
  ask "x"
  for round = 1, 4 do
    local id = one:register("n" .. round)
    t.expect(#take(id, 1), 1)
    pass(one, clock, 11)
    t.expect(one:renew(id), false)  -- it lives, and is told that it is not known any more
  end
  sched.sleep(0)
  t.expect({ answers.x[1], answers.x[3], one.counts.crashed, one.counts.back }, { nil, "void", 0, 3 })
  t.expect({ next(one.losses.silent), next(one.losses.held), next(one.jobs) }, {})
end

function spec.a_node_that_comes_back_takes_its_loss_off_and_the_job_is_judged()
  local one, clock, ask, take, answers = still()
  local a = one:register "a"
  ask "x"
  take(a, 1)
  pass(one, clock, 11)
  t.expect({ select(3, one:take(a, 0)) }, { "gone" })
  local b, c = one:register "b", one:register "c"
  local again = take(b, 1)[1]
  one:finish(b, again.id, nil, "the judge died", "gone")
  t.expect(answers.x, nil)  -- one loss of a judge that died, and one that was none
  one:finish(c, take(c, 1)[1].id, right())
  sched.sleep(0)
  t.expect(answers.x[1].status, "wrong")
end

function spec.a_silent_node_that_comes_back_after_the_second_loss_makes_it_void()
  for _, by in ipairs { "renew", "answer", "leave" } do
    local one, clock, ask, take, answers = still()
    local a, b = one:register "a", one:register "b"
    ask "x"
    local job = take(a, 1)[1]
    pass(one, clock, 11, { [b] = "" })
    t.expect(take(b, 1)[1].id, job.id)
    one:finish(b, job.id, nil, "the judge died", "gone")
    pass(one, clock, 20, { [b] = "" })
    t.expect({ answers.x, #take(b, 1) }, { nil, 0 })
    if by == "renew" then
      one:renew(a, { job.id })
    elseif by == "answer" then
      t.expect(one:finish(a, job.id, right()), false)
    else
      one:leave(a)
    end
    sched.sleep(0)
    t.expect({ answers.x[1], answers.x[3], one.counts.crashed }, { nil, "void", 0 })
  end
end

function spec.a_candidate_whose_nodes_start_again_with_another_identity_has_crashed()
  local one, clock, ask, take, answers = still()
  ask "killer"
  local ids = {}
  for round = 1, 2 do
    ids[round] = one:register "n"
    t.expect(#take(ids[round], 1), 1)
    pass(one, clock, 11)
  end
  local new = one:register "n"
  pass(one, clock, 25, { [new] = "" })
  t.expect({ answers.killer, #take(new, 1) }, { nil, 0 })
  pass(one, clock, 6, { [new] = "" })
  sched.sleep(0)
  t.expect({ answers.killer[1].status, one.counts.crashed, one.counts.void }, { "crash", 1, 0 })
  t.expect({ one:renew(ids[1]), one.counts.back, next(one.losses.silent) }, { false, 0, nil })
end

function spec.a_request_that_is_cancelled_while_its_nodes_may_come_back_leaves_nothing()
  local one, clock, _, take = still()
  local asking = sched.spawn(function() one:request("evaluate", {}) end)
  sched.sleep(0)
  for round = 1, 2 do
    take(one:register("n" .. round), 1)
    pass(one, clock, 11)
  end
  t.is_true(next(one.losses.held) ~= nil)
  asking:cancel()
  asking:wait()
  t.expect({ next(one.losses.silent), next(one.losses.held), next(one.jobs) }, {})
end

function spec.a_front_that_stood_still_blames_no_node()
  local one, clock, ask, take = still()
  local a = one:register "a"
  ask "x"
  take(a, 1)
  one:sweep()
  clock.now = 100
  one:sweep()
  t.expect({ one:renew(a), one.counts.lost, one.counts.expired }, { true, 0, 0 })
  for _ = 1, 11 do
    clock.now = clock.now + 1
    one:sweep()
  end
  t.expect({ one.counts.lost, one.counts.expired }, { 1, 1 })
  one:close()
end

function spec.renewals_that_overtake_each_other_lose_no_job()
  local one = front.new { target = "cpu", hosts = gate.hosts {}, lease_s = 10, wait_s = 5 }
  local listener = assert(serve.listen { header_s = 2, body_s = 2, idle_s = 2 })
  local taking = sched.spawn(one.serve, one, listener)
  local function post(path, body)
    local got = assert(http.request { url = ("http://127.0.0.1:%d%s"):format(listener:port(), path), method = "POST",
      body = json.encode(body) })
    return json.decode(got.body)
  end
  local ok, message = pcall(function()
    for _, name in ipairs { "x", "y", "z" } do
      sched.spawn(function() one.pool:request("evaluate", { name = name }) end)
    end
    local id, jobs = post("/v1/nodes", { name = "n", target = "cpu" }).node, {}
    for index = 1, 3 do jobs[index] = post("/v1/nodes/take", { node = id }).job end
    for _, index in ipairs { 3, 1, 2 } do
      post("/v1/nodes/alive", { node = id, at = index, jobs = { unpack(jobs, 1, index) } })
    end
    t.expect({ one.pool.counts.returned, one.pool:state().waiting }, { 0, 0 })
    for index = 4, 5 do post("/v1/nodes/alive", { node = id, at = index, jobs = { jobs[1] } }) end
    t.expect(one.pool.counts.returned, 2)  -- what a node names no more goes back
  end)
  one.pool:close()
  listener:close()
  taking:wait()
  if not ok then error(message, 0) end
end

return spec
