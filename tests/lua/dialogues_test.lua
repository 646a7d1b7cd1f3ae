-- policies.teacher and training.dialogues: whole dialogues in real workspaces, with a judge that knows the expert's
-- answers; what of them is imitated; packs.
local call_formats = require "tests.manual.long.call_formats"
local config = require "khost.config"
local dialogues = require "training.dialogues"
local experts = require "policies.experts"
local formats = require "chat.formats"
local fs = require "khost.fs"
local lessons = require "training.lessons"
local milestone_tools = require "rewards.milestone_tools"
local random = require "lib.random"
local rejection = require "training.rejection"
local repairs = require "policies.teacher.repairs"
local reward = require "run.reward"
local sched = require "khost.sched"
local store = require "khost.store"
local t = require "tests.lua.harness"
local teacher = require "policies.teacher"
local watch = require "training.watch"

local PATH = "kernels/k.cpp"
local SETTINGS = { count = 24, tasks = 6, timed = 2, slow = 0.25, fault = 0.45, turns = 8, observation_tokens = 500 }

-- Letters as tokens; special tokens by name.
local CODEC = { special = function(_, name) return name:match("^<|im_%a+|>$") and name or nil end,
  encode = function(_, text)
    local list = {}
    for letter in text:gmatch(".") do list[#list + 1] = letter end
    return list
  end }

-- Right is what the expert writes in one of its variants.
local function judge_of()
  local self = { asked = { verify = 0, profile = 0, verdict = 0 } }
  local function verdict_of(task, files)
    local right = false
    for _, variant in ipairs(experts.of("cpu").ORDER) do
      local answer = experts.of("cpu").answer(task.graph, { variant = variant })
      right = right or answer ~= nil and answer.files[PATH]:gsub("\n$", "") == (files[PATH] or ""):gsub("\n$", "")
    end
    return { status = right and "ok" or "wrong", stage = "verify", reason = right and "" or "values", detail = "",
      correct = right, ok = right, text = right and "Correct" or "Wrong", times = {}, speedup = {}, faster = {},
      speed = "none", speed_reason = "", evidence = { tolerance = "calibrated" }, wall_s = {} }
  end
  function self:verdict(task, files)
    self.asked.verdict = self.asked.verdict + 1
    return verdict_of(task, files)
  end
  function self:feedback(kind, task, files)
    self.asked[kind] = self.asked[kind] + 1
    return verdict_of(task, files)
  end
  return self
end

local function with_run(fn)
  local root = "/tmp/khost-dialogues-" .. fs.sha256(tostring(sched.wall_clock())):sub(1, 12)
  local kept = assert(store.create(root, { name = "x" }))
  local run = { store = kept, seed = 3, judging = judge_of(), reward = assert(reward.open("rewards.milestone", kept)),
    config = { machine = { target = "cpu", episodes = 4 },
      tasks = { families = { "chain", "reduce" }, length = { 1, 3 }, small_shapes = { { 64, 128 } },
        shapes = { { 1024, 1024 } } } } }
  local ok, message = pcall(fn, run, root)
  kept:close()
  fs.remove_tree(root)
  if not ok then error(message, 0) end
end

local function by_kind(list)
  local found = {}
  for _, one in ipairs(list) do
    found[one.kind] = found[one.kind] or {}
    table.insert(found[one.kind], one)
  end
  return found
end

local spec = {}

function spec.dialogues_are_played_in_real_workspaces_and_every_kind_is_kept()
  with_run(function(run)
    local kept, kinds, reasons = dialogues.play(run, SETTINGS, formats.learnt "xml")
    local found = by_kind(kept)
    for _, kind in ipairs(teacher.KINDS) do t.is_true(found[kind] ~= nil, "no dialogue of the kind " .. kind) end
    t.is_true(#kept >= SETTINGS.count * 3 / 4, ("%d of %d kept"):format(#kept, SETTINGS.count))
    local played = 0
    for _, row in ipairs(kinds) do played = played + row.of end
    for _, count in pairs(reasons) do played = played - count end
    t.expect({ played, reasons.void }, { #kept, nil })
    t.is_true(run.judging.asked.profile > 0)
    for _, one in ipairs(found.slow) do t.expect(one.task.timed, true) end
    -- Each mistake was seen and mended, and it is not imitated.
    for _, one in ipairs(found.fault) do
      local masked, last = 0, one.turns[#one.turns]
      for _, turn in ipairs(one.turns) do masked = masked + (turn.learn and 0 or 1) end
      t.is_true(masked >= 1, "a planted mistake is imitated")
      t.expect({ last.learn, last.calls }, { true, nil })
    end
    local used = watch.calls(run.store and require("agent.episode").of_stages(run, { dialogues.STAGE }))
    t.is_true(used.tools_used >= 4, watch.tools_text(used.tools))
    t.is_true(used.well_formed > 0.8 and used.well_formed <= 1)
  end)
end

function spec.what_was_played_is_not_played_again()
  with_run(function(run)
    local first = dialogues.play(run, SETTINGS, formats.learnt "xml")
    local asked = run.judging.asked.verdict
    local again = dialogues.play(run, SETTINGS, formats.learnt "xml")
    t.expect(again, first)
    t.expect(run.judging.asked.verdict, asked)
    t.expect(run.store:count("trajectories"), SETTINGS.count)
  end)
end

function spec.a_pack_serves_both_formats_and_notices_a_change()
  with_run(function(run, root)
    local kept = dialogues.play(run, SETTINGS, formats.learnt "xml")
    local path = root .. "/pack.jsonl"
    dialogues.write(path, kept, { target = "cpu", seed = 3 })
    local read, head = dialogues.read(path, "cpu")
    t.expect({ #read, head.count, head.seed }, { #kept, #kept, 3 })
    for _, name in ipairs { "hermes", "xml" } do
      local format = formats.learnt(name)
      local episodes, left_out = dialogues.episodes(format.open(CODEC), format, read, { target = "cpu", tokens = 1e6,
        answer_tokens = 1e6 })
      t.expect({ #episodes, next(left_out) }, { #kept, nil })
      for index, e in ipairs(episodes) do
        -- What is learnt are the good turns as the format writes them, each with its end, and nothing else.
        local learnt, wanted = {}, {}
        for at, bit in ipairs(e.mask) do learnt[#learnt + 1] = bit == 1 and e.tokens[at] or nil end
        for _, turn in ipairs(read[index].turns) do
          wanted[#wanted + 1] = turn.learn and format.render(turn.thought, turn.calls or {},
            require("agent.tools").load()) .. "<|im_end|>" or nil
        end
        t.expect(table.concat(learnt), table.concat(wanted))
        t.expect(#e.tokens, #e.mask)
      end
    end
    local format = formats.learnt "xml"
    local _, out = dialogues.episodes(format.open(CODEC), format, read, { target = "cpu", tokens = 10, answer_tokens = 9 })
    t.expect(out, { too_long = #kept })
    local combination = lessons.combination(read[1].task.chain)
    _, out = dialogues.episodes(format.open(CODEC), format, read, { target = "cpu", tokens = 1e6, answer_tokens = 1e6,
      taken = { [combination] = true } })
    t.is_true(out.shares_a_combination >= 1)
    t.raises("this run's is cuda", dialogues.read, path, "cuda")
    local text = assert(fs.read(path))
    assert(fs.write(path, (text:gsub("I write", "I wrote"))))
    t.raises("the hash that its head names", dialogues.read, path, "cpu")
    assert(fs.write(path, "{}\n"))
    t.raises("no pack of dialogues", dialogues.read, path, "cpu")
  end)
end

function spec.lessons_of_dialogues_share_no_combination_with_the_runs_sets()
  with_run(function(run)
    local stream = random.stream "sets"
    local taken = {}
    for index = 1, 60 do
      local task = require("synthesis.compose").task(stream, { families = { "chain", "reduce" }, length = { 1, 3 } })
      assert(run.store:put("tasks", ("held_out-%03d"):format(index), { name = "x", split = "held_out", status = "kept",
        source = task.source, chain = task.chain }))
      taken[lessons.combination(task.chain)] = true
    end
    for _, one in ipairs(dialogues.play(run, { count = 8, tasks = 4, timed = 1, slow = 0.2, fault = 0.3, turns = 8, observation_tokens = 500 },
      formats.learnt "hermes")) do
      t.is_true(not taken[lessons.combination(one.task.chain)], one.task.chain)
    end
  end)
end

function spec.formats_are_compared_after_the_same_start()
  with_run(function(run, root)
    local kept = dialogues.play(run, { count = 4, tasks = 2, timed = 0, slow = 0, fault = 0.5, turns = 8, observation_tokens = 500 }, formats.learnt "xml")
    dialogues.write(root .. "/pack.jsonl", kept, { target = "cpu", seed = 3 })
    local c = config.plain(assert(config.load { preset = "smoke-tools", set = { "toy.width=32", "toy.layers=1",
      "machine.threads=2", "agentic.answer_tokens=30", "agentic.turns=2", "supervised.answer_tokens=4000" } }))
    local report = call_formats.measure({ pack = root .. "/pack.jsonl", model = "toy", report = root .. "/report.json",
      steps = 2, batch = 2, tasks = 2, samples = 1, seed = 1 }, c, run.judging)
    for _, name in ipairs { "hermes", "xml" } do
      local seen = report.formats[name]
      t.expect({ seen.start.dialogues, seen.loop.episodes, next(seen.start.left_out) }, { #kept, 2, nil })
      t.is_true(seen.start.learnt > 0 and seen.start.learnt < seen.start.tokens and seen.loop.calls > 0)
    end
    -- JSON needs more tokens than raw values for the same calls.
    t.is_true(report.formats.hermes.start.learnt > report.formats.xml.start.learnt)
    t.expect(report.difference.tasks, 2)
    t.is_true(fs.exists(root .. "/report.json") and not fs.exists(root .. "/report.json.work"))
  end)
end

function spec.plans_fit_into_the_turns_that_an_agent_has()
  local run = { seed = 1, store = { list = function() return {} end }, config = { machine = { target = "cuda" },
    tasks = { families = { "chain", "bias", "rows", "reduce" }, length = { 1, 3 }, small_shapes = { { 256, 512 } } } } }
  local longest, plans = 0, 0
  for _, task in ipairs(lessons.tasks(run, { count = 40, stream = random.stream "plans", length = { 1, 3 } })) do
    task.timed = true
    for _, kind in ipairs(teacher.KINDS) do
      for _, target in ipairs { "cpu", "cuda" } do
        local plan, why = teacher.plan(task, kind, random.stream(task.id .. kind), target, 8)
        t.is_true(plan ~= nil or why == "no_rule" or why == "no_fault_fits", why)
        longest, plans = math.max(longest, plan and #plan or 0), plans + (plan and 1 or 0)
      end
    end
  end
  t.expect(longest <= 8 and longest >= 7, true)
  t.is_true(plans > 200, plans .. " of 240")
  local _, why = teacher.plan(lessons.tasks(run, { count = 1, stream = random.stream "one", length = { 1, 1 } })[1],
    "slow", random.stream "one", "cpu", 2)
  t.expect(why, "too_long")
end

function spec.several_tools_earn_a_right_candidate_a_little_more()
  local function e(status, names)
    local calls = {}
    for index, name in ipairs(names) do calls[index] = { name = name, status = "ok" } end
    return { verdict = { status = status, correct = status == "ok", evidence = { tolerance = "calibrated" }, faster = {},
      speed = "measured" }, turns = { { calls = calls } } }
  end
  local four = { "Write", "Bash", "Read", "Edit", "Bash" }
  t.expect((milestone_tools.score(e("ok", four))), 1.1)
  t.expect((milestone_tools.score(e("ok", { "Write", "Bash", "Read", "Bash" }))), 1)
  t.expect((milestone_tools.score(e("wrong", four))), -1)
  t.expect((milestone_tools.score(e("void", four))), nil)
  t.is_true(milestone_tools.range[2] > 3)
end

function spec.a_repair_makes_the_right_text_of_the_wrong_one()
  local right = "a = 1;\nb = 2;\nc = 3;\nd = 4;\ne = 5;\n"
  local function call(wrong) return repairs.of("/workspace/k", wrong, right).call end
  local edit = call(right:gsub("b = 2", "b = 7"))
  t.expect({ edit.name, edit.arguments.old_string, edit.arguments.new_string }, { "Edit", "b = 7;", "b = 2;" })
  local both = call((right:gsub("b = 2", "b = 7"):gsub("d = 4", "d = 0")))
  t.expect({ both.name, #both.arguments.edits }, { "MultiEdit", 2 })
  -- A line that stands twice, or too many lines: the whole file.
  t.expect(call((right:gsub("b = 2;", "a = 1;"))).name, "Write")
  t.expect(call((right:gsub("%d", "9"))).name, "Write")
  t.expect(call("a = 1;\n").name, "Write")
end

function spec.good_turns_are_those_that_nothing_was_wrong_with()
  local function turn(more)
    local made = { status = "ok" }
    for name, value in pairs(more or {}) do made[name] = value end
    return made
  end
  local changed = { ["kernels/k.cpp"] = "x" }
  t.expect(rejection.good_turns { turn { status = "invalid" }, turn { changes = changed, workspace = "a" },
    turn { workspace = "a", verified = false }, turn { changes = changed, workspace = "b", status = "error" },
    turn { changes = changed, workspace = "c" }, turn { workspace = "c", verified = true }, {} },
    { false, false, true, false, true, true, true })
  t.expect(rejection.good_turns { turn { status = "failed" }, turn() }, { false, true })
end

function spec.calls_are_well_formed_when_their_tool_could_take_them()
  local function e(turns) return { turns = turns } end
  local seen = watch.calls { e { { calls = { { name = "Write", status = "ok" }, { name = "Bash", status = "error" } } },
    { calls = { { name = "Edit", status = "invalid", label = "missing_field" } } }, { text = "the end" } },
    e { { calls = { { label = "malformed_call", status = "invalid" } } }, { label = "cut" } },
    e { { text = "no call at all" } }, e { { calls = { { name = "Write", status = "ok", label = "lenient_json" } } } } }
  t.expect(seen, { calls = 7, well_formed = 2 / 7, tools = { Write = 1, Bash = 1 }, tools_used = 2 })
  t.expect(watch.calls({}).well_formed, nil)
  t.expect(watch.tools_text { Bash = 2, Read = 9, Edit = 2 }, "Read 9, Bash 2, Edit 2")
end

return spec
