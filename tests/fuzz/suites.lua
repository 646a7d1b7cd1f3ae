-- Fuzzes the readers of suites and of published solutions: JSON lines as data sets are released, put together of their
-- fields with values of every type, then broken; also as the record of a solution. They may refuse a file by its name
-- and place; they may not raise, take long, or make a task without a text, or two of one id. The lines about ids that
-- were given again are the reader's own.
--
--   ./khost tests/fuzz/suites.lua [--seconds 300] [--seed 1] [--only N]
local args = require "lib.args"
local fs = require "khost.fs"
local json = require "khost.json"
local left_out = require "suites.left_out"
local log = require "khost.log"
local mutate = require "tests.fuzz.mutate"
local published = require "suites.published"
local records = require "suites.records"
local sched = require "khost.sched"

local OPTIONS = {
  { name = "--seconds", kind = "number", default = 300, help = "how long" },
  { name = "--seed", kind = "number", default = 1, help = "of all inputs" },
  { name = "--only", kind = "number", help = "this input only" },
}
local ABOUT = { name = "tests/fuzz/suites.lua", summary = "fuzzes the readers of suites and published solutions" }

local FIELDS = { "source", "code", "pytorch_code", "ref_code", "custom_code", "id", "task_id", "name", "uuid",
  "problem_id", "level", "level_id", "speedup", "score_default", "correct", "runtime", "runtime_stats", "x", "" }
local VALUES = { '"class Model: pass"', '"class Model: pass"', '"class Model: pass"', "1", "2", '"level2"', '"L2"', "null",
  "NaN", "-Infinity", "Infinity", "1e400", "12345678901234567890", '""', '" "', "true", "[]", "{}", '{"mean": 3}',
  '"a\\nb"', '"\\u0000"', '"../x"', '"NaN"', '"\\\\"', "[[[[1]]]]", "0.5", "-1", '"task-00001"', '"1"', '"1-2"' }
local BREAKS = { "\n", "\r\n", "\n\n", "\n \n", ",\n", "\239\187\191", "\255\254", "[", "]" }

local function record(random)
  local parts = {}
  for index = 1, random:integer(0, 6) do
    local value = mutate.piece(random, VALUES)
    if random:number() < 0.01 then
      local levels = random:integer(30, 400)
      value = ("["):rep(levels) .. ("]"):rep(levels)
    end
    parts[index] = ('"%s": %s'):format(mutate.piece(random, FIELDS), value)
  end
  return "{" .. table.concat(parts, ", ") .. "}"
end

local function text_of(random)
  local parts = {}
  for index = 1, random:integer(1, 8) do
    parts[index] = record(random) .. mutate.piece(random, BREAKS)
  end
  return mutate.broken(random, table.concat(parts), random:number() < 0.6 and 0 or 3)
end

local function check_tasks(tasks, message)
  if not tasks then
    assert(type(message) == "string" and message:find("fuzz.jsonl", 1, true), "the file is not named: " .. tostring(message))
    return
  end
  local seen = {}
  for _, task in ipairs(tasks) do
    assert(type(task.id) == "string" and task.id ~= "" and not seen[task.id], "an id that stands twice: " .. tostring(task.id))
    seen[task.id] = true
    assert(type(task.source) == "string" and task.source:find("%S") and task.hash == fs.sha256(task.source), "no text")
    assert(task.level == nil or task.level == math.floor(task.level), "a level that is none")
    assert(type(task.name) == "string", "no name")
    json.encode(task)  -- as `suite pack` and a run's store write it
  end
end

local function check_solutions(found, message)
  if not found then
    assert(type(message) == "string", "a failure without a word")
    return
  end
  for _, one in ipairs(found) do
    assert(type(one.text) == "string" and type(one.task.source) == "string" and type(one.name) == "string", "half a solution")
    for _, claim in ipairs { one.claimed.eager or 1, one.claimed.compile or 1, one.claimed.candidate_s or 1 } do
      assert(claim > 0 and claim < math.huge, "a claim that is none")
    end
  end
end

local function run(list)
  local options = args.parse(OPTIONS, list, ABOUT)
  log.open { level = "error" }
  local folder = "/tmp/khost-fuzz-" .. fs.sha256(tostring(sched.wall_clock())):sub(1, 12)
  assert(fs.mkdirs(folder))
  local path = folder .. "/fuzz.jsonl"
  local failures = mutate.run("suites", options, function(random, index)
    local begin, text = sched.now(), text_of(random)
    check_tasks(records.read({ { text = text, name = path } }, left_out.new(path)))
    if index % 20 == 0 then
      assert(fs.write(path, text))
      check_solutions(published.read(path, nil, left_out.new(path)))
    end
    assert(sched.now() - begin < 2, "it took long")
  end)
  fs.remove_tree(folder)
  return failures > 0 and 1 or 0
end

return { name = ABOUT.name, summary = ABOUT.summary, options = OPTIONS, run = run }
