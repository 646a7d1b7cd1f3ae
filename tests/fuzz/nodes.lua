-- Fuzzes what a front reads of judges on other machines, and what such a judge reads of a front: requests of nodes with
-- known and unknown jobs, answers put together of what verdicts hold with values of every type, and answers of fronts
-- that are none. They may refuse anything; they may not raise, answer a job twice, let a word or a number through that
-- no judge gives, or leave a job with nobody.
--
--   ./khost tests/fuzz/nodes.lua [--seconds 300] [--seed 1] [--only N]
local args = require "lib.args"
local front = require "serve.front"
local gate = require "serve.gate"
local http = require "khost.http"
local json = require "khost.json"
local log = require "khost.log"
local mutate = require "tests.fuzz.mutate"
local node_answer = require "serve.node_answer"
local sched = require "khost.sched"
local usage = require "serve.usage"
local serve = require "khost.serve"
local verdicts = require "judge.verdict"

local OPTIONS = {
  { name = "--seconds", kind = "number", default = 300, help = "how long" },
  { name = "--seed", kind = "number", default = 1, help = "of all inputs" },
  { name = "--only", kind = "number", help = "this input only" },
}
local ABOUT = { name = "tests/fuzz/nodes.lua", summary = "fuzzes the protocol between a front and its judges" }

local PATHS = { "", "/take", "/alive", "/answer", "/leave", "/answer", "/answer", "/none" }
local STATUSES = { [200] = true, [204] = true, [400] = true, [404] = true, [409] = true, [410] = true, [422] = true }
local FIELDS = { "status", "stage", "reason", "detail", "correct", "rules", "times", "speedup", "faster", "speed",
  "evidence", "wall_s", "ok", "text", "exclusive_s", "artefact_hash", "verify", "build", "candidate_s", "x" }
local VALUES = { "null", "true", "0", "-1", "1.5", "1e308", "-1e308", '""', '"ok"', '"wrong"', '"verify"', '"mismatch"',
  '"void"', '"own"', "[]", "{}", "[1]", '"\\u0000"', '"\\u001b[2J"', '{"verify": 1}', '{"exclusive_s": 2}',
  '{"tolerance": "calibrated"}', '"' .. ("l"):rep(300) .. '"' }
local KINDS = { "evaluate", "verify", "profile", "trace", "check" }

local function value_of(random, depth)
  if depth <= 0 or random:number() < 0.5 then
    return mutate.piece(random, VALUES)
  elseif random:number() < 0.01 then
    local levels = random:integer(1, 300)
    return ("["):rep(levels) .. ("]"):rep(levels)
  end
  local parts = {}
  for index = 1, random:integer(0, 5) do
    parts[index] = ('"%s":%s'):format(mutate.piece(random, FIELDS), value_of(random, depth - 1))
  end
  return "{" .. table.concat(parts, ",") .. "}"
end

-- An answer that is nearly a verdict.
local function answer_of(random)
  if random:number() < 0.3 then
    return value_of(random, 3)
  end
  local whole = json.encode(verdicts.blank("wrong", "verify", "mismatch"))
  return whole:sub(1, -2) .. (',"%s":%s}'):format(mutate.piece(random, FIELDS), value_of(random, 2))
end

local function body_of(random, ids, jobs)
  local node, job = mutate.piece(random, ids), mutate.piece(random, jobs)
  return ('{"node":"%s","job":"%s","name":"n","target":"cpu","jobs":["%s",%s],"%s":%s}'):format(node, job, job,
    value_of(random, 1), mutate.piece(random, { "answer", "answer", "answer", "message", "code" }), answer_of(random))
end

-- What is let through can be counted, charged and written again.
local function check_through(kind, answer)
  if kind == "trace" or kind == "check" then
    return
  end
  local row, cost = verdicts.row(answer), usage.of(answer, "cpu")
  assert(type(row.word) == "string" and cost.device_s >= 0 and cost.build_s >= 0 and cost.device_s < 1e6
    and cost.build_s < 1e6, "a cost that is none")
  assert(json.decode(json.encode(answer)), "an answer that cannot be written again")
end

local function target(it, random)
  local kind, answers = mutate.piece(random, KINDS), {}
  local asked = sched.spawn(function()
    local answer, message, code = it.front.pool:request(kind, { number = 1 })
    answers[#answers + 1] = answer or { message = message, code = code }
    if answer then check_through(kind, answer) end
  end)
  local _, registered = it.post("", '{"name":"n","target":"cpu"}')
  local id = registered.node
  local _, taken = it.post("/take", json.encode { node = id })
  local jobs = { taken.job, taken.job, "x", "" }
  it.post("/alive", json.encode { node = id, jobs = { taken.job } })
  for _ = 1, random:integer(1, 4) do
    local path = mutate.piece(random, PATHS)
    local status = it.post(path, mutate.broken(random, body_of(random, { id, id, id, "x" }, jobs),
      random:number() < 0.5 and 0 or 2))
    assert(STATUSES[status] or path == "/none", "status " .. status)
  end
  it.post("/leave", json.encode { node = id })
  for other in pairs(it.front.pool.nodes) do it.front.pool:leave(other) end
  asked:cancel()
  asked:wait()
  assert(#answers <= 1, "two answers")
  assert(next(it.front.pool.jobs) == nil and it.front.pool:state().waiting == 0, "a job is left")
  assert(it.front.bodies.bytes == 0, "room for a body is not given back")
end

local function check_alone(random)
  local answer = json.decode(answer_of(random))
  if type(answer) == "table" then
    local kind = mutate.piece(random, KINDS)
    local wrong = node_answer.wrong(kind, answer)
    assert(wrong == nil or type(wrong) == "string", "a refusal without a word")
    if not wrong then check_through(kind, answer) end
  end
end

local function run(list)
  local options = args.parse(OPTIONS, list, ABOUT)
  log.open { level = "error" }
  local one = front.new { target = "cpu", hosts = gate.hosts {}, lease_s = 60, wait_s = 60, take_s = 0.05 }
  local listener = assert(serve.listen { idle_s = 60, body_s = 5 })
  local taking = sched.spawn(one.serve, one, listener)
  local base = ("http://127.0.0.1:%d/v1/nodes"):format(listener:port())
  local it = { front = one, post = function(path, body)
    local got = assert(http.request { url = base .. path, method = "POST", body = body, timeout_s = 20 })
    return got.status, got.body ~= "" and json.decode(got.body) or nil
  end }
  local failures = mutate.run("nodes", options, function(random)
    target(it, random)
    for _ = 1, 20 do check_alone(random) end
  end)
  listener:close()
  taking:wait()
  return failures > 0 and 1 or 0
end

return { name = ABOUT.name, summary = ABOUT.summary, options = OPTIONS, run = run }
