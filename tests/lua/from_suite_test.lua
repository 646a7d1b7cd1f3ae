-- synthesis.from_suite and suites.pack: any suite becomes the sets of a pipeline, and a pack is known by its machine.
local formats = require "chat.formats"
local from_suite = require "synthesis.from_suite"
local fs = require "khost.fs"
local pack = require "suites.pack"
local t = require "tests.lua.harness"

local WANTED = { test = 2, held_out = 4, validation = 3, validation_timed = 0, train = 4, drill = 12 }

-- Tasks of which two and two are the same chain.
local function suite(count)
  local list = {}
  for index = 1, count do
    list[index] = { name = "n" .. index, source = "source " .. index, hash = "h" .. index,
      origin = { chain = "chain " .. math.ceil(index / 2), depth = 2 } }
  end
  return list
end

local function sizes(sets)
  local list = {}
  for split, tasks in pairs(sets) do
    list[split] = #tasks
  end
  return list
end

local function names(sets)
  local list = {}
  for split, tasks in pairs(sets) do
    list[split] = {}
    for index, task in ipairs(tasks) do
      list[split][index] = task.name
    end
  end
  return list
end

local spec = {}

function spec.a_suite_that_is_large_enough_fills_all_sets_as_wanted()
  local got = sizes(from_suite.deal(suite(80), WANTED, 1))
  t.expect(got, { test = 2, held_out = 4, validation = 4, validation_timed = 0, train = 4, drill = 12 })
end

function spec.evaluation_validation_and_training_share_no_chain()
  local bucket = { test = 1, held_out = 1, validation = 2, validation_timed = 2, train = 3, drill = 3 }
  local seen = {}
  for split, tasks in pairs(from_suite.deal(suite(60), WANTED, 1)) do
    for _, task in ipairs(tasks) do
      t.is_true((seen[task.chain] or bucket[split]) == bucket[split], task.chain .. " stands in two buckets")
      seen[task.chain] = bucket[split]
    end
  end
end

function spec.a_small_suite_gives_every_set_its_share_and_one_at_least()
  local got = sizes(from_suite.deal(suite(12), WANTED, 1))
  for _, split in ipairs { "test", "held_out", "validation", "train", "drill" } do
    t.is_true(got[split] >= 1, split .. " is empty")
  end
  local sum = 0
  for _, count in pairs(got) do
    sum = sum + count
  end
  t.is_true(sum <= 12, "more tasks than the suite has")
end

function spec.the_seed_decides_who_stands_where()
  local first = names(from_suite.deal(suite(80), WANTED, 1))
  t.expect(names(from_suite.deal(suite(80), WANTED, 1)), first)
  t.is_true(table.concat(names(from_suite.deal(suite(80), WANTED, 2)).drill) ~= table.concat(first.drill))
end

function spec.a_suite_that_cannot_be_read_ends_the_stage_with_its_key()
  local run = { seed = 1, config = { tasks = { suite = "/tmp/khost-no-such-suite" }, machine = { target = "cpu" } } }
  t.raises("tasks.suite: /tmp/khost-no-such-suite: no such file", from_suite.sets, run, WANTED)
end

function spec.only_the_small_policies_need_a_traced_graph()
  t.expect({ formats.reads_graphs "scripts/policies/tiny", formats.reads_graphs "", formats.reads_graphs "/tmp" },
    { true, true, false })
end

function spec.a_pack_stands_under_card_and_driver_or_under_the_processor()
  local cpu, card = { processor = "Intel(R) Xeon(R)" }, { processor = "AMD", gpu = "NVIDIA H200, 550.54.15" }
  t.expect(pack.name(cpu, "2.11.0"), "intel-r-xeon-r-torch-2.11.0")
  t.expect(pack.name(card, "2.11.0"), "nvidia-h200-550.54.15-torch-2.11.0")
  -- What all names of a machine begin with is no beginning of another machine's.
  t.expect(pack.name(card), "nvidia-h200-550.54.15-torch-")
  t.is_true(pack.name({ gpu = "NVIDIA H200, 550.54.151" }, "2.11.0"):find(pack.name(card), 1, true) == nil)
  local folder = "/tmp/khost-from-suite-spec"
  fs.remove_tree(folder)
  assert(fs.mkdirs(folder .. "/caches/nvidia-h200-550.54.15-torch-2.11.0"))
  t.expect(pack.caches(folder, "cpu"), nil)
  fs.remove_tree(folder)
end

return spec
