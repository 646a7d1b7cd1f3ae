-- khost.store as scripts see it: records in, the same records out, transactions, resuming.
local fs = require "khost.fs"
local sched = require "khost.sched"
local store = require "khost.store"
local t = require "tests.lua.harness"

local ROOT = "/tmp/khost-store-spec"

local function fresh(info)
  fs.remove_tree(ROOT)
  return assert(store.create(ROOT, info))
end

local function trajectory(index)
  return {
    stage = "ppo", step = 3, index = index, task = "relu", status = "submitted", reward = 2,
    messages = { { role = "user", content = "make it fast" } },
    tokens = { 5, 6, 7 }, mask = { 0, 1, 1 }, logprobs = { 0, -0.5, -0.25 }, script_hash = "feed",
    turns = { { role = "assistant", text = "hm", tool = "Bash", arguments = { command = "ls" } } },
    verdict = { status = "ok", stage = "time", correct = true, times = { candidate_s = 0.5, eager_s = 1 },
      faster = { eager = true, compile = false } },
  }
end

local spec = {}

function spec.create_makes_a_run_with_its_configuration()
  local run = fresh { name = "smoke", preset = "smoke", seed = 3, config = { ppo = { steps = 6 } } }
  local info = run:info()
  t.expect(info.seed, 3)
  t.expect(info.config.ppo.steps, 6)
  t.expect(info.status, "running")
  run:finish("done")
  t.expect(run:info().status, "done")
  t.raises("'done' or 'failed'", run.finish, run, "over")
  run:close()
end

function spec.append_and_get_return_the_same_trajectory()
  local run = fresh()
  local id = assert(run:append("trajectories", trajectory(1)))
  local got = run:get("trajectories", id)
  t.expect(got.tokens, { 5, 6, 7 })
  t.expect(got.logprobs, { 0, -0.5, -0.25 })
  t.expect(got.messages[1].content, "make it fast")
  t.expect(got.turns[1].arguments.command, "ls")
  t.expect(got.verdict.stage, "time")
  t.expect(got.verdict.faster, { eager = true, compile = false })
  t.expect(run:get("trajectories", id + 1), nil)
end

function spec.query_reads_with_sql()
  local run = fresh()
  assert(run:append("trajectories", trajectory(1)))
  local rows = assert(run:query("SELECT stage, judge_stage, candidate_s FROM verdicts WHERE task = ?", { "relu" }))
  t.expect(rows, { { stage = "ppo", judge_stage = "time", candidate_s = 0.5 } })
  local nothing, message = run:query("DELETE FROM turns")
  t.expect(nothing, nil)
  t.is_true(message:find("reads only", 1, true))
end

function spec.list_each_and_count_take_the_same_query()
  local run = fresh()
  for step = 1, 450 do
    assert(run:metrics("rft", step, { loss = 1 / step }))
  end
  t.expect(run:count("metrics"), 450)
  t.expect(run:count("metrics", { step = 7 }), 1)
  t.expect(#run:list("metrics", { where = { stage = "rft" }, after = 10, limit = 5 }), 5)
  local seen, last = 0, nil
  for id, row in run:each("metrics") do
    seen, last = seen + 1, row
    t.expect(id, seen)
  end
  t.expect(seen, 450)
  t.expect(last.step, 450)
  seen = 0
  for _ in run:each("metrics", { limit = 3 }) do seen = seen + 1 end
  t.expect(seen, 3)
end

function spec.put_replaces_by_key()
  local run = fresh()
  assert(run:put("tasks", "relu", { split = "train", status = "kept" }))
  assert(run:put("tasks", "relu", { split = "test", status = "kept" }))
  t.expect(run:get("tasks", "relu").split, "test")
  t.expect(run:count("tasks"), 1)
  assert(run:put("state", "curriculum", { level = 2 }))
  t.expect(run:get("state", "curriculum"), { level = 2 })
  t.expect(run:get("state", "other"), nil)
  for key, task in run:each("tasks") do
    t.expect(key, "relu")
    t.expect(task.split, "test")
  end
  run:begin_stage("rft")
  local seen = {}
  for name, stage in run:each("stages") do seen[name] = stage.status end
  for key, state in run:each("state") do seen[key] = state.value.level end
  t.expect(seen, { rft = "running", curriculum = 2 })
end

function spec.unknown_kinds_and_columns_name_the_nearest()
  local run = fresh()
  local _, message = run:append("metric", {})
  t.is_true(message:find("did you mean 'metrics'", 1, true))
  t.raises("did you mean 'tasks'", run.get, run, "task", "x")
  _, message = run:list("metrics", { where = { stpe = 1 } })
  t.is_true(message:find("did you mean 'step'", 1, true))
end

function spec.transaction_keeps_all_or_nothing()
  local run = fresh()
  t.expect(run:transaction(function()
    run:append("events", { event = "a" })
    return 1, 2
  end), 1)
  t.raises("on purpose", run.transaction, run, function()
    run:append("events", { event = "b" })
    error("on purpose")
  end)
  t.expect(run:count("events"), 1)
  t.raises("waits", run.transaction, run, function() sched.sleep(0.01) end)
end

function spec.a_resumed_run_knows_its_stages_and_trajectories()
  local run = fresh()
  run:begin_stage("rft")
  run:finish_stage("rft", { kept = 12 })
  run:begin_stage("ppo")
  assert(run:append("trajectories", trajectory(1)))
  assert(run:append("trajectories", trajectory(4)))
  local folder = run:folder()
  local busy, _, code = store.open(folder)
  t.expect(busy, nil)
  t.expect(code, "busy")
  run:close()
  run = assert(store.open(assert(store.find(ROOT))))
  t.expect(run:stage("rft").status, "done")
  t.expect(run:stage("rft").result.kept, 12)
  t.expect(run:stage("ppo").status, "running")
  t.expect(run:stage("value"), nil)
  t.raises("was finished", run.begin_stage, run, "rft")
  local done = run:trajectories("ppo", 3)
  t.expect(done[1].reward, 2)
  t.expect(done[4].index, 4)
  t.expect(done[2], nil)
  local twice, message = run:append("trajectories", trajectory(4))
  t.expect(twice, nil)
  t.is_true(message:find("UNIQUE", 1, true))
  run:close()
end

function spec.a_void_trajectory_gives_way_to_the_one_that_is_played_again()
  local run = fresh()
  local void = trajectory(4)
  void.reward, void.verdict = nil, { status = "void", stage = "task", reason = "env_error" }
  assert(run:append("trajectories", void))
  local id = assert(run:append("trajectories", trajectory(4)))
  t.expect({ run:count("trajectories"), run:count("verdicts"), run:count("turns") }, { 1, 1, 1 })
  t.expect({ run:get("trajectories", id).verdict.status, run:get("trajectories", id).reward }, { "ok", 2 })
  local again, message = run:append("trajectories", trajectory(4))
  t.is_true(not again and message:find("UNIQUE", 1, true), message)
  run:close()
end

function spec.runs_and_find()
  local run = fresh { name = "alpha" }
  t.expect(#store.runs(ROOT), 1)
  t.expect(store.find(ROOT, "alpha"), run:folder())
  local none, message = store.find(ROOT, "beta")
  t.expect(none, nil)
  t.is_true(message:find("no run 'beta'", 1, true))
  run:close()
  local _, _, code = run:append("events", { event = "late" })
  t.expect(code, "gone")
end

return spec
