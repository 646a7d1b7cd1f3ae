-- A sweep from its options to its table: plan, nodes, results.

local args = require "lib.args"
local config = require "khost.config"
local csv = require "evaluation.csv"
local fs = require "khost.fs"
local log = require "khost.log"
local outcome = require "sweep.outcome"
local plan = require "run.plan"
local runner = require "sweep.runner"
local store = require "khost.store"
local tables = require "evaluation.table"
local tree = require "sweep.tree"

local sweep = {}

-- The report of a run is no part of a sweep: its page can be made of any node at any time.
sweep.STAGES = { "synthesize", "filter", "base", "supervised", "single_turn", "collect", "rft", "value", "agentic",
  "evaluate" }

local OPTIONS = {
  { name = "--preset", kind = "text", default = "smoke", help = "numbers of every arm: recipes/presets/NAME.toml" },
  { name = "--set", kind = "list", help = "override a key in every arm: --set agentic.steps=2" },
  { name = "--seeds", kind = "text", default = "1,2,3", help = "of every arm" },
  { name = "--until", kind = "text", default = "evaluate",
    help = "last stage of every arm; before evaluate the stage's curves are compared" },
  { name = "--out", kind = "text", help = "folder of the sweep (default: sweeps/PRESET beside the runs)" },
  { name = "--plan", kind = "flag", help = "print what is shared and how long it takes, and run nothing" },
}

--- A recipe's own options and those that every sweep has.
---@param own table[]
---@return table[]
function sweep.options(own)
  local list = { unpack(own) }
  for _, option in ipairs(OPTIONS) do
    list[#list + 1] = option
  end
  return list
end

-- The stages up to the one that `--until` names.
local function stages_until(last)
  local list = {}
  for index, name in ipairs(sweep.STAGES) do
    list[index] = name
    if name == last then
      return list
    end
  end
  args.misuse(("--until %s: known are %s"):format(last, table.concat(sweep.STAGES, ", ")))
end

local function seeds_of(text)
  local list, seen = {}, {}
  for word in (text .. ","):gmatch("([^,]*),") do
    local seed = tonumber(word)
    if not seed or seed ~= math.floor(seed) or seen[seed] then
      args.misuse(("--seeds %s: expected different whole numbers, for example 1,2,3"):format(text))
    end
    list[#list + 1], seen[seed] = seed, true
  end
  return list
end

-- All cells of the sweep. Every arm's configuration is merged before anything runs: a key with a typing mistake in the
-- last arm should not cost the time of the others.
local function cells_of(list, seeds, stages, options)
  local cells, sources = {}, tree.sources()
  for _, arm in ipairs(list) do
    local set = { unpack(options.set) }
    for _, one in ipairs(arm.set) do
      set[#set + 1] = one
    end
    local merged, message = config.load { preset = options.preset, set = set }
    if not merged then
      args.misuse(message)
    end
    for _, seed in ipairs(seeds) do
      local plain = config.plain(merged)
      cells[#cells + 1] = { arm = arm.name, seed = seed, config = plain,
        keys = tree.keys(plain, seed, stages, sources) }
    end
  end
  return cells
end

local function folder_of(options, any)
  local out = options.out
  if not out then
    local root = any.machine.runs
    root = root:sub(1, 1) == "/" and root or fs.root() .. "/" .. root
    out = ("%s/sweeps/%s"):format(root, options.preset:match("([^/]+)$"):gsub("%.toml$", ""))
  end
  assert(fs.mkdirs(out))
  return assert(fs.absolute(out))
end

local function seconds_of(node)
  local sum = 0
  for _, name in ipairs(node.stages) do
    sum = sum + plan.stage(node.cells[1].config, name).seconds
  end
  return sum
end

local function plan_text(root, nodes)
  local rows, alone, together = {}, 0, 0
  for index, node in ipairs(nodes) do
    local seconds, finished = seconds_of(node), runner.finished(root, node)
    alone, together = alone + seconds * #node.cells, together + (finished and 0 or seconds)
    rows[index] = { runner.members(node), table.concat(node.stages, " "), ("%.1f"):format(seconds / 60),
      finished and "finished" or "" }
  end
  return tables.text({ "arms", "stages", "minutes", "" }, rows)
    .. ("\n\n%.0f minutes are left; without sharing the whole would take %.0f"):format(together / 60, alone / 60)
end

-- What the last stage that was asked for left: a curve, of which the numbers that a step is known by are shown.
local CURVE = { "step", "reward", "pass_rate", "distinct", "entropy", "validation_pass" }

local function curves(root, nodes, last)
  local rows = {}
  for _, node in ipairs(nodes) do
    if node.stages[#node.stages] == last then
      local record = assert(store.open(runner.folder(root, node), { read_only = true }))
      local stage = record:stage(last)
      for _, facts in ipairs(stage and stage.result and stage.result.curve or {}) do
        local row = { runner.members(node) }
        for index, name in ipairs(CURVE) do
          local value = facts[name]
          row[index + 1] = value and (name == "step" and ("%d"):format(value) or ("%.3f"):format(value)) or "-"
        end
        rows[#rows + 1] = row
      end
      record:close()
    end
  end
  return tables.text({ "arm", unpack(CURVE) }, rows)
end

-- The table of all arms, from the runs of their last nodes.
local function results(root, list, nodes)
  local rows_of, seeds, names, records = {}, {}, {}, {}
  for index, arm in ipairs(list) do
    names[index], rows_of[arm.name], seeds[arm.name] = arm.name, {}, 0
  end
  for _, node in ipairs(nodes) do
    if node.stages[#node.stages] == sweep.STAGES[#sweep.STAGES] then
      for _, cell in ipairs(node.cells) do
        seeds[cell.arm] = seeds[cell.arm] + 1
        for _, row in ipairs(outcome.of_run(runner.folder(root, node), cell.seed)) do
          table.insert(rows_of[cell.arm], row)
          records[#records + 1] = { arm = cell.arm, seed = cell.seed, task = row.task, timed = row.timed and 1 or 0,
            pass = row.pass, reward = row.reward, status = row.verdict.status, run = runner.folder(root, node) }
        end
      end
    end
  end
  return outcome.rows(names, rows_of, seeds), records
end

--- Runs a sweep, or prints its plan. Returns the exit code.
---@async
---@param list Arm[]
---@param options table   what args.parse made of sweep.options
---@param recipe string
---@param open? fun(options: table, recipe: string): table   pipeline.open when absent
---@return integer
function sweep.run(list, options, recipe, open)
  local stages = stages_until(options["until"] or sweep.STAGES[#sweep.STAGES])
  local cells = cells_of(list, seeds_of(options.seeds), stages, options)
  local root, nodes = folder_of(options, cells[1].config), tree.nodes(cells, stages)
  log.print(plan_text(root, nodes))
  if options.plan then
    return 0
  end
  local hold, message = fs.hold(root .. "/sweep.lock")
  if not hold then
    args.misuse(message)
  end
  local ok, problem = pcall(function()
    for _, node in ipairs(nodes) do
      runner.run(root, node, { preset = options.preset, recipe = recipe, open = open })
    end
  end)
  hold:release()
  if not ok then
    error(problem, 0)
  end
  local last = stages[#stages]
  if last ~= sweep.STAGES[#sweep.STAGES] then
    local text = curves(root, nodes, last)
    assert(fs.write(root .. "/curves.txt", text .. "\n"))
    log.print(("\n%s\n\n%s/curves.txt"):format(text, root))
    return 0
  end
  local rows, records = results(root, list, nodes)
  local text = tables.text(outcome.COLUMNS, rows)
  assert(fs.write(root .. "/table.txt", text .. "\n"))
  assert(fs.write(root .. "/answers.csv",
    csv.text({ "arm", "seed", "task", "timed", "status", "pass", "reward", "run" }, records)))
  log.print(("\n%s\n\n%s/table.txt, %s/answers.csv"):format(text, root, root))
  return 0
end

return sweep
