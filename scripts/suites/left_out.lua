-- What a suite holds beside its tasks. Nothing is left out in silence: each item is named with the reason, and all are
-- counted.

local log = require "khost.log"

local left_out = {}

local MOST_NAMED = 20  -- on the screen; the log has all

local List = {}
List.__index = List

--- An empty list for a suite.
---@param suite string   its path, for messages
---@return table
function left_out.new(suite)
  return setmetatable({ suite = suite, items = {} }, List)
end

--- Notes an item.
---@param item string    a file, or a record by its file and line
---@param reason string
function List:add(item, reason)
  self.items[#self.items + 1] = { item = item, reason = reason }
end

--- Says what was left out: each item with its reason, and how many there are of how many.
---@param tasks integer   that were read
function List:tell(tasks)
  for index, one in ipairs(self.items) do
    if index <= MOST_NAMED then
      log.print(("%s is left out: %s"):format(one.item, one.reason))
    else
      log.info("suite_item_left_out", { suite = self.suite, item = one.item, reason = one.reason })
    end
  end
  if #self.items > MOST_NAMED then
    log.print(("… and %d more, which the log names"):format(#self.items - MOST_NAMED))
  end
  if #self.items > 0 then
    log.print(("%s: %d tasks, %d items left out"):format(self.suite, tasks, #self.items))
  end
end

return left_out
