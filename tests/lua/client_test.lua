-- judge.client: the configuration reaches the judge; judge.best: one order of verdicts.
local best = require "judge.best"
local client = require "judge.client"
local config = require "khost.config"
local machine = require "khost.machine"
local t = require "tests.lua.harness"
local verdicts = require "judge.verdict"

local spec = {}

-- What answers like a judge process and remembers what it was asked.
local function recorder(answer)
  local asked = {}
  return { request = function(_, kind, body)
    asked[#asked + 1] = { kind = kind, body = body }
    return answer or verdicts.blank("wrong", "verify", "mismatch")
  end, close = function() end }, asked
end

local function settings(changes)
  local c = config.plain(assert(config.load { set = changes }))
  return c
end

function spec.limits_and_jobs_of_the_configuration_reach_the_process()
  for _, change in ipairs { "limits.memory_mb", "limits.processes", "limits.tmp_mb" } do
    local c = settings {}
    local section, key = change:match("^(%a+)%.([%a_]+)$")
    c[section][key] = 0
    local opened, message, code = client.open(c)
    t.expect({ opened, code }, { nil, "bad_input" })
    t.is_true(message:find("memory_mb, processes and tmp_mb at least 1", 1, true), message)
  end
  local opened, message = client.open(settings {}, { jobs = -1 })
  t.is_true(not opened and message:find("jobs is at least 0", 1, true), message)
end

function spec.no_jobs_means_all_cores()
  -- 0 goes to the process as it is, which takes it for the number of cores.
  t.expect(settings({}).judge.jobs, 0)
  local opened = assert(client.open(settings {}))
  opened:close()
  t.expect({ client.jobs(), client.jobs(0), client.jobs(3) }, { machine.facts().cores, machine.facts().cores, 3 })
end

function spec.a_request_takes_target_tolerance_and_threads_from_the_client()
  local process, asked = recorder()
  local one = client.over(process, { target = "cuda", tolerance = "paper", threads = 3 })
  one:verdict({ id = "t", source = "s" }, { ["kernels/k.cu"] = "x" }, { measure = false })
  one:feedback("verify", { id = "t", source = "s" }, { ["kernels/k.cu"] = "x" })
  one:request("profile", { task = { source = "s" }, files = {}, target = "cpu" })
  one:trace { source = "s" }
  for index, kind in ipairs { "evaluate", "verify", "profile" } do
    t.expect(asked[index].kind, kind)
    t.expect({ asked[index].body.target, asked[index].body.tolerance, asked[index].body.threads },
      { index == 3 and "cpu" or "cuda", "paper", 3 })
  end
  t.expect(asked[4].body, { task = { source = "s" } })
end

function spec.the_rule_set_reaches_the_judge_and_an_answer_by_one_is_none_by_the_other()
  local process, asked = recorder()
  local one = client.over(process, { rules = "mixed" })
  local files = { ["kernels/k.cpp"] = "x" }
  for _, rules in ipairs { false, "mixed", "own", "own" } do
    one:verdict({ id = "t", source = "s" }, files, { measure = false, reuse = true, rules = rules or nil })
  end
  t.expect({ #asked, asked[1].body.rules, asked[2].body.rules }, { 2, "mixed", "own" })
  t.expect(settings({}).judge.rules, "own")
  t.expect(settings({ "judge.rules=mixed" }).judge.rules, "mixed")
end

function spec.an_evaluation_judges_a_candidate_once_and_uses_no_verdict_of_training()
  local process, asked = recorder()
  local one = client.over(process, {})
  local files = { ["kernels/k.cpp"] = "x" }
  local function count(reuse, measure)
    local verdict = one:verdict({ id = "t", source = "s" }, files, { measure = measure or false, reuse = reuse })
    return { #asked, verdict.reused == true }
  end
  t.expect({ count(true), count(true) }, { { 1, false }, { 1, true } })
  t.expect({ count "evaluate", count "evaluate" }, { { 2, false }, { 2, true } })
  t.expect({ count "other", count(true), count(false), count("evaluate", true) },
    { { 3, false }, { 3, true }, { 4, false }, { 4, true } })  -- what failed without a clock fails with one
end

-- A process that is lost `times` times, and then answers.
local function lost(times)
  local count = 0
  return { request = function()
    count = count + 1
    if count <= times then return nil, "the judge died while it worked on this request", "gone" end
    return verdicts.blank("wrong", "verify", "mismatch")
  end, close = function() end }
end

function spec.a_candidate_that_ends_a_judge_of_its_own_twice_crashed_and_others_are_void_or_judged()
  local task, files = { id = "t", source = "s" }, { ["kernels/k.cpp"] = "x" }
  for _, case in ipairs { { 1, 0, "wrong" }, { 9, 0, "wrong" }, { 9, 1, "wrong" }, { 9, 2, "crash" }, { 9, false, "void" } } do
    local one = client.over(lost(case[1]), {}, case[2] and function() return lost(case[2]) end or nil)
    t.expect(one:verdict(task, files, { measure = false }).status, case[3])
  end
  t.expect(client.over(lost(9), {}, function() return nil end):verdict(task, files, { measure = false }).status, "void")
end

local function passed(eager, compile)
  return { status = "ok", speed = "measured", speedup = { eager = eager, compile = compile }, faster = {} }
end

function spec.the_best_is_fastest_against_the_faster_baseline()
  local order = { passed(3, 2.5), passed(9, 2), passed(1.9), passed(nil, 1.5), passed(), { status = "wrong" },
    { status = "void" } }
  for index = 1, #order - 1 do
    t.is_true(best.better(order[index], order[index + 1]), ("%d before %d"):format(index, index + 1))
    t.is_true(not best.better(order[index + 1], order[index]))
  end
  t.is_true(best.better({ status = "void" }, nil), "anything is better than nothing")
  t.is_true(not best.better(passed(2, 2), passed(2, 2)), "the first of equals stays")
end

function spec.states_are_distinct_the_latest_first()
  local function state(text, correct) return { files = { ["kernels/k.cpp"] = text }, correct = correct } end
  local world = { states = { state("a", true), state("b", false), state("c", true), state("a") },
    candidate = function() return { ["kernels/k.cpp"] = "end" } end }
  local texts = {}
  for index, found in ipairs(best.states(world)) do texts[index] = found.files["kernels/k.cpp"] end
  t.expect(texts, { "a", "c" })
  world.states = { state("b", false) }
  t.expect(best.states(world)[1].files["kernels/k.cpp"], "end")
  local judged = 0
  local found = best.of({ state("x"), state("y"), state("z") }, 2, function(one)
    judged = judged + 1
    return passed(one.files["kernels/k.cpp"] == "y" and 2 or 1)
  end)
  t.expect({ judged, found.files["kernels/k.cpp"] }, { 2, "y" })
end

return spec
