-- Sweeps: arms, what they share, and that a killed sweep continues.
local arms = require "sweep.arms"
local config = require "khost.config"
local fs = require "khost.fs"
local outcome = require "sweep.outcome"
local runner = require "sweep.runner"
local store = require "khost.store"
local sweep = require "sweep.sweep"
local t = require "tests.lua.harness"
local tree = require "sweep.tree"

local STAGES = sweep.STAGES

local function configuration(set)
  return config.plain(assert(config.load { preset = "mini", set = set or {} }))
end

local function cell(arm, seed, set)
  local c = configuration(set)
  return { arm = arm, seed = seed, config = c, keys = tree.keys(c, seed, STAGES, "scripts") }
end

-- The first stage that two cells do not share.
local function parts_at(a, b)
  for at, name in ipairs(STAGES) do
    if a.keys[at] ~= b.keys[at] then
      return name
    end
  end
end

local spec = {}

function spec.sweeps_make_an_arm_of_every_combination()
  local list = assert(arms.of_sweeps { "ppo.actor_lr=1e-6,3e-6", "tasks.length=[1,2],[3,4]" })
  local names = {}
  for index, arm in ipairs(list) do
    names[index] = arm.name
  end
  t.expect(names, { "ppo.actor_lr=1e-6 tasks.length=[1,2]", "ppo.actor_lr=1e-6 tasks.length=[3,4]",
    "ppo.actor_lr=3e-6 tasks.length=[1,2]", "ppo.actor_lr=3e-6 tasks.length=[3,4]" })
  t.expect(list[4].set, { "ppo.actor_lr=3e-6", "tasks.length=[3,4]" })
  local none, message = arms.of_sweeps { "ppo.actor_lr" }
  t.expect(none, nil)
  t.is_true(message:find("expected KEY=VALUE", 1, true), message)
end

function spec.arms_of_table_2_have_legal_keys_and_are_chosen_by_name()
  for _, arm in ipairs(arms.TABLE2) do
    t.is_true(config.load { preset = "mini", set = arm.set }, arm.name)
  end
  local list = assert(arms.named { "no_rft", "full" })
  t.expect({ list[1].name, list[2].name, #list }, { "full", "no_rft", 2 })
  t.is_true(select(2, arms.named { "no_rtf" }):find("known are full, no_agent_loop", 1, true))
end

function spec.arms_share_stages_until_the_first_one_that_reads_what_differs()
  local full = cell("full", 1)
  t.expect(parts_at(full, cell("again", 1)), nil)
  t.expect(parts_at(full, cell("full", 2)), "synthesize")
  t.expect(parts_at(full, cell("no_rft", 1, { "rft.epochs=0" })), "rft")
  t.expect(parts_at(full, cell("no_value", 1, { "value.epochs=0" })), "value")
  t.expect(parts_at(full, cell("loop", 1, { "collect.turns=1", "agentic.turns=1" })), "collect")
  t.expect(parts_at(full, cell("reward", 1, { "reward.scheme=speedup" })), "base")
  t.expect(parts_at(full, cell("lr", 1, { "ppo.actor_lr=1e-6" })), "single_turn")
  t.expect(parts_at(full, cell("temperature", 1, { "ppo.temperature=0.7" })), "base")
  -- A section that no list names counts from the first stage on; costs of the plan never count.
  t.expect(parts_at(full, cell("slots", 1, { "model.tokens=700" })), "synthesize")
  t.expect(parts_at(full, cell("plan", 1, { "plan.verify_s=7.0" })), nil)
  local other = tree.keys(full.config, 1, STAGES, "other scripts")
  t.is_true(other[1] ~= full.keys[1], "changed scripts share nothing")
end

-- A stage must not read a section or a key before the stage that FIRST_USE names.
function spec.no_stage_reads_a_section_before_its_first_use()
  local place = {}
  for at, name in ipairs(STAGES) do
    place[name] = at
  end
  local function check(path, reads_at)
    local text = assert(fs.read(fs.root() .. path))
    for section, key in text:gmatch("run%.config%.([%w_]+)%.?([%w_]*)") do
      local first = tree.first_use(section, key)
      t.is_true(not first or place[first] <= reads_at, ("%s reads [%s] %s before %s"):format(path, section, key,
        tostring(first)))
    end
  end
  for at, name in ipairs(STAGES) do
    check("/recipes/stages/" .. name .. ".lua", at)
  end
  -- Modules that several stages use; [ppo] as a whole is read where PPO runs.
  for _, name in ipairs(assert(fs.list(fs.root() .. "/scripts/training"))) do
    check("/scripts/training/" .. name, name == "ppo.lua" and place.single_turn or place.base)
  end
end

function spec.nodes_are_maximal_and_parents_come_first()
  local cells = { cell("full", 1), cell("no_rft", 1, { "rft.epochs=0" }),
    cell("no_value", 1, { "value.epochs=0" }) }
  local nodes = tree.nodes(cells, STAGES)
  local seen = {}
  for index, node in ipairs(nodes) do
    seen[index] = runner.members(node) .. ": " .. table.concat(node.stages, " ")
  end
  t.expect(seen, { "full, no_rft, no_value; seed 1: synthesize filter base supervised single_turn collect",
    "full, no_value; seed 1: rft", "full; seed 1: value agentic evaluate", "no_value; seed 1: value agentic evaluate",
    "no_rft; seed 1: rft value agentic evaluate" })
  t.expect({ nodes[2].parent, nodes[3].parent, nodes[5].parent }, { nodes[1], nodes[2], nodes[1] })
end

-- A run whose stages only write down that they ran.
local function fake(journal, stop_at)
  return function(options)
    local record = assert(store.open(options.resume))
    local run = { store = record }
    function run.stage(_, stage)
      local known = record:stage(stage.name)
      if known and known.status == "done" then
        return
      end
      journal[#journal + 1] = stage.name
      if #journal == stop_at then
        record:close()
        error("killed", 0)
      end
      record:begin_stage(stage.name)
      record:finish_stage(stage.name, { epochs = record:info().config.rft.epochs })
    end
    function run.close()
      record:finish("done")
      record:close()
    end
    return run
  end
end

function spec.a_killed_sweep_continues_and_makes_no_stage_twice()
  local out = fs.root() .. "/runs/.sweep-test"
  fs.remove_tree(out)
  local list = assert(arms.named { "full", "no_rft" })
  local options = { preset = "mini", set = {}, seeds = "1", out = out }
  local journal = {}
  for _, stop_at in ipairs { 3, 9 } do
    local ok, message = pcall(sweep.run, list, options, "test", fake(journal, stop_at))
    t.expect({ ok, message }, { false, "killed" })
  end
  t.expect(sweep.run(list, options, "test", fake(journal)), 0)
  local counts = {}
  for _, name in ipairs(journal) do
    counts[name] = (counts[name] or 0) + 1
  end
  -- Once each in the shared node (and once more for the one that was killed), twice behind the branch.
  t.expect({ counts.synthesize, counts.base, counts.collect, counts.rft, counts.evaluate }, { 1, 2, 1, 2, 2 })
  local before = #journal
  t.expect(sweep.run(list, options, "test", fake(journal)), 0)
  t.expect(#journal, before)
  t.is_true(fs.read(out .. "/table.txt"):find("no_rft", 1, true))
  fs.remove_tree(out)
end

function spec.every_arm_is_scored_by_the_milestones_and_compared_task_by_task()
  local function row(task, faster)
    return { task = task, pass = 1, timed = task == "b", reward = faster and 3 or 1, verdict = { status = "ok", speed = "measured",
      faster = { eager = faster, compile = faster }, speedup = { eager = faster and 2 or 1, compile = faster and 2 or 1 } } }
  end
  local rows = outcome.rows({ "full", "none" }, { full = { row("a", true), row("b", true) },
    none = { row("a", false), row("b", true) } }, { full = 1, none = 1 })
  t.expect({ rows[1][4], rows[1][5], rows[1][11], rows[1][12] }, { "1.000", "+3.000", "-", "-" })
  t.expect({ rows[2][5], rows[2][6], rows[2][8] }, { "+2.000", "+3.000", "0.500" })
  t.is_true(rows[2][11]:find("-1.000 [-2.000, +0.000]", 1, true), rows[2][11])
  t.expect(rows[2][12], "+0.000 [+0.000, +0.000]")
end

return spec
