-- The report and the listing of a run that was stored for this test.
local fs = require "khost.fs"
local report = require "commands.report"
local runs = require "lib.runs"
local show = require "commands.show"
local store = require "khost.store"
local svg = require "lib.svg"
local t = require "tests.lua.harness"

local ROOT = "/tmp/khost-report-spec"

local function sample()
  fs.remove_tree(ROOT)
  local run = assert(store.create(ROOT,
    { name = "sample", preset = "smoke", seed = 1, config = { ppo = { steps = 2 } } }))
  assert(run:put("tasks", "a", { split = "train", status = "kept" }))
  assert(run:put("tasks", "b", { status = "dropped", reason = "constant_output" }))
  run:begin_stage("ppo")
  for step = 1, 2 do
    assert(run:metrics("ppo", step, { reward = step / 2, ["a<b"] = 1 }, "feed"))
    assert(run:append("trajectories", { stage = "ppo", step = step, index = 1, task = "a", status = "submitted",
      reward = 1, messages = { { role = "user", content = "relu & sum" } }, tokens = { 1 }, script_hash = "feed",
      verdict = { status = "ok", stage = "time", correct = true, faster = { eager = true, compile = false } } }))
  end
  run:finish_stage("ppo", { tables = { { title = "table 1", columns = { "policy" }, rows = { { "expert" } } } } })
  return run
end

local function has(text, part)
  t.is_true(text:find(part, 1, true), "expected '" .. part .. "'")
end

local spec = {}

function spec.the_page_stands_alone_and_holds_tables_and_curves()
  local page = report.page(sample())
  has(page, "constant_output")
  has(page, "ppo: table 1")
  has(page, "<svg ")
  has(page, "a&lt;b")
  has(page, "ppo.steps = 2")
  t.is_true(not page:find("http", 1, true) and not page:find("<script", 1, true))
  local _, opened = page:gsub("<svg", "")
  local _, closed = page:gsub("</svg>", "")
  t.expect(opened, 2)
  t.expect(closed, 2)
end

function spec.text_of_strangers_is_text_on_the_page()
  t.expect(svg.escape([[<script>alert("1" + '2')</script>&]]),
    "&lt;script&gt;alert(&quot;1&quot; + &#39;2&#39;)&lt;/script&gt;&amp;")
  t.expect(svg.escape("a\27[2J\226\128\174b"), "a\\u001b[2J\\u202eb")
  local drawn = svg.curve("<script>x</script>", { { 1, 2 }, { 2, 3 } })
  t.is_true(not drawn:find("<script", 1, true), drawn)
end

function spec.report_writes_beside_the_run_or_where_it_is_told()
  local run = sample()
  t.expect(report.run { run:folder() }, 0)
  t.is_true(fs.exists(run:folder() .. "/report.html"))
  t.expect(report.run { run:folder(), "--output", ROOT .. "/page.html" }, 0)
  t.is_true(fs.exists(ROOT .. "/page.html"))
  t.expect(report.run { ROOT .. "/nothing" }, 2)
  t.expect(report.run { "--wrong" }, 2)
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
