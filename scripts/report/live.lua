-- A page that follows a run: answers for its page and its data, which are made anew only when the store has changed.

local library = require "report.library"
local log = require "khost.log"
local page = require "report.page"
local sched = require "khost.sched"

local live = {}

local Live = {}
Live.__index = Live

local PATH = "/data"
local HOSTS = { ["127.0.0.1"] = true, localhost = true, ["[::1]"] = true }
local HEADERS = { ["cache-control"] = "no-store", ["x-content-type-options"] = "nosniff" }

-- What changes when anything is stored.
local VERSION = [[SELECT (SELECT status FROM runs) || ' ' || (SELECT coalesce(max(id), 0) FROM trajectories) || ' '
  || (SELECT coalesce(max(id), 0) FROM verdicts) || ' ' || (SELECT coalesce(max(id), 0) FROM metrics) || ' '
  || (SELECT count(*) || ' ' || coalesce(max(finished_s), 0) FROM stages) || ' '
  || (SELECT count(*) FROM tasks) AS version]]

--- What tells a store's states apart, cheaply.
---@param stores khost.Store[]
---@return string
function live.version(stores)
  local parts = {}
  for index, store in ipairs(stores) do
    parts[index] = assert(store:query(VERSION))[1].version
  end
  return table.concat(parts, ", ")
end

--- Whether a run among them is still written.
---@param stores khost.Store[]
---@return boolean
function live.is_running(stores)
  for _, store in ipairs(stores) do
    if store:info().status == "running" then
      return true
    end
  end
  return false
end

--- A page of runs that asks for newer data every so many seconds.
---@param stores khost.Store[]
---@param every_s number
---@return table
function live.open(stores, every_s)
  return setmetatable({ stores = stores, every_s = every_s }, Live)
end

-- Data of now, kept until the store has another version.
function Live:fresh()
  local version = live.version(self.stores)
  if not self.data or self.data.version ~= version then
    self.data = page.data(self.stores, { every_s = self.every_s, url = PATH })
    self.data.version = version
  end
  return self.data
end

local function headers(kind)
  local copy = { ["content-type"] = kind .. "; charset=utf-8" }
  for name, value in pairs(HEADERS) do
    copy[name] = value
  end
  return copy
end

--- The answer to a request, of which the header is enough. A page of another name of this machine, as a hostile web
--- site may have given it one, gets nothing.
---@async
---@param head {method: string, target: string, headers: table<string, string>}
---@return integer status, table<string, string> headers, string body
function Live:answer(head)
  local host = (head.headers.host or ""):lower():gsub(":%d+$", "")
  if not HOSTS[host] then
    return 421, headers "text/plain", "this page is served to 127.0.0.1, localhost and [::1] only\n"
  elseif head.method ~= "GET" then
    return 405, headers "text/plain", "only GET is answered\n"
  end
  local path = head.target:match "^[^?]*"
  if path == PATH then
    return 200, headers "application/json", page.json(self:fresh())
  elseif path == "/" then
    local charts, message = library.text()
    local data = self:fresh()
    data.library = charts and "Chart.js " .. library.VERSION or nil
    data.missing = message
    return 200, headers "text/html", page.html(data, charts)
  end
  return 404, headers "text/plain", "the page is at /\n"
end

-- What is answered to a request. What cannot be made of the store is answered 500, and the page goes on.
local function answer_to(self, exchange)
  local answered = { pcall(self.answer, self, exchange:head()) }
  if answered[1] then
    return unpack(answered, 2)
  elseif answered[2] == sched.CANCELLED then
    error(answered[2], 0)
  end
  log.error("watch_failed", { message = tostring(answered[2]) })
  return 500, headers "text/plain", "the page could not be made; the log of khost watch says why\n"
end

--- Answers what a listener accepts, until it is closed.
---@async
---@param listener khost.Listener
function Live:serve(listener)
  while true do
    local exchange = listener:take()
    if not exchange then
      return
    end
    sched.spawn(function()
      exchange:answer(answer_to(self, exchange))
    end)
  end
end

--- Without a listener: writes the page to a file that loads itself again, each time that the store has changed, and a
--- last time without that when no run is written any more.
---@async
---@param path string
---@return true|nil, string? message
function Live:write(path)
  local version
  while live.is_running(self.stores) do
    local now = live.version(self.stores)
    if now ~= version then
      local ok, message = page.write(path, self.stores, { every_s = self.every_s })
      if not ok then
        return nil, message
      end
      version = now
    end
    sched.sleep(self.every_s)
  end
  return page.write(path, self.stores)
end

return live
