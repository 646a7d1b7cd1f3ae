-- The page of a run that was stored for this test, as far as it can be told without a browser: tests/manual/long/report_page.py
-- opens it in one.
local alarms = require "report.alarms"
local collect = require "report.collect"
local fs = require "khost.fs"
local json = require "khost.json"
local kernels = require "report.kernels"
local library = require "report.library"
local live = require "report.live"
local made = require("tests.manual.long.report_store").made
local markup = require "lib.markup"
local page = require "report.page"
local report = require "commands.report"
local runs = require "run.runs"
local series = require "report.series"
local show = require "commands.show"
local store = require "khost.store"
local t = require "tests.lua.harness"
local trajectories = require "report.trajectories"
local watch = require "commands.watch"

local ROOT = "/tmp/khost-report-spec"

local function empty_run()
  fs.remove_tree(ROOT)
  return assert(store.create(ROOT, { name = "sample", preset = "smoke", seed = 1, config = { ppo = { steps = 2 } } }))
end

local function sample(more)
  fs.remove_tree(ROOT)
  local options = { trajectories = 24, steps = 3, hostile = false, alarms = false }
  for name, value in pairs(more or {}) do
    options[name] = value
  end
  return made.run(ROOT, options)
end

local function has(text, part)
  t.is_true(text:find(part, 1, true), "expected '" .. part .. "'")
end

local function count(text, pattern)
  local _, n = text:gsub(pattern, "")
  return n
end

-- The data that a page carries, as a browser reads it.
local function data_of(html)
  local text = html:match '<script type="application/json" id="data">(.-)</script>'
  return assert(json.decode(text))
end

local spec = {}

function spec.the_page_stands_alone_and_lets_no_other_script_run()
  local html = page.html(page.data { sample() }, "window.Chart = 'the library'")
  t.expect(count(html, "<script>"), 10)  -- the library and nine of our own
  t.expect(count(html, "</script>"), 11)
  t.expect(count(html, "'sha256%-"), 10)
  has(html, "default-src 'none'")
  for _, outside in ipairs { "src=", "@import", "url(http", "//cdn" } do
    t.is_true(not html:find(outside, 1, true), outside)
  end
  local known = page.html(page.data { sample() })
  t.expect(count(known, "<script>"), 9)
  -- Of "abc" the standard itself gives the hash.
  has(page.html({ runs = json.list {} }, "abc"), "'sha256-ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0='")
end

function spec.a_page_that_serves_newer_data_may_ask_its_own_server_only()
  local run = sample()
  has(page.html(page.data({ run }, { every_s = 5, url = "/data" })), "connect-src 'self'")
  t.is_true(not page.html(page.data({ run }, { every_s = 5 })):find("connect-src", 1, true))
end

function spec.the_data_of_a_run_hold_every_figure_of_its_store()
  local run = sample()
  assert(run:put("tasks", "a", { status = "dropped", reason = "too_fast" }))
  assert(run:put("tasks", "b", { status = "composed" }))  -- nobody has decided on it yet
  local data = data_of(page.html(page.data { run })).runs[1]
  t.expect(data.totals.trajectories, 24)
  t.expect(data.totals.verdicts, 24)
  t.expect(data.stages[3].stage, "agentic")
  t.expect(data.stages[3].trajectories, 12)
  t.expect(data.stages[3].spent.drawing, 4)
  t.expect(data.drops[1].rows, { { label = "too_fast", count = 1 } })
  t.expect(data.tables[1].title, "single_turn: what it made")
  has(data.config, "ppo.steps = 3")
  has(data.sources["task-1"], "the reference")
  t.expect(#data.trajectories.list, 24)
  local names = {}
  for _, curve in ipairs(data.curves) do
    names[curve.stage .. "/" .. curve.name] = #curve.x
  end
  t.expect(names["agentic/actor_entropy"], 3)
end

function spec.a_run_without_anything_has_a_page_of_empty_lists()
  local html = page.html(page.data { empty_run() })
  local data = data_of(html).runs[1]
  for _, list in ipairs { data.stages, data.curves, data.alarms, data.kernels.best, data.trajectories.list } do
    t.expect(#list, 0)
  end
  -- Lists stay lists for the scripts: {} would have no length.
  for _, name in ipairs { "stages", "curves", "alarms", "best", "list", "tables", "levels" } do
    t.is_true(not html:find(('"%s":{'):format(name), 1, true), name .. " is no list")
  end
end

function spec.text_of_strangers_stays_text_on_the_page()
  local run = sample { hostile = true }
  local html = page.html(page.data { run })
  t.expect(count(html, "<script>"), 9)
  t.expect(count(html, "</script>"), 10)
  t.expect(count(html, "<!%-%-"), 0)
  t.expect(count(html, "<img"), 0)
  t.expect(count(html, "<base"), 0)
  t.is_true(not html:find("\226\128\174", 1, true), "a mark of direction")
  t.is_true(not html:find("\27", 1, true), "a control character")
  -- And it comes back whole.
  local found = 0
  for _, one in ipairs(data_of(html).runs[1].trajectories.list) do
    if one.name == made.HOSTILE[1] then
      found = found + 1
      t.expect(one.turns[1].thought, made.HOSTILE[1])
      t.expect(one.turns[1].calls[1].name, made.HOSTILE[1])
      t.expect(one.prompt[1].role, made.HOSTILE[1])
      t.expect(one.verdict.detail, made.HOSTILE[1])
    end
  end
  t.expect(found, 1)
end

function spec.a_title_is_escaped_and_json_holds_no_markup()
  t.expect(markup.escape([[<script>alert("1" + '2')</script>&]]),
    "&lt;script&gt;alert(&quot;1&quot; + &#39;2&#39;)&lt;/script&gt;&amp;")
  t.expect(markup.escape("a\27[2J\226\128\174b"), "a\\u001b[2J\\u202eb")
  t.expect(page.json { x = "</script><!--" }, [[{"x":"\u003c/script>\u003c!--"}]])
  has(page.html { runs = json.list { { id = "<b>x</b>" } } }, "<title>&lt;b&gt;x&lt;/b&gt;</title>")
end

function spec.the_scripts_of_the_page_never_assign_markup()
  for _, name in ipairs(assert(fs.list(fs.root() .. "/scripts/report/assets"))) do
    local text = assert(fs.read(fs.root() .. "/scripts/report/assets/" .. name))
    for _, way in ipairs { "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function",
      "srcdoc", "DOMParser", "createContextualFragment" } do
      t.is_true(not text:find(way, 1, true), name .. " uses " .. way)
    end
  end
end

function spec.the_watch_names_each_verdict_that_no_judge_gives()
  local run = sample()
  t.expect(#alarms.of(run), 0)
  made.add_alarms(run, "agentic", 3)
  local texts = {}
  for _, alarm in ipairs(alarms.of(run)) do
    texts[#texts + 1] = alarm.level .. ": " .. alarm.status .. ": " .. alarm.text
    t.expect(alarm.stage, "agentic")
    t.expect(alarm.first_step, 3)
  end
  local titles = {}
  for _, tab in ipairs(runs.tables(run)) do
    titles[tab.title] = #tab.rows
  end
  t.expect(titles["Verdicts that should not be there, or that a person should look at"], 7)
  table.sort(texts)
  t.expect(texts, {
    "alarm: bad_task: the filter let a task through: the reference's own output is NaN",
    "alarm: crash: stored as correct although its status is crash",
    "alarm: splendid: the judge has no status 'splendid'",
    "alarm: void: has a reward although void verdicts pay none",
    "alarm: wrong: status wrong at stage time never has the reason 'linkage'",
    "alarm: wrong: the judge has no reason 'because'",
    "look: suspect: the time is less than the hardware allows",
  })
end

function spec.a_broken_task_is_no_alarm_where_the_filter_looks_for_them()
  local run = empty_run()
  for _, stage in ipairs { "filter", "collect" } do
    assert(run:append("verdicts", { stage = stage, status = "bad_task", judge_stage = "task", reason = "not_finite" }))
  end
  local list = alarms.of(run)
  t.expect(#list, 1)
  t.expect({ list[1].stage, list[1].level }, { "collect", "look" })
  run:begin_stage("filter")
  t.expect(alarms.of(run)[1].level, "alarm")
end

function spec.long_curves_are_thinned_without_losing_spikes()
  local run = empty_run()
  run:transaction(function()
    for step = 1, 5000 do
      assert(run:metrics("ppo", step, { reward = step == 2345 and 99 or step == 3456 and -99 or step / 5000 }))
    end
    assert(run:metrics("ppo", 5000, { reward = 7 }))  -- the step again, after a resumption
  end)
  local curve = series.curves(run)[1]
  t.expect(curve.points, 5000)
  t.is_true(#curve.x <= series.MOST_POINTS)
  local low, high = math.huge, -math.huge
  for index, value in ipairs(curve.y) do
    low, high = math.min(low, value), math.max(high, value)
    t.is_true(index == 1 or curve.x[index] > curve.x[index - 1], "steps in order")
  end
  t.expect({ low, high, curve.x[#curve.x], curve.y[#curve.y] }, { -99, 99, 5000, 7 })
end

function spec.rewards_are_counted_by_level_and_step()
  local run = empty_run()
  local function add(step, index, reward, policy)
    assert(run:append("trajectories", { stage = policy and "evaluate" or "ppo", step = step, index = index,
      reward = reward, policy = policy or "p" }))
  end
  add(1, 1, -1) add(1, 2, 3) add(1, 3, 3) add(2, 1, nil) add(2, 2, -1)
  add(10, 1, 3, "expert") add(20, 1, -1, "base") add(21, 1, 3, "base")
  local rewards = series.rewards(run)
  t.expect(rewards.levels, { "-1", "3", "no reward" })
  local by_stage = {}
  for _, stack in ipairs(rewards.stages) do
    by_stage[stack.stage] = stack
  end
  t.expect(by_stage.ppo.unit, "step")
  t.expect(by_stage.ppo.x, { 1, 2 })
  t.expect(by_stage.ppo.counts, { { 1, 1 }, { 2, 0 }, { 0, 1 } })
  t.expect(by_stage.evaluate.unit, "policy")
  t.expect(by_stage.evaluate.x, { "expert", "base" })
  t.expect(by_stage.evaluate.counts, { { 0, 1 }, { 1, 1 }, { 0, 0 } })
end

function spec.many_rewards_become_ranges_and_many_steps_share_columns()
  local run = empty_run()
  run:transaction(function()
    for step = 1, 500 do
      assert(run:append("trajectories", { stage = "ppo", step = step, index = 1, reward = step / 100, policy = "p" }))
    end
  end)
  local rewards = series.rewards(run)
  t.expect(#rewards.levels, series.MOST_LEVELS - 1)
  local stack, sum = rewards.stages[1], 0
  t.expect(stack.steps, 500)
  t.expect(#stack.x, series.MOST_STEPS)
  for _, layer in ipairs(stack.counts) do
    t.expect(#layer, series.MOST_STEPS)
    for _, n in ipairs(layer) do
      sum = sum + n
    end
  end
  t.expect(sum, 500)
end

function spec.kernels_are_listed_by_speed_without_what_everybody_has()
  local run = sample { trajectories = 120 }
  local found = kernels.of(run)
  t.is_true(#found.best > 0 and #found.wrong > 0)
  for index, kernel in ipairs(found.best) do
    t.is_true(index == 1 or kernel.speedup_compile <= found.best[index - 1].speedup_compile)
    t.expect(kernel.files[1].path, "kernels/k.cu")
  end
  local header = assert(fs.read(fs.root() .. "/skills/cpp-kernel/template/kernels/fast.h"))
  assert(run:append("verdicts", { stage = "agentic", task = "task-1", status = "wrong", reason = "shape", correct = false,
    files = { ["kernels/fast.h"] = header, ["model_new.py"] = "import torch\n" } }))
  local last
  for _, kernel in ipairs(kernels.of(run).wrong) do
    last = kernel.reason == "shape" and kernel or last
  end
  t.expect(last.given, { "kernels/fast.h" })
  has(last.diff, "-import torch.nn as nn")
end

function spec.a_sample_spans_endings_and_rewards_within_its_budget()
  local run = sample { trajectories = 600, steps = 10 }
  local taken = trajectories.sample(run, { 17 }, 60000)
  t.expect(taken.total, 600)
  t.is_true(#taken.list < 200 and #json.encode(taken.list) < 70000)
  local seen, wanted = {}, false
  for _, one in ipairs(taken.list) do
    seen[one.stage .. " " .. one.reward] = true
    wanted = wanted or one.id == 17
  end
  t.is_true(wanted, "the one that was asked for")
  for _, stage in ipairs { "single_turn", "agentic" } do
    for _, reward in ipairs { -1, 1 } do
      t.is_true(seen[stage .. " " .. reward], stage .. " " .. reward)
    end
  end
end

function spec.a_trajectory_tells_its_turns_and_what_they_changed()
  local record = { id = 1, mask = { 0, 1, 1 }, start = { ["a.cpp"] = "one\n" }, turns = {
    { text = "I write it: two\n", changes = { ["a.cpp"] = "two\n" } },
    { calls = { { name = "Write", arguments = { content = "three\n", path = "b.cpp" }, observation = "wrote" } },
      changes = { ["b.cpp"] = "three\n" }, observation = "wrote" },
    { text = ("x"):rep(50000) } }, verdict = { status = "ok" } }
  local told = trajectories.describe(record)
  t.expect(told.learnt, 2)
  has(told.turns[1].diff, "-one")
  t.expect(told.turns[2].diff, nil)  -- the call shows the file whole
  t.expect(told.turns[2].observation, nil)  -- the call has it
  t.expect(told.turns[2].calls[1].arguments[2], { name = "path", text = "b.cpp" })
  has(told.turns[3].text, "bytes are left out")
end

function spec.control_characters_are_written_out_in_keys_and_values()
  local plain = collect.plain(json.list { { ["a\27b"] = "c\226\128\174d" }, 1 })
  t.expect(json.encode(plain), [==[[{"a\\u001bb":"c\\u202ed"},1]]==])
end

function spec.only_the_known_library_is_taken()
  t.is_true(not library.is_known "window.Chart = 1")
end

function spec.a_served_page_answers_this_machine_alone()
  local run = sample { running = true }
  local server = live.open({ run }, 2)
  local function ask(target, host, method)
    return server:answer { method = method or "GET", target = target, headers = { host = host or "127.0.0.1:8000" } }
  end
  local status, headers, body = ask "/data"
  t.expect({ status, headers["cache-control"] }, { 200, "no-store" })
  local first = json.decode(body)
  t.expect(first.runs[1].status, "running")
  t.expect(first.live, { every_s = 2, url = "/data" })
  assert(run:metrics("agentic", 4, { reward = 1 }))
  local _, _, later = ask "/data?x=1"
  t.is_true(json.decode(later).version ~= first.version, "another version")
  t.expect((ask("/data", "attacker.example:8000")), 421)
  t.expect((ask("/data", "localhost")), 200)
  t.expect((ask("/secret")), 404)
  t.expect((ask("/", nil, "POST")), 405)
end

function spec.a_listener_is_served_until_it_closes()
  local answers, asked = {}, 0
  local listener = { take = function()
    asked = asked + 1
    local number = asked
    return number <= 2 and { head = function()
      return { method = "GET", target = number == 1 and "/data" or "/nothing", headers = { host = "[::1]:1" } }
    end, answer = function(_, status) answers[#answers + 1] = status end } or nil
  end }
  live.open({ sample() }, 2):serve(listener)
  t.eventually(function() return #answers == 2 end)
  table.sort(answers)
  t.expect(answers, { 200, 404 })
end

function spec.a_page_that_cannot_be_made_is_answered_500()
  local status, asked
  local head = { method = "GET", target = "/data", headers = { host = "localhost" } }
  local listener = { take = function()
    asked = not asked
    return asked and { head = function() return head end, answer = function(_, given) status = given end } or nil
  end }
  live.open({ { query = function() return nil, "the store is locked" end } }, 2):serve(listener)
  t.eventually(function() return status ~= nil end)
  t.expect(status, 500)
end

function spec.report_writes_beside_the_run_or_where_it_is_told()
  local run = sample()
  t.expect(report.run { run:folder() }, 0)
  has(fs.read(run:folder() .. "/report.html"), run:info().id)
  t.expect(report.run { run:folder(), run:folder(), "--output", ROOT .. "/page.html" }, 0)
  t.expect(#data_of(fs.read(ROOT .. "/page.html")).runs, 2)
  t.raises("report: ", report.run, { ROOT .. "/nothing" })
  t.raises("--wrong", report.run, { "--wrong" })
  t.raises("--every", watch.run, { run:folder(), "--every", "0" })
end

function spec.watch_writes_a_file_until_the_run_ends()
  local run = sample()
  t.expect(watch.run { run:folder(), "--file", ROOT .. "/live.html", "--every", "0.5" }, 0)
  local data = data_of(fs.read(ROOT .. "/live.html"))
  t.expect(data.live, nil)
  t.expect(data.runs[1].status, "done")
end

function spec.show_prints_a_run_and_a_trajectory_and_refuses_the_rest()
  local run = sample()
  t.expect(show.run { run:folder() }, 0)
  t.expect(show.run { run:folder(), "1" }, 0)
  t.expect(show.run { run:folder(), "99" }, 2)
  t.expect(show.run { run:folder(), "x" }, 2)
  t.expect(show.run { "--help" }, 0)
end

function spec.numbers_and_durations_read_well()
  t.expect(runs.number(3), "3")
  t.expect(runs.number(0.123456), "0.1235")
  t.expect(runs.number(nil), "-")
  t.expect(runs.duration(0.00025), "250.0 us")
  t.expect(runs.duration(125), "2 min 05 s")
end

return spec
