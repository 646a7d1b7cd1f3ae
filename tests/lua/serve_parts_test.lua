-- The parts of `khost serve`: token files, quotas, the fair queue, counts, the command's refusals, the installed skill.
local clients = require "serve.clients"
local command = require "commands.serve"
local fs = require "khost.fs"
local judge_client = require "judge.client"
local machine = require "khost.machine"
local metrics = require "serve.metrics"
local prompt = require "agent.prompt"
local queue = require "serve.queue"
local schemes = require "serve.schemes"
local sched = require "khost.sched"
local skill = require "serve.skill"
local t = require "tests.lua.harness"
local turns = require "serve.turns"
local usage = require "serve.usage"
local verdicts = require "judge.verdict"

local spec = {}

local TOKEN = ("a"):rep(32)

local function entry(more)
  return ('[clients.one]\ntoken = "%s"\nrights = ["candidates"]\n%s'):format(TOKEN, more or "")
end

function spec.a_token_file_says_who_has_which_rights_and_quotas()
  local found = assert(clients.parse(entry "device_s = 60\nwaiting = 2\n", "t.toml"))
  local one = found:find("Bearer " .. TOKEN)
  t.expect({ one.name, one.rights, one.quotas.device_s, one.quotas.waiting, one.quotas.build_s },
    { "one", { candidates = true }, 60, 2, math.huge })
  t.expect({ found:find(nil), found:find "Bearer ", found:find(TOKEN), found:need_tokens() }, { nil, nil, nil, true })
end

function spec.a_token_file_that_is_wrong_is_told_with_the_place()
  local function wrong(text, part)
    local found, message = clients.parse(text, "t.toml")
    t.is_true(not found and message:find(part, 1, true), tostring(message))
  end
  wrong("", "no [clients.NAME]")
  wrong("[clients.one", "t.toml")
  wrong(entry():gsub(TOKEN, "short"), "at least 32")
  wrong(entry():gsub("aaaa", "a a\\\\"), "at least 32")
  wrong(entry():gsub("candidates", "candidate"), "did you mean 'candidates'")
  wrong(entry():gsub('%["candidates"%]', "[]"), "rights: a list")
  wrong(entry "device = 3\n", "unknown key 'device'")
  wrong(entry "device_s = -1\n", "at least 0")
  wrong(entry() .. entry():gsub("one", "two"), "the same token")
end

function spec.a_token_file_that_others_may_read_is_refused()
  local path = "/tmp/khost-tokens-" .. fs.sha256(tostring(sched.wall_clock())):sub(1, 12)
  assert(fs.write(path, entry()))
  machine.run { "chmod", "644", path }
  local found, message = clients.load(path)
  t.is_true(not found and message:find("chmod 600", 1, true), tostring(message))
  machine.run { "chmod", "600", path }
  t.is_true(clients.load(path) ~= nil)
  fs.remove_tree(path)
  t.expect((clients.load(path)), nil)
end

function spec.quotas_are_of_the_last_hour()
  local now = 0
  local used = usage.new(function() return now end)
  local client = { name = "one", quotas = { device_s = 10, build_s = math.huge, disk_mb = math.huge } }
  used:add("one", { device_s = 6 })
  now = 120
  used:add("one", { device_s = 3, build_s = 1000 })
  t.expect({ used:exceeded(client) }, {})
  used:add("one", { device_s = 1.5 })
  local message, seconds = used:exceeded(client)
  t.is_true(message:find("device_s = 10", 1, true), message)
  t.expect(seconds, 3600 - 120)
  t.expect({ used:exceeded { name = "two", quotas = client.quotas } }, {})
  now = 3600
  t.expect({ used:used("one", "device_s") }, { 4.5, 2 })
  t.expect({ used:exceeded(client) }, {})
  t.expect(used.totals.one, { device_s = 10.5, build_s = 1000 })
end

function spec.a_verdict_costs_what_it_held()
  t.expect(usage.of({ wall_s = { task = 4, build = 1, plan = 0.5, verify = 2, time = 50 },
    evidence = { exclusive_s = 3 } }, "cpu"), { device_s = 5, build_s = 5.5 })
  t.expect(usage.of({ wall_s = { verify = 2 }, evidence = { exclusive_s = 3 } }, "cuda"), { device_s = 3, build_s = 0 })
  t.expect(usage.of({}, "cpu"), { device_s = 0, build_s = 0 })
end

-- One slot; a busy client's requests stand before those of another: they are served in turn nevertheless.
function spec.a_client_that_asks_much_does_not_keep_others_waiting()
  local q, order, tasks = queue.new(1, 100), {}, {}
  local function ask(name)
    tasks[#tasks + 1] = sched.spawn(function()
      q:run(name, 100, function()
        sched.sleep(0.002)
        order[#order + 1] = name
        return 1, true
      end)
    end)
    sched.sleep(0)
  end
  for _ = 1, 20 do ask "busy" end
  for _ = 1, 5 do ask "other" end
  for _, task in ipairs(tasks) do task:wait() end
  local last
  for index, name in ipairs(order) do last = name == "other" and index or last end
  t.expect(#order, 25)
  t.is_true(last <= 13, "the other client's last request came as number " .. tostring(last))
end

-- The old client waits for no turn when the new one comes, as its request before is done.
function spec.a_client_that_comes_anew_does_not_starve_one_that_was_served_before()
  local q, order, tasks = queue.new(1, 100), {}, {}
  local function ask(name)
    tasks[#tasks + 1] = sched.spawn(function()
      q:run(name, 100, function()
        sched.sleep(0.002)
        order[#order + 1] = name
        return 50, true
      end)
    end)
    sched.sleep(0)
  end
  for _ = 1, 10 do q:run("old", 100, function() return 50, true end) end
  for _ = 1, 20 do ask "new" end
  ask "old"
  for _, task in ipairs(tasks) do task:wait() end
  local place
  for index, name in ipairs(order) do place = name == "old" and index or place end
  t.is_true(place <= 5, "the old client's request came as number " .. tostring(place))
end

function spec.the_cheaper_client_is_served_more_often()
  local q, served, stop = queue.new(1, 100), { dear = 0, cheap = 0 }, false
  local function client(name, cost)
    return sched.spawn(function()
      while not stop do
        q:run(name, 100, function()
          sched.sleep(0)
          served[name] = served[name] + 1
          stop = served.dear + served.cheap >= 110
          return cost, true
        end)
      end
    end)
  end
  local tasks = {}
  for index = 1, 8 do tasks[index] = client(index % 2 == 0 and "dear" or "cheap", index % 2 == 0 and 10 or 1) end
  for _, task in ipairs(tasks) do task:wait() end
  t.is_true(served.cheap > 5 * served.dear, ("cheap %d, dear %d"):format(served.cheap, served.dear))
end

function spec.who_is_cancelled_or_fails_gives_its_place_back()
  local q, begun = queue.new(1, 10), 0
  local function slow()
    begun = begun + 1
    sched.sleep(60)
  end
  local first = sched.spawn(function() q:run("a", 10, slow) end)
  local second = sched.spawn(function() q:run("a", 10, slow) end)
  t.eventually(function() return begun == 1 and q.waiting == 1 end)
  second:cancel()
  second:wait()
  t.expect(q.waiting, 0)
  first:cancel()
  first:wait()
  t.expect(q.free, 1)
  t.raises("broken", function() q:run("a", 10, function() error "broken" end) end)
  t.expect({ q:run("a", 10, function() return 0, "x", nil, "z" end) }, { "x", nil, "z" })
  t.expect(q.free, 1)
end

function spec.a_client_with_too_many_that_wait_is_told_so()
  local q = queue.new(1, 10)
  local tasks, codes = {}, {}
  for index = 1, 4 do
    tasks[index] = sched.spawn(function()
      local _, _, code = q:run("a", 2, function()
        sched.sleep(0.05)
        return 0, true
      end)
      codes[index] = code
    end)
  end
  for _, task in ipairs(tasks) do task:wait() end
  t.expect(codes, { [4] = "turn_limit" })
end

function spec.what_waits_without_a_limit_takes_no_place_of_what_has_one()
  local q, tasks, codes = queue.new(1, 1), {}, {}
  for index, most in ipairs { 9, math.huge, math.huge, 9, 9 } do
    tasks[index] = sched.spawn(function()
      local _, _, code = q:run("a", most, function()
        sched.sleep(0.02)
        return 0, true
      end)
      codes[index] = code
    end)
    sched.sleep(0)
  end
  t.expect({ q.waiting, q:of "a", q:full() }, { 3, 1, true })
  for _, task in ipairs(tasks) do task:wait() end
  t.expect({ codes, q.waiting, q.unlimited }, { { [5] = "turn_busy" }, 0, 0 })
end

-- What one answer, with its code, costs in the queue and in the quotas where it held the judge for 0.05 s.
local function cost_of(target, answer, code)
  local taken = turns.new { slots = 1, capacity = 9, metrics = metrics.new(), target = target }
  local who = { name = "a", quotas = { device_s = 9, build_s = 9, disk_mb = 9, waiting = 9 } }
  taken:run(who, nil, function(billed)
    sched.sleep(0.05)
    return billed(answer, code and "message", code)
  end)
  local totals = taken.usage.totals.a
  return taken.queue.cost.a, totals.device_s, totals.build_s
end

function spec.a_void_costs_its_place_in_the_queue_and_no_quota()
  local void, device, build = cost_of("cpu", verdicts.blank("void", "task", "judge_lost"))
  t.is_true(void >= 0.05, tostring(void))
  t.expect({ device, build }, { 0, 0 })
  void, device, build = cost_of("cpu", nil, "void")
  t.is_true(void >= 0.05, tostring(void))
  t.expect({ device, build }, { 0, 0 })
end

function spec.an_answer_that_tells_its_seconds_costs_those()
  t.expect({ cost_of("cpu", { status = "wrong", wall_s = { verify = 3 } }) }, { 3, 3, 0 })
  t.expect({ cost_of("cuda", { status = "wrong", wall_s = { build = 3 } }) }, { 3, 0, 3 })
end

function spec.an_answer_that_tells_no_seconds_costs_those_for_which_it_held_the_judge_also_in_the_quotas()
  for _, case in ipairs { { verdicts.blank("crash", "verify", "exit") },
    { verdicts.blank("bad_task", "task", "bad_task") }, { { nodes = {} } }, { nil, "gone" }, { nil, "lost" }, {} } do
    for target, place in pairs { cpu = 2, cuda = 3 } do
      local costs = { cost_of(target, case[1], case[2]) }
      t.is_true(costs[1] >= 0.05 and costs[place] == costs[1] and costs[5 - place] == 0, table.concat(costs, " "))
    end
  end
end

function spec.who_ends_judges_does_not_starve_others_and_uses_its_quota_up()
  local taken = turns.new { slots = 1, capacity = 9, metrics = metrics.new(), target = "cpu" }
  local function dies()
    sched.sleep(0.02)
    return nil, "it died", "gone"
  end
  local function process(request) return { request = request, close = function() end } end
  local served, stop, tasks = { killer = 0, honest = 0 }, false, {}
  local function asks(name, judge, device_s)
    local who = { name = name, quotas = { device_s = device_s, build_s = 9, disk_mb = 9, waiting = 9 } }
    tasks[#tasks + 1] = sched.spawn(function()
      while not stop do
        local given = taken:run(who, nil, function(billed)
          return billed(judge:verdict({ id = "t", source = "" }, { ["kernels/k.cpp"] = "x" }, { measure = false }))
        end)
        served[name] = served[name] + (given and 1 or 0)
        sched.sleep(0.001)
        stop = stop or served.honest >= 20
      end
    end)
  end
  local killing = judge_client.over(process(dies), {}, function() return process(dies) end)
  local honest = judge_client.over(process(function()
    sched.sleep(0.02)
    local verdict = verdicts.blank("wrong", "verify", "mismatch")
    verdict.wall_s = { verify = 0.02 }
    return verdict
  end), {})
  asks("killer", killing, 0.2)
  asks("killer", killing, 0.2)
  asks("honest", honest, 9)
  t.eventually(function() return stop end, 10)
  for _, task in ipairs(tasks) do task:wait() end
  t.is_true(served.killer >= 1 and served.killer <= 3, "the killer had " .. served.killer .. " verdicts")
end

function spec.counts_have_the_form_that_prometheus_reads()
  local m = metrics.new()
  m:add("requests_total", { route = 'a"b\\\n', status = 200 })
  m:add("requests_total", { route = 'a"b\\\n', status = 200 }, 2)
  m:observe("verdict_seconds", 0.3)
  m:observe("verdict_seconds", 500)
  local text = m:text()
  for _, line in ipairs { "# TYPE khost_requests_total counter\n",
    'khost_requests_total{route="a\\"b\\\\\\n",status="200"} 3\n',
    'khost_verdict_seconds_bucket{le="0.25"} 0\nkhost_verdict_seconds_bucket{le="0.5"} 1\n',
    'khost_verdict_seconds_bucket{le="120"} 1\nkhost_verdict_seconds_bucket{le="+Inf"} 2\n',
    "khost_verdict_seconds_count 2\n" } do
    t.is_true(text:find(line, 1, true), line .. " is missing in " .. text)
  end
  t.raises("no metric", m.add, m, "no_such")
end

function spec.the_command_refuses_what_would_be_open()
  local function refused(list, part)
    local ok, message = pcall(command.run, list)
    t.is_true(not ok and tostring(message):find(part, 1, true), tostring(message))
  end
  refused({ "--address", "0.0.0.0" }, "only loopback is served without tokens")
  refused({ "--address", "::" }, "only loopback is served without tokens")
  refused({ "--address", "127.0.0.1.example" }, "numeric")
  refused({ "--tokens", "/nonexistent" }, "no such file of tokens")
  refused({ "--tokens", "/nonexistent", "--allow-tasks" }, "the right 'tasks'")
  refused({ "--set", "machine.isolation=none" }, "isolation")
  refused({ "--reward", "no_such" }, "no reward scheme")
  refused({ "--suite", "/nonexistent" }, "no such file or folder")
  refused({ "--tokenizer", "/nonexistent" }, "NAME=FOLDER expected")
  refused({ "--tokenizer", "x=/nonexistent" }, "/nonexistent/tokenizer.json: no such file")
end

function spec.schemes_are_those_of_scripts_rewards()
  local opened = assert(schemes.open "milestone")
  t.is_true(opened:get "speedup" ~= nil)
  t.expect((opened:get "terms"), nil)
  local reward, parts, hash = opened:score(opened:get(), { status = "wrong", stage = "verify", reason = "mismatch",
    evidence = { tolerance = "calibrated" } })
  t.expect({ reward, parts.correct, #hash }, { -1, 0, 64 })
  local none, why = opened:score(opened:get(), { status = "wrong", evidence = { tolerance = "paper" } })
  t.is_true(none == nil and why:find("pays a reward", 1, true), tostring(why))
end

function spec.an_installed_skill_is_whole_and_asks_a_service()
  local folder = "/tmp/khost-skills-" .. fs.sha256(tostring(sched.wall_clock())):sub(1, 12)
  for target, name in pairs { cpu = "cpp-kernel", cuda = "cuda-kernel" } do
    local path = assert(skill.install(folder, target))
    t.expect(path, ("%s/%s/SKILL.md"):format(folder, name))
    local text = assert(fs.read(path))
    t.expect(assert(prompt.front_matter(text)).name, name)
    t.is_true(text:find("KHOST_URL", 1, true))
    for _, file in ipairs { "verification", "profiling", "tune", "verdict", "request" } do
      t.expect(fs.exists(("%s/%s/assets/template/utils/%s.py"):format(folder, name, file)), "file")
    end
    t.is_true(fs.read(("%s/%s/assets/template/utils/request.py"):format(folder, name)):find("/v1/feedback", 1, true))
    local again, message = skill.install(folder, target)
    t.is_true(not again and message:find("--force", 1, true), tostring(message))
    t.is_true(skill.install(folder, target, true) ~= nil)
  end
  fs.remove_tree(folder)
end

return spec
