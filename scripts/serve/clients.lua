-- Who may ask for what: clients with a token each, from a file, and their rights and quotas. A service without such a
-- file has one client, "local", and listens on loopback alone.

local config = require "khost.config"
local fs = require "khost.fs"
local machine = require "khost.machine"

local clients = {}

-- candidates: may have candidates of loaded tasks judged. tasks: may send the text of a task, whose Python the judge's
-- reference runs. evidence: is answered whole verdicts, with what happened on sets that no agent may see; for trainers
-- and people. metrics: may read /metrics.
clients.RIGHTS = { "candidates", "tasks", "evidence", "metrics" }

local LEAST_TOKEN = 32  -- characters
-- Of an hour; but `waiting` and `episodes` are numbers of requests that wait and of episodes that are open at the same
-- time.
local QUOTAS = { device_s = math.huge, build_s = math.huge, disk_mb = math.huge, waiting = 16, episodes = 64 }

---@class (exact) ServeClient
---@field name string
---@field rights table<string, true>
---@field quotas {device_s: number, build_s: number, disk_mb: number, waiting: number, episodes: number}

local function rights_of(list, where)
  local known, rights = {}, {}
  for _, right in ipairs(clients.RIGHTS) do
    known[right] = true
  end
  if type(list) ~= "table" or #list == 0 then
    return nil, ("%s.rights: a list of %s expected"):format(where, table.concat(clients.RIGHTS, ", "))
  end
  for _, right in ipairs(list) do
    if not known[right] then
      return nil, ("%s.rights: no right '%s'; did you mean '%s'?"):format(where, tostring(right),
        config.nearest(tostring(right), clients.RIGHTS))
    end
    rights[right] = true
  end
  return rights
end

local function quotas_of(entry, where)
  local quotas = {}
  for name, default in pairs(QUOTAS) do
    local value = entry[name]
    if value ~= nil and (type(value) ~= "number" or value ~= value or value < 0) then
      return nil, ("%s.%s: a number of at least 0 expected, got %s"):format(where, name, tostring(value))
    end
    quotas[name] = value or default
  end
  return quotas
end

local KEYS = { token = true, rights = true }

local function client_of(name, entry, path)
  local where = ("%s: clients.%s"):format(path, name)
  if type(entry) ~= "table" then
    return nil, where .. ": a table with token and rights expected"
  end
  for key in pairs(entry) do
    if not KEYS[key] and QUOTAS[key] == nil then
      return nil, ("%s: unknown key '%s'; known are token, rights, device_s, build_s, disk_mb, waiting, "
        .. "episodes")
        :format(where, tostring(key))
    end
  end
  if type(entry.token) ~= "string" or #entry.token < LEAST_TOKEN or entry.token:find("[^%w%-_%.~%+/=]") then
    return nil, ("%s.token: at least %d letters, digits or -._~+/= expected, as `openssl rand -hex 32` prints them")
      :format(where, LEAST_TOKEN)
  end
  local rights, message = rights_of(entry.rights, where)
  local quotas
  if rights then
    quotas, message = quotas_of(entry, where)
  end
  if not quotas then
    return nil, message
  end
  return { name = name, rights = rights, quotas = quotas }
end

local Clients = {}
Clients.__index = Clients

--- The clients of a token file's text.
---@param text string
---@param path string   for messages
---@return table|nil, string? message
function clients.parse(text, path)
  local document, message = config.parse(text, path)
  if not document then
    return nil, message
  end
  if type(document.clients) ~= "table" or not next(document.clients) then
    return nil, path .. ": no [clients.NAME] in it, with token and rights"
  end
  -- By the hash of a token: what a comparison's time tells is of the hash, and the tokens themselves are not kept.
  local by_hash, list = {}, {}
  for name, entry in pairs(document.clients) do
    local client, why = client_of(name, entry, path)
    if not client then
      return nil, why
    end
    local hash = fs.sha256(entry.token)
    if by_hash[hash] then
      return nil, ("%s: clients %s and %s have the same token"):format(path, by_hash[hash].name, name)
    end
    by_hash[hash], list[#list + 1] = client, client
  end
  table.sort(list, function(a, b) return a.name < b.name end)
  return setmetatable({ by_hash = by_hash, list = list }, Clients)
end

-- Whether others may read the file, by its mode in octal digits.
local function is_open(mode)
  return tonumber(mode:sub(-1), 8) % 8 ~= 0 or tonumber(mode:sub(-2, -2), 8) % 8 ~= 0
end

--- The clients of a token file, which nobody but its owner may read.
---@async
---@param path string
---@return table|nil, string? message
function clients.load(path)
  local stat = machine.run({ "stat", "-L", "-c", "%a", path }, { timeout_s = 10 })
  local mode = stat and stat.code == 0 and stat.output:match("^(%d+)")
  if not mode then
    return nil, path .. ": no such file of tokens"
  elseif is_open("00" .. mode) then
    return nil, ("%s: others may read it (mode %s); chmod 600 %s"):format(path, mode, path)
  end
  local text, message = fs.read(path)
  if not text then
    return nil, message
  end
  return clients.parse(text, path)
end

--- The one client of a service without tokens.
---@param with_tasks boolean   whether it may send texts of tasks
---@return table
function clients.of_loopback(with_tasks)
  local one = { name = "local", rights = { candidates = true, metrics = true, tasks = with_tasks or nil },
    quotas = assert(quotas_of({ waiting = 256, episodes = math.huge }, "local")) }
  return setmetatable({ list = { one }, only = one }, Clients)
end

--- Whether requests need a token.
---@return boolean
function Clients:need_tokens() return self.only == nil end

--- Who sent an Authorization header.
---@param authorization string|nil
---@return ServeClient|nil
function Clients:find(authorization)
  if self.only then
    return self.only
  end
  local token = (authorization or ""):match("^[Bb][Ee][Aa][Rr][Ee][Rr] ([^%s,]+)$")
  return token and self.by_hash[fs.sha256(token)] or nil
end

return clients
