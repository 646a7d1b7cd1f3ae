-- Runs the nodes of a sweep. A node's run lies in a folder that its key names, so the same command continues a sweep
-- that was interrupted or killed, and another sweep with equal stages finds them made.

local args = require "lib.args"
local fs = require "khost.fs"
local log = require "khost.log"
local pipeline = require "run.pipeline"
local store = require "khost.store"

local runner = {}

local SHORT = 16  -- characters of a key in a folder's name

---@param root string
---@param node SweepNode
---@return string
function runner.folder(root, node)
  return ("%s/%s"):format(root, node.key:sub(1, SHORT))
end

-- Who shares a node: "full, no_rft; seeds 1, 2".
local function members(node)
  local names, seeds, seen = {}, {}, {}
  for _, cell in ipairs(node.cells) do
    if not seen[cell.arm] then
      names[#names + 1], seen[cell.arm] = cell.arm, true
    end
    if not seen[cell.seed] then
      seeds[#seeds + 1], seen[cell.seed] = tostring(cell.seed), true
    end
  end
  return ("%s; seed %s"):format(table.concat(names, ", "), table.concat(seeds, ", "))
end
runner.members = members

--- Whether every stage of a node is finished.
---@param root string
---@param node SweepNode
---@return boolean
function runner.finished(root, node)
  local folder = runner.folder(root, node)
  if not fs.exists(folder) then
    return false
  end
  local record = assert(store.open(folder, { read_only = true }))
  local all = true
  for _, name in ipairs(node.stages) do
    local stage = record:stage(name)
    all = all and stage ~= nil and stage.status == "done"
  end
  record:close()
  return all
end

-- Makes the folder of a node: a fork of its parent's run, or an empty run.
local function begin(root, node, info)
  local folder = runner.folder(root, node)
  if fs.exists(folder) then
    return folder
  end
  if node.parent then
    assert(store.fork(runner.folder(root, node.parent), folder, info))
  else
    local empty = assert(store.create(root, info))
    empty:close()
    assert(store.fork(empty:folder(), folder, info))
    assert(fs.remove_tree(empty:folder()))
  end
  return folder
end

--- Runs what is missing of a node.
---@async
---@param root string      folder of the sweep
---@param node SweepNode
---@param options {preset: string, recipe: string, open?: fun(options: table, recipe: string): table}
function runner.run(root, node, options)
  if runner.finished(root, node) then
    log.print(("-- %s: finished before"):format(members(node)))
    return
  end
  if require("training.ranks").launched() then
    args.misuse("a launcher's ranks cannot share a sweep; start it as one process with --set machine.ranks=N")
  end
  log.print(("-- %s: %s"):format(members(node), table.concat(node.stages, ", ")))
  local cell = node.cells[1]
  local folder = begin(root, node, { name = cell.arm, recipe = options.recipe, preset = options.preset,
    seed = cell.seed, config = cell.config, note = { sweep = members(node) } })
  local run = (options.open or pipeline.open)({ preset = options.preset, set = {}, resume = folder,
    ranks = 0 }, options.recipe)
  for _, name in ipairs(node.stages) do
    run:stage(require("recipes.stages." .. name))
  end
  run:close("done")
end

return runner
