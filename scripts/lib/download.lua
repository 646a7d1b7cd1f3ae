-- Files of known size and SHA-256 from a web server: what came stays when the connection is cut, and the next attempt
-- goes on behind it, in this run or in a later one.

local fs = require "khost.fs"
local http = require "khost.http"
local log = require "khost.log"
local progress = require "khost.progress"
local sched = require "khost.sched"

local download = {}

local MOST_REDIRECTS = 5
local MOST_ATTEMPTS = 5      -- without a new byte, one after the other
local LONGEST_WAIT_S = 60
local MEGABYTE = 1e6

local function megabytes(bytes) return ("%.1f MB"):format(bytes / MEGABYTE) end

local function size_of(path) return fs.exists(path) == "file" and fs.size(path) or 0 end

-- The address that a redirect names. Another host's plain http is no answer to https.
local function redirected(url, location)
  if location:find("^https?://") then
    return not (url:find("^https:") and location:find("^http:")) and location or nil
  end
  local host = url:match("^(https?://[^/?#]+)")
  return location:sub(1, 1) == "/" and host .. location or nil
end

-- One request for what is missing, through redirects. The answer and the address that gave it.
local function request(wanted, part)
  local url = wanted.url
  for _ = 0, MOST_REDIRECTS do
    local have = size_of(part)
    local answer, message, code = http.request { url = url, into = part, most_bytes = wanted.bytes, idle_s = 60,
      connect_s = 30, timeout_s = 86400, headers = have > 0 and { Range = ("bytes=%d-"):format(have) } or nil }
    if not answer then return nil, message, code end
    local location = answer.status >= 301 and answer.status <= 308 and answer.headers.location
    if not location then return answer, url end
    local next_url = redirected(url, location)
    if not next_url then
      return nil, ("%s redirects to '%s', which is not followed"):format(url, location), "refused"
    end
    url = next_url
  end
  return nil, ("%s redirects more than %d times"):format(wanted.url, MOST_REDIRECTS), "refused"
end

-- A bar that follows the file while `fn` runs.
local function watched(wanted, part, fn)
  local bar = progress.begin(wanted.title or wanted.url:match("[^/]*$"), math.ceil(wanted.bytes / MEGABYTE))
  local shown = 0
  local function show()
    local now = math.floor(size_of(part) / MEGABYTE)
    if now > shown then bar:add(now - shown) end
    shown = math.max(shown, now)
  end
  local watcher = sched.spawn(function()
    while true do
      show()
      sched.sleep(0.5)
    end
  end)
  local result = { pcall(fn) }
  watcher:cancel()
  show()
  bar:finish(("%s: %s of %s"):format(wanted.title or wanted.url, megabytes(size_of(part)), megabytes(wanted.bytes)))
  if not result[1] then error(result[2], 0) end
  return unpack(result, 2, 4)
end

local WHY = {
  [401] = "the server asks who you are",
  [403] = "the server does not let this machine have it (a licence to accept, a blocked region or a proxy)",
  [404] = "there is no such file",
  [410] = "the file is gone",
}

-- What the answer of an attempt means: "whole", "again" with seconds to wait, or nil and why not.
local function judge(answer, url, wanted, part)
  local status = answer.status
  if status == 200 or status == 206 then
    local have = size_of(part)
    if have == wanted.bytes then return "whole" end
    if have < wanted.bytes and not answer.headers["content-length"] then
      return "again", 1, ("%s ended early"):format(url)  -- without a length an answer that was cut looks whole
    end
    fs.remove_tree(part)
    return nil, ("%s sent a file of %d bytes, expected %d: it is another file"):format(url, have, wanted.bytes)
  elseif status == 416 and size_of(part) == wanted.bytes then
    return "whole"
  elseif status == 416 then
    fs.remove_tree(part)  -- what is there continues nothing that the server has
    return "again", 0
  elseif status == 429 or status >= 500 then
    return "again", math.min(tonumber(answer.headers["retry-after"]) or 2, LONGEST_WAIT_S),
      ("%s answered %d"):format(url, status)
  end
  return nil, ("%s answered %d: %s"):format(url, status, WHY[status] or "no file comes with it")
end

local function attempts(wanted, part)
  local idle, seen = 0, size_of(part)
  while true do
    local answer, where, code = request(wanted, part)
    local verdict, detail, trouble
    if answer then
      verdict, detail, trouble = judge(answer, where, wanted, part)
    elseif code == "io" or code == "timeout" or code == "connect" then
      verdict, detail, trouble = "again", 1, where
    elseif code == "limit" then
      fs.remove_tree(part)
      detail = ("%s sends more than the %d bytes expected: it is another file"):format(wanted.url, wanted.bytes)
    else
      detail = where
    end
    if verdict == "whole" then return true end
    if not verdict then return nil, detail end
    local now = size_of(part)
    idle = now > seen and 0 or idle + 1
    seen = math.max(seen, now)
    if idle >= MOST_ATTEMPTS then
      return nil, ("%s; %d attempts brought nothing new. %s of %s are kept in %s: the same command goes on there")
        :format(trouble or wanted.url .. " sends nothing", MOST_ATTEMPTS, megabytes(now), megabytes(wanted.bytes), part)
    end
    if trouble then
      log.print(("%s: the download goes on at %s of %s"):format(trouble, megabytes(now), megabytes(wanted.bytes)))
    end
    sched.sleep((wanted.pause_s or 1) * detail)
  end
end

--- Makes `path` the file of that size and SHA-256, and answers with true. Until then what came stands in path.part.
---@async
---@param wanted {url: string, path: string, bytes: integer, sha256: string, title?: string, pause_s?: number}
---  `pause_s`: unit of the waits between attempts, 1
---@return true|nil, string? message
function download.fetch(wanted)
  local part = wanted.path .. ".part"
  if fs.exists(wanted.path) == "file" and fs.sha256_file(wanted.path) == wanted.sha256 then
    return true
  end
  if size_of(part) > wanted.bytes then fs.remove_tree(part) end
  if size_of(part) < wanted.bytes then
    if size_of(part) > 0 then log.print(("%s has %s already"):format(part, megabytes(size_of(part)))) end
    local came, message = watched(wanted, part, function() return attempts(wanted, part) end)
    if not came then return nil, message end
  end
  local sum, trouble = fs.sha256_file(part)
  if not sum then return nil, trouble end
  if sum ~= wanted.sha256 then
    fs.remove_tree(part)
    return nil, ("%s has SHA-256 %s, expected %s: it is another file, or it was damaged on the way. It was deleted")
      :format(wanted.url, sum, wanted.sha256)
  end
  return fs.rename(part, wanted.path)
end

return download
