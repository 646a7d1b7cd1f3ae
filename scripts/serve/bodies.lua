-- Bodies of requests, and the memory that all of them take together. A body stays in memory until its request is
-- answered: connections that send slowly and requests that wait would otherwise hold as many bytes as there may be
-- connections. One client gets at most half of the room, so that the others always have some.

local bodies = {}

local Bodies = {}
Bodies.__index = Bodies

local MOST_BYTES = 512 * 2 ^ 20   -- of all bodies at once
local SHARE = 0.5                 -- of one client where there are several

---@param options {most: integer, alone: boolean, room?: integer}   most: bytes of one body; alone: there is one client;
---  room: bytes of all bodies at once
---@return table
function bodies.new(options)
  local room = options.room or MOST_BYTES
  return setmetatable({ most = options.most, room = room, share = room * (options.alone and 1 or SHARE), held = {},
    of = {}, bytes = 0 }, Bodies)
end

local function hold(self, exchange, name, bytes)
  local before = self.held[exchange]
  self.bytes = self.bytes + bytes - (before and before.bytes or 0)
  self.of[name] = (self.of[name] or 0) + bytes - (before and before.bytes or 0)
  self.held[exchange] = { name = name, bytes = bytes }
end

--- The body of a request. Room for what its header announces is taken before anything is read; a chunked body may have
--- the most bytes. It is held until release().
---@async
---@param exchange khost.Exchange
---@param who ServeClient
---@param most? integer   bytes of this one, where fewer are taken than of others
---@return string|nil text, string? message, string? code   busy, or those of khost.Exchange:body
function Bodies:read(exchange, who, most)
  most = most or self.most
  local announced = tonumber((exchange:head().headers["content-length"] or ""):match "^%d+")
  local bytes = math.min(announced or most, most)
  if self.bytes + bytes > self.room or (self.of[who.name] or 0) + bytes > self.share then
    return nil, ("bodies of %.0f MiB are in work, and no more may be"):format(self.bytes / 2 ^ 20), "busy"
  end
  hold(self, exchange, who.name, bytes)
  local text, message, code = exchange:body(most)
  if text then
    hold(self, exchange, who.name, #text)
  end
  return text, message, code
end

--- Gives the room of a request's body back, where it has one.
---@param exchange khost.Exchange
function Bodies:release(exchange)
  local one = self.held[exchange]
  if one then
    self.held[exchange] = nil
    self.bytes = self.bytes - one.bytes
    local left = (self.of[one.name] or 0) - one.bytes  -- nothing stands there where all other bodies are empty
    self.of[one.name] = left > 0 and left or nil
  end
end

return bodies
