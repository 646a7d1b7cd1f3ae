-- The folder of what khost downloads or builds once for all checkouts; as sandbox/abi has it for artefacts.
local fs = require "khost.fs"

local cache = {}

--- A part of $XDG_CACHE_HOME/khost, or of ~/.cache/khost; the folder itself without a part. Need not exist.
---@param part? string
---@return string
function cache.folder(part)
  local base = fs.env("XDG_CACHE_HOME") or (fs.env("HOME") or "/tmp") .. "/.cache"
  return base .. "/khost" .. (part and "/" .. part or "")
end

return cache
