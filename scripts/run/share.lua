-- Whether a run shares its updates with other ranks (training.ranks), and with how many. Recipes that train nothing
-- have no option `ranks`: they load no trainer for it and stay alone.

local args = require "lib.args"

local share = {}

--- Before there is a store: of several ranks that a launcher started only the first comes back.
---@async
---@param options table   of a recipe
---@param c table         merged configuration
function share.join(options, c)
  local ranks = options.ranks and require "training.ranks"
  if not ranks then
    return
  end
  local problem = not options.resume and ranks.problem(c.machine.ranks, c.machine.device)
  if problem then
    args.misuse(problem)
  end
  ranks.join(options.ranks)
end

--- The ranks of a run, which have shared an update of a toy before anything is played; nil where it trains alone.
---@async
---@param options table
---@param machine table   [machine] of the run, which may be older than the key `ranks`
---@return table|nil
function share.start(options, machine)
  if not options.ranks then
    return nil
  end
  local count = options.ranks > 0 and options.ranks or machine.ranks or 1
  local group = require("training.ranks").start(count, machine.device)
  if group then
    group:guard(require("training.trainer").rehearse, machine.device)
  end
  return group
end

return share
