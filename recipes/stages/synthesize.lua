-- Composes tasks for all sets, or takes them from the suite that tasks.suite names: training, test and validation_timed
-- are timed; drill, validation and held-out are verified only. A drill is trained on too: it is small, so that its
-- verdict costs a tenth of a timed one, and its rewards are -1 and 1.
-- Training, validation and evaluation share no chain of operators.
--
-- Departures from the paper: operators come from a table instead of a crawl, composition is random instead of asked of
-- a model, transformers operators are left out.

local corpus = require "policies.corpus"
local from_suite = require "synthesis.from_suite"
local pipeline = require "run.pipeline"
local random = require "lib.random"
local similarity = require "synthesis.similarity"
local tables = require "evaluation.table"

local SETS = {
  { split = "test", set = "test", timed = true },
  { split = "held_out", set = "test", timed = false },
  { split = "validation", set = "validation", timed = false },
  { split = "train", set = "train", timed = true },
  { split = "drill", set = "train", timed = false },
  { split = "validation_timed", set = "validation", timed = true },  -- last: the other sets stay as they are without it
}

local function wanted(c, split)
  return math.ceil(c[split] * c.spare)
end

-- Candidates of one set, no chain twice, none that another set of the same bucket has.
local function compose_set(run, c, kind, taken)
  local stream, list = random.stream(("%d %s"):format(run.seed, kind.split)), {}
  local options = { families = c.families, length = c.length, heavy = kind.timed,
    shapes = kind.timed and c.shapes or c.small_shapes }
  local tries = 0
  while #list < wanted(c, kind.split) and tries < 20000 do
    tries = tries + 1
    local task = corpus.task(stream, kind.set, options)
    if not taken[task.chain] then
      taken[task.chain] = true
      list[#list + 1] = task
    end
  end
  return list
end

-- The candidates of all sets, by split.
local function candidates(run, c)
  if (c.suite or "") ~= "" then
    local wants = {}
    for _, kind in ipairs(SETS) do
      wants[kind.split] = wanted(c, kind.split)
    end
    return from_suite.sets(run, wants)
  end
  local sets, taken = {}, {}
  for _, kind in ipairs(SETS) do
    sets[kind.split] = compose_set(run, c, kind, taken)
  end
  return sets
end

local function greatest_similarity(task, profiles)
  return (similarity.greatest(similarity.profile(task.source), profiles))
end

local stage = { name = "synthesize", summary = "composes the tasks of all sets" }

function stage.execute(run)
  local profiles, count, values, depths = {}, {}, {}, {}
  local sets = candidates(run, run.config.tasks)
  for _, kind in ipairs(SETS) do
    for index, task in ipairs(sets[kind.split]) do
      local id = ("%s-%03d"):format(kind.split, index)
      local alike
      if kind.set == "train" then
        alike = greatest_similarity(task, profiles)
        values[#values + 1] = alike
      elseif kind.set == "test" then
        profiles[#profiles + 1] = similarity.profile(task.source)
      end
      assert(run.store:put("tasks", id, { name = task.name, split = kind.split, status = "composed",
        source = task.source, family = task.family, chain = task.chain, depth = task.depth, timed = kind.timed,
        compile_cache = task.compile_cache, similarity = alike, order = index }))
      count[kind.split] = (count[kind.split] or 0) + 1
      if task.depth then
        depths[task.depth] = (depths[task.depth] or 0) + 1
      end
    end
  end
  local rows, histogram = {}, {}
  for depth = 1, 5 do
    if depths[depth] then
      rows[#rows + 1] = { ("%d-op"):format(depth), tostring(depths[depth]) }
    end
  end
  for bin, n in ipairs(similarity.histogram(values)) do
    histogram[bin] = { ("%.1f to %.1f"):format((bin - 1) / 10, bin / 10), tostring(n) }
  end
  return { counts = count, tables = { tables.counts("Composed", "set", count),
    { title = "Composition (the paper's table 3)", columns = { "operators", "tasks" }, rows = rows },
    { title = "Greatest similarity of training tasks to evaluation tasks (figure 7)",
      columns = { "similarity", "tasks" }, rows = histogram } } }
end

return pipeline.standalone(stage)
