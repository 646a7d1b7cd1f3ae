-- Files that somebody may replace while a run reads them. An editor or a checkout takes a file away for a moment; a run
-- of an hour must not end by that, so what was read before still holds.

local log = require "khost.log"

local steady = {}

local seen = {}  -- what was read of each path last

--- What `read(path)` returns, or what it returned last time where it fails. Raises its message where it never
--- succeeded.
---@generic T
---@param path string
---@param read fun(path: string): T|nil, string?
---@return T
function steady.read(path, read)
  local found, message = read(path)
  if found then
    seen[path] = found
  elseif seen[path] then
    log.warn("file_is_being_changed", { path = path, why = message, remedy = "none: what was read before is used" })
  end
  return seen[path] or error(message, 0)
end

return steady
