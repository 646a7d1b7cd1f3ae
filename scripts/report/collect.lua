-- All that the page of a run shows, as plain data. Figures have one owner each: tables and rates are those of run.runs,
-- verdicts mean what judge.verdict says; what is asked of the store here is asked nowhere else.

local alarms = require "report.alarms"
local config = require "khost.config"
local json = require "khost.json"
local verdicts = require "judge.verdict"
local kernels = require "report.kernels"
local runs = require "run.runs"
local sched = require "khost.sched"
local series = require "report.series"
local terminal = require "khost.terminal"
local trajectories = require "report.trajectories"

local collect = {}

collect.BUDGET = trajectories.BUDGET

--- Texts of strangers, in values and keys, as they may be shown: control characters and marks of direction are written
--- out. Lists stay lists.
---@param value any
---@return any
function collect.plain(value)
  if type(value) == "string" then
    return terminal.plain(value)
  elseif type(value) ~= "table" then
    return value
  end
  local copy = {}
  for key, item in pairs(value) do
    copy[type(key) == "string" and terminal.plain(key) or key] = collect.plain(item)
  end
  return setmetatable(copy, getmetatable(value))
end

local function tables_of(run)
  local list = {}
  for _, source in ipairs { runs.stage_tables(run), runs.tables(run) } do
    for _, tab in ipairs(source) do
      local rows = {}
      for index, row in ipairs(tab.rows) do
        rows[index] = json.list(row)
      end
      list[#list + 1] = { title = tab.title, columns = json.list(tab.columns), rows = json.list(rows) }
    end
  end
  return json.list(list)
end

-- Why something was dropped or ended early: {label, count}, most frequent first.
local DROPS = {
  { title = "Tasks dropped by the filter", empty = "no task was dropped", sql = [[
    SELECT coalesce(nullif(reason, ''), status) AS label, count(*) AS count FROM tasks WHERE status = 'dropped'
    GROUP BY 1 ORDER BY 2 DESC, 1]] },
  { title = "How trajectories ended", empty = "no trajectories", sql = [[
    SELECT coalesce(status, '') AS label, count(*) AS count FROM trajectories GROUP BY 1 ORDER BY 2 DESC, 1]] },
  { title = "Why verdicts were not ok", empty = "every verdict was ok", sql = [[
    SELECT status || CASE WHEN coalesce(reason, '') <> '' THEN ': ' || reason ELSE '' END AS label, status,
    count(*) AS count FROM verdicts WHERE NOT coalesce(correct, 0) GROUP BY 1 ORDER BY 3 DESC, 1]] },
  { title = "Trajectories without a reward", empty = "every trajectory has a reward", sql = [[
    SELECT coalesce(reason, status, '') AS label, count(*) AS count FROM trajectories WHERE reward IS NULL
    GROUP BY 1 ORDER BY 2 DESC, 1]] },
}
local MOST_REASONS = 12

local function drops_of(run)
  local list = {}
  for index, definition in ipairs(DROPS) do
    local rows, rest = {}, 0
    for place, row in ipairs(assert(run:query(definition.sql))) do
      rows[place] = place <= MOST_REASONS and row or nil
      rest = rest + (place > MOST_REASONS and row.count or 0)
    end
    if rest > 0 then
      rows[#rows + 1] = { label = "other reasons", count = rest }
    end
    list[index] = { title = definition.title, empty = definition.empty, rows = json.list(rows) }
  end
  return json.list(list)
end

local function statuses()
  local words, meaning = {}, {}
  for index, row in ipairs(verdicts.STATUSES) do
    words[index] = row.word
    meaning[row.word] = { fault = row.fault, counts = row.counts, sentence = row.sentence }
  end
  return words, meaning
end

-- Sources of the tasks that kernels and trajectories of the page belong to.
local function sources_of(run, lists)
  local sources = {}
  for _, list in ipairs(lists) do
    for _, item in ipairs(list) do
      if item.task and not sources[item.task] then
        local task = run:get("tasks", item.task)
        sources[item.task] = task and task.source or nil
      end
    end
  end
  return sources
end

local function examples(watch, picked)
  local ids = {}
  for _, list in ipairs { watch, picked.best, picked.worst, picked.wrong } do
    for _, item in ipairs(list) do
      ids[#ids + 1] = item.trajectory
    end
  end
  return ids
end

--- The data of one run. Between its parts others get their turn: a store of a hundred thousand trajectories takes a
--- second.
---@async
---@param run khost.Store
---@param options? {budget?: integer}   bytes of trajectories
---@return table
function collect.run(run, options)
  local info, words, meaning = run:info(), statuses()
  local function part(fn, ...)
    sched.sleep(0)
    return fn(...)
  end
  local watch, picked = part(alarms.of, run), part(kernels.of, run)
  local sample = part(trajectories.sample, run, examples(watch, picked), options and options.budget)
  local totals = assert(run:query [[SELECT (SELECT count(*) FROM trajectories) AS trajectories,
    (SELECT sum(token_count) FROM trajectories) AS tokens, (SELECT count(*) FROM verdicts) AS verdicts,
    (SELECT sum(correct) FROM verdicts) AS correct, (SELECT count(*) FROM tasks WHERE status = 'kept') AS tasks,
    (SELECT max(coalesce(speedup_compile, speedup_eager)) FROM verdicts WHERE correct = 1) AS speedup]])[1]
  return collect.plain { id = info.id, folder = run:folder(), recipe = info.recipe, preset = info.preset,
    seed = info.seed and runs.number(info.seed), status = info.status, started_s = info.started_s,
    finished_s = info.finished_s, totals = totals, stages = json.list(runs.stages(run)),
    curves = part(series.curves, run), rewards = part(series.rewards, run),
    statuses = part(series.statuses, run, words), meaning = meaning, alarms = watch,
    drops = part(drops_of, run), kernels = picked, trajectories = sample,
    sources = sources_of(run, { picked.best, picked.worst, picked.wrong, sample.list }), tables = part(tables_of, run),
    config = config.show(info.config or {}) }
end

return collect
