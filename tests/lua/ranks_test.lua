-- A pipeline whose updates several processes share (training.ranks): real processes on the CPU, a toy's numbers.
local config = require "khost.config"
local fs = require "khost.fs"
local machine = require "khost.machine"
local plan = require "run.plan"
local sched = require "khost.sched"
local store = require "khost.store"
local t = require "tests.lua.harness"

require "khost.trainer"  -- a build without it skips these tests

local SETTINGS = { "machine.threads=2", "tasks.length=[1, 2]", "tasks.drill=2", "tasks.eager_ms=[0.0, 1000.0]",
  "tasks.similarity=1.1", "single_turn.answer_tokens=160", "collect.answer_tokens=160", "agentic.answer_tokens=160",
  "supervised.steps=2", "supervised.tasks=3", "supervised.batch=6", "supervised.look_from=2",
  "supervised.band=[1.5, 2.0]", "single_turn.steps=2", "agentic.steps=1", "ppo.minibatch=5", "ppo.kl=0.01",
  "ppo.pack_tokens=1024" }
local MADE = { "supervised/actor", "single_turn/actor", "rft/actor", "value/critic", "agentic/actor" }

local spec = {}

local function in_folder(fn)
  local root = "/tmp/khost-ranks-" .. fs.sha256(tostring(sched.wall_clock())):sub(1, 12)
  local ok, message = pcall(fn, root)
  fs.remove_tree(root)
  if not ok then error(message, 0) end
end

-- Runs the driver to its end: its code and what it said.
local function drive(root, ...)
  local argv = { fs.build_dir() .. "/khost", fs.root() .. "/tests/lua/ranks_run.lua", ... }
  for _, word in ipairs { "--preset", "mini", "--seed", "2", "--set", "machine.runs=" .. root } do
    argv[#argv + 1] = word
  end
  for _, setting in ipairs(SETTINGS) do
    argv[#argv + 1] = "--set"
    argv[#argv + 1] = setting
  end
  local ran = assert(machine.run(argv, { timeout_s = 120, output_bytes = 1e6 }))
  return ran.code, ran.output
end

local function run_of(root)
  return assert(store.find(root))
end

-- The numbers of a model's file, as they come.
local function weights(folder, name)
  local text = assert(fs.read(("%s/checkpoints/%s/model.safetensors"):format(folder, name)))
  local a, b, c = text:byte(1, 3)
  local list = {}
  for at = 9 + a + 256 * b + 65536 * c, #text, 4 do
    local low, middle, high, top = text:byte(at, at + 3)
    local exponent = (top % 128) * 2 + math.floor(high / 128)
    local fraction = ((high % 128) * 256 + middle) * 256 + low
    local size = exponent == 0 and fraction * 2 ^ -149 or (1 + fraction * 2 ^ -23) * 2 ^ (exponent - 127)
    list[#list + 1] = top < 128 and size or -size
  end
  return list
end

-- The root of the sum of squared differences, by that of the squares.
local function distance(a, b)
  t.expect(#a, #b)
  local apart, whole = 0, 0
  for index, value in ipairs(a) do
    apart, whole = apart + (value - b[index]) ^ 2, whole + value ^ 2
  end
  return math.sqrt(apart / whole)
end

local function all_weights(folder, names)
  local list = {}
  for _, name in ipairs(names) do list[name] = weights(folder, name) end
  return list
end

-- What a store says of the stages, by step, without times and what counts the loads of a resumed run.
local function metrics_of(folder)
  local run, list = assert(store.open(folder, { read_only = true })), {}
  for _, row in ipairs(run:query "SELECT stage, step, name, value FROM metrics") do
    if not (row.name:find "_s$" or row.name:find "seconds" or row.name:find "version") then
      list[("%s %d %s"):format(row.stage, row.step, row.name)] = row.value
    end
  end
  run:close()
  return list
end

local APART = 1e-5  -- what the order of sums may move weights by, as a share of them; a rate that is 1 % off moves them more

local function expect_close(before, after)
  for name, list in pairs(before) do
    local apart = distance(list, after[name])
    t.is_true(apart < APART, ("%s: %g apart"):format(name, apart))
  end
end

function spec.two_ranks_make_the_weights_again_that_one_made()
  in_folder(function(root)
    local code, said = drive(root, "agentic", "nobody", "--ranks", "1")
    t.is_true(code == 0, said)
    local folder = run_of(root)
    local before = all_weights(folder, MADE)
    for _, name in ipairs(MADE) do
      fs.remove_tree(folder .. "/checkpoints/" .. name:match "^[^/]+")
    end
    -- Nothing is played: updates alone are made again, from the store.
    code, said = drive(root, "agentic", "nobody", "--resume", "--ranks", "2")
    t.is_true(code == 3 and said:find("2 ranks share each update", 1, true), said)
    expect_close(before, all_weights(folder, MADE))
  end)
end

function spec.ranks_end_with_each_other_and_resume_reaches_what_one_rank_does()
  in_folder(function(root)
    -- Rank 0 is killed: the other ends by itself.
    local code, said = drive(root .. "/two", "single_turn", "itself", "--ranks", "2")
    t.is_true(code == 128 + 9, said)
    local process = "/proc/" .. assert(fs.read(run_of(root .. "/two") .. "/process")):match "%d+"
    t.eventually(function()  -- as a zombie too: not every process that inherits it looks after it
      return not fs.exists(process) or (fs.read(process .. "/status") or "Z (zombie)"):find("Z (zombie)", 1, true)
    end, 5)
    -- Another is killed: the run ends by its name.
    code, said = drive(root .. "/two", "single_turn", "rank", "--resume")
    t.is_true(code == 1 and said:find("rank 1 of 2 was killed by signal 9", 1, true), said)
    code, said = drive(root .. "/two", "single_turn", "nobody", "--resume")
    t.is_true(code == 0 and said:find("2 ranks share each update", 1, true), said)
    code, said = drive(root .. "/one", "single_turn", "nobody", "--ranks", "1")
    t.is_true(code == 0, said)
    local one, two, count = metrics_of(run_of(root .. "/one")), metrics_of(run_of(root .. "/two")), 0
    for name, value in pairs(one) do
      local other = two[name] or 0 / 0
      t.is_true(math.abs(value - other) <= 1e-3 * math.max(1, math.abs(value)), ("%s: one rank %g, two %g"):format(name,
        value, other))
      count = count + 1
    end
    t.is_true(count > 100, count)
    local made = { "supervised/actor", "single_turn/actor" }
    expect_close(all_weights(run_of(root .. "/one"), made), all_weights(run_of(root .. "/two"), made))
  end)
end

function spec.a_plan_says_how_many_ranks_share_an_update()
  local c = config.plain(assert(config.load { preset = "mini", set = { "machine.ranks=3" } }))
  t.is_true(plan.text(c):find("3 share each update", 1, true))
  c.machine.ranks = 1
  t.is_true(not plan.text(c):find("share each update", 1, true))
end

return spec
